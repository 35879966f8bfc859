"""Elementwise functions: the compiled core decides nearly all elements, ball arithmetic the rest."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfulp import _core, records
from halfulp.kernels._registry import register
from halfulp.numbers import Format, elementary, float_format
from halfulp.records import ElementwiseOperator, Pullback, _inputs

Array = NDArray[Any]

_FUNCTIONS = [
    "relu",
    "leaky_relu",
    "elu",
    "sigmoid",
    "tanh",
    "softplus",
    "gelu",
    "gelu_tanh",
    "silu",
    "mish",
    "hardswish",
    "hardsigmoid",
    "hardtanh",
    "exp",
    "log",
    "sqrt",
    "pow",
    "erf",
    "reciprocal",
    "abs",
    "log1p",
    "expm1",
    "rsqrt",
]
"""In the order of the core's ``Function``."""


class Compiled(NamedTuple):
    """A record made ready: the core's function and parameters, and whether doubles hold these."""

    function: int
    first: float
    second: float
    usable: bool


@lru_cache(maxsize=1024)
def compiled(op: ElementwiseOperator) -> Compiled:
    """What the core is told of a record."""
    exact = [*op.parameters, 0, 0][:2]
    doubles = [_double(value) for value in exact]
    return Compiled(_FUNCTIONS.index(op.function), doubles[0], doubles[1], doubles == exact)


def _double(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return 0.0


def _run(op: ElementwiseOperator, x: Any, t: Any = None, what: str = "tangent", out: Any = None) -> Array:
    """f(x), or f'(x) t: by the core, and what it leaves open by balls."""
    made = compiled(op)
    result: Array
    result, positions, xs, ts = _core.elementwise(op.name, made.function, made.first, made.second, x, t, what, out)
    if not made.usable:
        arrays = (np.asarray(x).ravel(), None if t is None else np.asarray(t).ravel())
        positions = np.arange(result.size)
        xs, ts = (np.zeros(result.size) if a is None else a.astype(np.float64) for a in arrays)
    if positions.size:
        target = float_format(result.dtype)
        values = _decided(op, target, xs, None if t is None else ts)
        result.flat[positions] = values.astype(result.dtype)  # also of an array without axes
    return result


def _decided(op: ElementwiseOperator, target: Format, xs: Array, ts: Array | None) -> Array:
    """The answers for these numbers, each computed once."""
    name, parameters = op.function, op.parameters
    bits = xs.view(np.int64) if ts is None else np.stack([xs.view(np.int64), ts.view(np.int64)])
    _, first, back = np.unique(bits, axis=-1, return_index=True, return_inverse=True)
    if ts is None:
        found = [elementary.rounded_value(name, parameters, float(xs[i]), target) for i in first]
    else:
        pairs = ((float(xs[i]), float(ts[i])) for i in first)
        found = [elementary.rounded_slope(name, parameters, x, t, target) for x, t in pairs]
    return np.array(found)[back.reshape(-1)]


def forward(op: ElementwiseOperator, *inputs: Any, out: Any = None) -> Array:
    """The correctly rounded value of every element."""
    if len(inputs) != 1:
        _inputs.as_arrays(op, inputs)
    return _run(op, np.asarray(inputs[0]), out=out)


def jvp(op: ElementwiseOperator, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    """The values, and the derivative times the tangent, rounded once."""
    if len(primals) != 1 or len(tangents) != 1:
        _inputs.as_tangents(op, _inputs.as_arrays(op, primals), tangents)
    x = np.asarray(primals[0])
    return forward(op, x), _run(op, x, np.asarray(tangents[0]))


def vjp(op: ElementwiseOperator, *primals: Any) -> tuple[Array, Pullback]:
    """The values and a pullback, which keeps its own copy of the input."""
    if len(primals) != 1:
        _inputs.as_arrays(op, primals)
    output = forward(op, primals[0])
    if isinstance(op, records.Relu):
        return output, _gate(op, np.asarray(primals[0]))
    x = np.array(primals[0], order="K", copy=True)

    def pullback(cotangent: Any) -> tuple[Array]:
        return (_run(op, x, np.asarray(cotangent), "cotangent"),)

    return output, pullback


def _gate(op: records.Relu, x: Array) -> Pullback:
    """The pullback of relu, which keeps one bit per element."""
    size, shape, dtype = x.size, x.shape, x.dtype
    with np.errstate(invalid="ignore"):  # a signalling NaN is a NaN like others
        closed = np.packbits(np.ravel(x <= 0))  # the closed cells, so that a NaN stays open
    word = np.dtype(f"i{dtype.itemsize}")

    def pullback(cotangent: Any) -> tuple[Array]:
        g = _inputs.as_cotangent(op, cotangent, shape, dtype)
        # A closed cell's bit less 1 is 0, an open cell's is -1, all ones: an AND of the bits leaves +0 or the number.
        keep = np.subtract(np.unpackbits(closed, count=size), 1, dtype=np.int8, casting="unsafe").astype(word)
        np.bitwise_and(keep, np.ascontiguousarray(g).view(word).reshape(-1), out=keep)
        return (keep.view(dtype).reshape(shape),)

    return pullback


for _record in records.ELEMENTWISE:
    register(_record, forward=forward, jvp=jvp, vjp=vjp)
