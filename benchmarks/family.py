"""The rest of the pooling family beside max and average: value, JVP and VJP of every operator.

python -m benchmarks family [--isa baseline|avx2|avx512|neon] [--threads N] [--rows TEXT] [--rounds N]

Every figure is the time of an operator as a multiple of the same mode of max or average over windows of the same shape,
and, in brackets, of a copy of as many bytes as the mode reads and writes. VJP is the value and one pullback.

Unfold writes, and fold reads, an array that is larger by the number of cells in a window: no average moves as much.
Their first figure is that of the copy.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import halfulp as hu
from benchmarks.older import ISA_NAMES
from benchmarks.pooling import BIG, MEDIUM
from benchmarks.timing import best_times
from halfulp import _core

MODES = ("value", "jvp", "vjp")


@dataclass(frozen=True)
class Case:
    """An operator, its inputs, and the max or average of the same windows with its input."""

    name: str
    op: Any
    inputs: tuple[Any, ...]
    yardstick: Any  # None: a copy of the same bytes
    beside: Any
    goal: float = 1.5


def cases() -> list[tuple[str, Callable[[], Case]]]:
    """(name, builder): the arrays are made when a case is measured."""
    found: list[tuple[str, Callable[[], Case]]] = []

    def add(name: str, build: Callable[[], Any]) -> None:
        found.append((name, lambda: Case(name, *build())))

    windows: dict[str, tuple[tuple[int, ...], dict[str, Any], tuple[int, ...]]] = {
        "3x3 s2 p1": ((3, 3), {"stride": 2, "padding": 1}, BIG),
        "2x2 s2": ((2, 2), {}, BIG),
        "3x3 s1 p1": ((3, 3), {"stride": 1, "padding": 1}, MEDIUM),
    }
    for title, (kernel, options, shape) in windows.items():
        maximum, average = hu.MaxPool(kernel, **options), hu.AvgPool(kernel, **options)
        sliding = (
            ("min", hu.MinPool(kernel, **options), maximum, 1.5),
            ("sum", hu.SumPool(kernel, **options), average, 1.5),
            ("lp, p = 1,", hu.LpPool(kernel, 1, **options), average, 1.5),
            ("lp, p = 2,", hu.LpPool(kernel, 2, **options), average, 2.0),
            ("lp, p = inf,", hu.LpPool(kernel, math.inf, **options), maximum, 1.5),
        )
        for label, op, yardstick, goal in sliding:
            add(f"{label} {title}", lambda a=op, b=yardstick, c=shape, d=goal: _alone(a, b, c, d))
        add(f"unfold {title}", lambda a=kernel, b=options, c=shape: _unfolded(a, b, c))
        add(f"fold {title}", lambda a=kernel, b=options, c=shape: _folded(a, b, c))
    for label, one, yardstick, goal in (
        ("min", hu.GlobalMinPool(2), hu.GlobalMaxPool(2), 1.5),
        ("lp, p = 1", hu.GlobalLpPool(2, 1), hu.GlobalAvgPool(2), 1.5),
        ("lp, p = 2", hu.GlobalLpPool(2, 2), hu.GlobalAvgPool(2), 2.0),
        ("lp, p = inf", hu.GlobalLpPool(2, math.inf), hu.GlobalMaxPool(2), 1.5),
    ):
        add(f"global {label}", lambda a=one, b=yardstick, c=goal: _alone(a, b, BIG, c))
    add("unpool 2x2 s2", _unpooled)
    add("fractional max 2x2", _fractional)
    return found


def _normal(shape: tuple[int, ...]) -> Any:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def _alone(op: Any, yardstick: Any, shape: tuple[int, ...], goal: float) -> tuple[Any, ...]:
    x = _normal(shape)
    return op, (x,), yardstick, x, goal


def _strides(kernel: tuple[int, ...], options: dict[str, Any]) -> dict[str, Any]:
    return options or {"stride": kernel}


def _smaller(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (min(8, shape[0]), *shape[1:])


def _unfolded(kernel: Any, options: Any, shape: Any) -> tuple[Any, ...]:
    x = _normal(_smaller(shape))
    return hu.Unfold(kernel, **_strides(kernel, options)), (x,), None, x


def _folded(kernel: Any, options: Any, shape: Any) -> tuple[Any, ...]:
    """The input of a fold is an unfolded array."""
    x = _normal(_smaller(shape))
    chosen = _strides(kernel, options)
    columns = hu.Unfold(kernel, **chosen)(x)
    return hu.Fold(shape[2:], kernel, **chosen), (columns,), None, x


def _unpooled() -> tuple[Any, ...]:
    x = _normal(BIG)
    values, indices = hu.max_pool2d(x, 2, return_indices=True)
    return hu.MaxUnpool((2, 2)), (values, indices), hu.MaxPool((2, 2)), x


def _fractional() -> tuple[Any, ...]:
    x = _normal(BIG)
    samples = np.random.default_rng(1).random((*BIG[:2], 2), dtype=np.float32)
    return hu.FractionalMaxPool((2, 2), output_size=(56, 56)), (x, samples), hu.MaxPool((2, 2)), x


def call_of(op: Any, inputs: tuple[Any, ...], mode: str) -> Callable[[], Any]:
    if mode == "value":
        return lambda: op(*inputs)
    if mode == "jvp":
        tangents = (inputs[0], *(None for _ in inputs[1:]))
        return lambda: op.jvp(inputs, tangents)
    cotangent = np.ones_like(op(*inputs))
    return lambda: op.vjp(*inputs)[1](cotangent)


def copy_of(case: Case, mode: str) -> Callable[[], Any]:
    """A copy of as many bytes as the mode reads and writes."""
    moved = sum(x.nbytes for x in case.inputs) + case.op(*case.inputs).nbytes
    half = (moved if mode == "value" else 2 * moved) // 2
    source, target = np.ones(half, np.uint8), np.ones(half, np.uint8)
    return lambda: np.copyto(target, source)


def measure(case: Case, mode: str, rounds: int) -> dict[str, float]:
    contenders = {
        "ours": call_of(case.op, case.inputs, mode),
        "copy": copy_of(case, mode),
    }
    contenders["beside"] = call_of(case.yardstick, (case.beside,), mode) if case.yardstick else contenders["copy"]
    return best_times(contenders, rounds, budget=1.0)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks family", description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", default="", help="only rows whose name has this text")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    hu.set_num_threads(options.threads)
    chosen = ISA_NAMES[_core.get_isa()]
    table = Table(title=f"Family, {chosen}, {options.threads} threads: multiples of max or average (of a copy)")
    for column in ("work", "beside", "goal", *MODES, *(f"{mode}, ms" for mode in MODES)):
        table.add_column(column, justify="left" if column in ("work", "beside") else "right")
    for name, build in cases():
        if options.rows not in name:
            continue
        case = build()
        times = [measure(case, mode, options.rounds) for mode in MODES]
        table.add_row(
            name,
            type(case.yardstick).__name__ if case.yardstick else "copy",
            f"{case.goal:.1f}",
            *(f"{t['ours'] / t['beside']:.2f} ({t['ours'] / t['copy']:.1f})" for t in times),
            *(f"{t['ours'] * 1e3:.2f}" for t in times),
        )
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
