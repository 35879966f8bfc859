"""Variance over axes in the compiled core."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from halfulp import _core
from halfulp.kernels._registry import register
from halfulp.kernels._squares import Exact, Squares
from halfulp.numbers import float_format
from halfulp.records import Pullback, Var, _inputs

Array = np.ndarray[Any, Any]


class _Call:
    """One variance: the cells that are reduced together as rows."""

    def __init__(self, op: Any, x: Array) -> None:
        self.op, self.shape, self.dtype = op, x.shape, x.dtype
        self.result = op.output_shape(x.shape)
        axes = op.axes_of(x.shape)
        kept = [i for i in range(x.ndim) if i not in axes]
        self.order = (*kept, *axes)
        self.length = prod(x.shape[i] for i in axes)
        self.squares = Squares(op.name, self.rows(x), None, op.divisor(x.shape))

    def rows(self, x: Array) -> Array:
        return np.ascontiguousarray(x.transpose(self.order)).reshape(-1, self.length)

    def value(self) -> Array:
        x = self.squares.x
        if x.size == 0:
            return np.zeros(self.result, self.dtype)
        rows, sizes = len(x), [len(x), 1, self.length, 1]
        out, undecided = _core.group_statistics(
            self.op.name, sizes, [False] * 3, x, None, None, 1.0, True, self.op.correction, [rows]
        )
        if undecided.size:
            exact, target = Exact(self.squares, 1, None, None, None), float_format(self.dtype)
            for row in undecided.tolist():
                out[row] = np.float64(exact.rounded(row, None, target)).astype(self.dtype)
        return np.asarray(out.reshape(self.result))

    def tangent(self, t: Array) -> Array:
        return np.asarray(self.squares.sums(2, self.rows(t)).reshape(self.result))

    def cotangent(self, g: Array) -> Array:
        cells = self.squares.cells(2, g=np.ascontiguousarray(g).reshape(-1))
        moved = cells.reshape([self.shape[i] for i in self.order])
        return np.ascontiguousarray(moved.transpose(np.argsort(self.order)) if self.order else moved)


def forward(op: Any, *inputs: Any, out: Any = None) -> Any:
    """The variance."""
    (x,) = _inputs.as_arrays(op, inputs)
    assert x is not None
    return _Call(op, x).value()


def jvp(op: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    """The value and 2 sum(c t) / k."""
    (x,) = _inputs.as_arrays(op, primals)
    (t,) = _inputs.as_tangents(op, (x,), tangents)
    assert x is not None
    assert t is not None
    call = _Call(op, x)
    return call.value(), call.tangent(t)


def vjp(op: Any, *primals: Any, wanted: Any = None) -> tuple[Any, Pullback]:
    """The value, and a pullback that keeps its own copy of the input."""
    (x,) = _inputs.as_arrays(op, primals)
    assert x is not None
    call = _Call(op, x.copy())

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        return (call.cotangent(_inputs.as_cotangent(op, cotangent, call.result, call.dtype)),)

    return call.value(), pullback


register(Var, forward=forward, jvp=jvp, vjp=vjp)
