"""Squared error in the compiled core."""

from __future__ import annotations

from typing import Any

import numpy as np

from halfulp.kernels._registry import register
from halfulp.kernels._squares import Squares
from halfulp.records import MSELoss, Pullback, _inputs

Array = np.ndarray[Any, Any]


def _flat(array: Any) -> Any:
    return None if array is None else np.ascontiguousarray(array).reshape(1, -1)


class _Call:
    """One loss: two arrays as one row."""

    def __init__(self, op: Any, x: Array, y: Array) -> None:
        self.op, self.shape, self.dtype = op, x.shape, x.dtype
        self.result = op.output_shape(x.shape, y.shape)
        self.squares = Squares(op.name, _flat(x), _flat(y), op.divisor(x.shape))

    def value(self, factor: int, t: Any = None, s: Any = None) -> Array:
        work = self.squares.cells if self.op.reduction == "none" else self.squares.sums
        return np.asarray(work(factor, _flat(t), _flat(s)).reshape(self.result))

    def share(self, factor: int, g: Array) -> Array:
        each = _flat(g) if self.op.reduction == "none" else g.reshape(1)
        return np.asarray(self.squares.cells(factor, g=each).reshape(self.shape))


def forward(op: Any, *inputs: Any, out: Any = None) -> Any:
    """The squares."""
    x, y = _inputs.as_arrays(op, inputs)
    assert x is not None
    assert y is not None
    return _Call(op, x, y).value(1)


def jvp(op: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    """The value and 2 d (dx - dy)."""
    x, y = _inputs.as_arrays(op, primals)
    t, s = _inputs.as_tangents(op, (x, y), tangents)
    assert x is not None
    assert y is not None
    call = _Call(op, x, y)
    if t is None and s is None:
        return call.value(1), np.zeros(call.result, call.dtype)
    return call.value(1), call.value(2, t, s)


def vjp(op: Any, *primals: Any, wanted: Any = None) -> tuple[Any, Pullback]:
    """The value, and a pullback that keeps its own copies of the inputs."""
    x, y = _inputs.as_arrays(op, primals)
    assert x is not None
    assert y is not None
    call = _Call(op, x.copy(), y.copy())
    needed = (True, True) if wanted is None else tuple(wanted)

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        g = _inputs.as_cotangent(op, cotangent, call.result, call.dtype)
        return tuple(call.share(factor, g) if need else None for factor, need in zip((2, -2), needed, strict=True))

    return call.value(1), pullback


register(MSELoss, forward=forward, jvp=jvp, vjp=vjp)
