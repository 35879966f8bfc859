"""Random networks as programs: a list of steps on a pool of tensors that all have the same shape.

Any step may read any earlier tensor, so branches and shared nodes come by themselves. Three interpreters run them:
halfulp, PyTorch, and for rationals a composition of the specification's own forward and VJP.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flint
import numpy as np
import torch
from hypothesis import strategies as st

import halfulp as hu
from halfulp import ops

CHANNELS, SIZE = 2, 4
SHAPE = (CHANNELS, SIZE, SIZE)
BETA = 2.0

RATIONAL = ("neg", "relu", "add", "sub", "mul", "conv", "conv_transpose", "max_pool", "avg_pool")
SMOOTH = ("tanh", "sigmoid", "exp_tanh", "smooth_max_pool", "div", "log_square")


@dataclass(frozen=True)
class Step:
    """One operation on the tensors at positions ``a`` and ``b`` of the pool, with weight ``w`` where it has one."""

    kind: str
    a: int
    b: int
    w: int


@st.composite
def programs(draw: Any, kinds: tuple[str, ...] = RATIONAL + SMOOTH, depth: int = 7) -> list[Step]:
    steps = []
    for position in range(draw(st.integers(1, depth))):
        reach = st.integers(0, position + 1)
        steps.append(Step(draw(st.sampled_from(kinds)), draw(reach), draw(reach), draw(st.integers(0, 1))))
    return steps


def parameters(seed: int, dtype: Any = np.float64) -> dict[str, Any]:
    """Two inputs, two kernels and two biases; quarters, so that ties and zeros do occur."""
    generator = np.random.default_rng(seed)

    def draw(shape: tuple[int, ...]) -> Any:
        return (generator.integers(-6, 7, shape) / 4).astype(dtype)

    return {
        "x": [draw(SHAPE), draw(SHAPE)],
        "w": [draw((CHANNELS, CHANNELS, 3, 3)), draw((CHANNELS, CHANNELS, 3, 3))],
        "b": [draw((CHANNELS,)), draw((CHANNELS,))],
    }


def exact_parameters(seed: int, scalar: Any = flint.fmpq) -> dict[str, Any]:
    def lift(array: Any) -> Any:
        return np.frompyfunc(lambda v: scalar(int(v * 4)) / 4, 1, 1)(array)

    return hu.tree_map(lift, parameters(seed))


def run(program: list[Step], p: dict[str, Any]) -> Any:
    """The program with halfulp, on arrays or traced values: one number."""
    pool = list(p["x"])
    for step in program:
        pool.append(_step(step, pool[step.a], pool[step.b], p["w"][step.w], p["b"][step.w]))
    last = pool[-1]
    return ops.mean(last * last + pool[-2])


def _step(step: Step, a: Any, b: Any, w: Any, bias: Any) -> Any:
    kind = step.kind
    if kind in ("neg", "relu", "tanh", "sigmoid"):
        return getattr(ops, kind)(a)
    if kind in ("add", "sub", "mul"):
        return getattr(ops, kind)(a, b)
    if kind == "div":
        return ops.div(a, ops.add(ops.mul(b, b), 1))
    if kind == "exp_tanh":
        return ops.exp(ops.tanh(a))
    if kind == "log_square":
        return ops.log(ops.add(ops.mul(a, a), 1))
    if kind == "conv":
        return hu.conv2d(a, w, bias, padding=1)
    if kind == "conv_transpose":
        return hu.conv_transpose2d(a, w, bias, padding=1)
    if kind == "smooth_max_pool":
        return hu.smooth_max_pool2d(a, 3, BETA, stride=1, padding=1)
    return getattr(hu, kind + "2d")(a, 3, 1, 1)


def record(program: list[Step], p: dict[str, Any]) -> tuple[hu.Tape, list[int]]:
    """(the program on a tape, step by step with the tape's methods; the ids of the leaves in the parameters' order)."""
    tape, leaves, ids = hu.Tape(), [], {}
    for name, arrays in p.items():
        ids[name] = []
        for array in arrays:
            tape, id = tape.leaf(array, name=f"{name}{len(ids[name])}")
            ids[name].append(id)
            leaves.append(id)
    pool = list(ids["x"])
    tape, one = tape.leaf(np.ones_like(p["x"][0]), name="one", requires_grad=False)
    for step in program:
        tape, id = _record_step(tape, step, pool[step.a], pool[step.b], ids["w"][step.w], ids["b"][step.w], one)
        pool.append(id)
    tape, square = tape.mul(pool[-1], pool[-1])
    tape, total = tape.add(square, pool[-2])
    tape, _ = tape.mean(total)
    return tape, leaves


def _record_step(tape: hu.Tape, step: Step, a: int, b: int, w: int, bias: int, one: int) -> tuple[hu.Tape, int]:
    kind = step.kind
    if kind in ("neg", "relu", "tanh", "sigmoid"):
        return getattr(tape, kind)(a)  # type: ignore[no-any-return]
    if kind in ("add", "sub", "mul"):
        return getattr(tape, kind)(a, b)  # type: ignore[no-any-return]
    if kind == "exp_tanh":
        tape, a = tape.tanh(a)
        return tape.exp(a)
    if kind in ("div", "log_square"):
        chosen = b if kind == "div" else a
        tape, square = tape.mul(chosen, chosen)
        tape, square = tape.add(square, one)
        return tape.div(a, square) if kind == "div" else tape.log(square)
    if kind in ("conv", "conv_transpose"):
        return getattr(tape, kind)(w, bias, a, padding=1)  # type: ignore[no-any-return]
    if kind == "smooth_max_pool":
        return tape.smooth_max_pool2d(a, 3, BETA, stride=1, padding=1)
    return getattr(tape, kind + "2d")(a, 3, 1, 1)  # type: ignore[no-any-return]


def run_torch(program: list[Step], p: dict[str, Any]) -> Any:
    """The same program with PyTorch."""
    F = torch.nn.functional
    pool = list(p["x"])
    for step in program:
        a, b, w, bias = pool[step.a], pool[step.b], p["w"][step.w], p["b"][step.w]
        window = F.unfold(a[None], 3, padding=1).reshape(CHANNELS, 9, SIZE, SIZE)
        choices = {
            "neg": lambda a=a: -a,
            "relu": lambda a=a: torch.relu(a),
            "tanh": lambda a=a: torch.tanh(a),
            "sigmoid": lambda a=a: torch.sigmoid(a),
            "exp_tanh": lambda a=a: torch.exp(torch.tanh(a)),
            "log_square": lambda a=a: torch.log(a * a + 1),
            "add": lambda a=a, b=b: a + b,
            "sub": lambda a=a, b=b: a - b,
            "mul": lambda a=a, b=b: a * b,
            "div": lambda a=a, b=b: a / (b * b + 1),
            "conv": lambda a=a, w=w, c=bias: F.conv2d(a[None], w, c, padding=1)[0],
            "conv_transpose": lambda a=a, w=w, c=bias: F.conv_transpose2d(a[None], w, c, padding=1)[0],
            "max_pool": lambda a=a: F.max_pool2d(a[None], 3, 1, 1)[0],
            "avg_pool": lambda a=a: F.avg_pool2d(a[None], 3, 1, 1)[0],
            "smooth_max_pool": lambda u=window: torch.logsumexp(BETA * u, 1) / BETA,
        }
        pool.append(choices[step.kind]())
    last = pool[-1]
    return (last * last + pool[-2]).mean()


def spec_gradient(program: list[Step], p: dict[str, Any]) -> dict[str, Any]:
    """The gradient by composing ``hu.spec`` by hand, without tape or transforms; rational steps only.

    Over floats the specification rounds each of its answers once; shares are added in the tape's order.
    """
    pool = list(p["x"])
    for step in program:
        pool.append(_spec_forward(step, pool, p))
    zero = 0 * p["x"][0]
    share = (zero + 1) / int(np.prod(SHAPE))
    cotangents = [zero for _ in pool]
    cotangents[-1] = share * pool[-1] + share * pool[-1]
    cotangents[-2] = share
    gradient = {"w": [0 * w for w in p["w"]], "b": [0 * b for b in p["b"]]}
    for position in reversed(range(len(program))):
        step, g = program[position], cotangents[position + 2]
        for target, share in _spec_pull(step, pool, p, g):
            if isinstance(target, int):
                cotangents[target] = cotangents[target] + share
            else:
                name, index = target
                gradient[name][index] = gradient[name][index] + share
    return {"x": cotangents[:2], **gradient}


_RECORDS = {
    "conv": hu.Conv(2, padding=1),
    "conv_transpose": hu.ConvTranspose(2, padding=1),
    "max_pool": hu.MaxPool((3, 3), stride=1, padding=1),
    "avg_pool": hu.AvgPool((3, 3), stride=1, padding=1),
}


def _spec_forward(step: Step, pool: list[Any], p: dict[str, Any]) -> Any:
    a, b = pool[step.a], pool[step.b]
    if step.kind in ("conv", "conv_transpose"):
        return hu.spec.forward(_RECORDS[step.kind], a, p["w"][step.w], p["b"][step.w])
    if step.kind in _RECORDS:
        return hu.spec.forward(_RECORDS[step.kind], a)
    return {"neg": -a, "relu": np.where(a > 0, a, 0 * a), "add": a + b, "sub": a - b, "mul": a * b}[step.kind]


def _spec_pull(step: Step, pool: list[Any], p: dict[str, Any], g: Any) -> list[tuple[Any, Any]]:
    a, b = pool[step.a], pool[step.b]
    if step.kind in ("conv", "conv_transpose"):
        dx, dw, db = hu.spec.vjp(_RECORDS[step.kind], (a, p["w"][step.w], p["b"][step.w]), g)
        return [(step.a, dx), (("w", step.w), dw), (("b", step.w), db)]
    if step.kind in _RECORDS:
        return [(step.a, hu.spec.vjp(_RECORDS[step.kind], (a,), g)[0])]
    return {
        "neg": [(step.a, -g)],
        "relu": [(step.a, np.where(a > 0, g, 0 * g))],
        "add": [(step.a, g), (step.b, g)],
        "sub": [(step.a, g), (step.b, -g)],
        "mul": [(step.a, g * b), (step.b, g * a)],
    }[step.kind]
