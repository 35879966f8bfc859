"""Sums and means over axes.

For floats both are the exact value, rounded once: they go through average pooling, whose kernel is correctly rounded.
So the order of the elements and the number of threads cannot matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from halfulp.autograd.operators._base import PullbackRule, TapeOperator
from halfulp.autograd.operators.shape import broadcast_to, reshape
from halfulp.autograd.scalars import Array, full, holds, scalar_like
from halfulp.autograd.traced import apply
from halfulp.records import AvgPool


@dataclass(frozen=True)
class _Reduction(TapeOperator):
    """A linear reduction over ``axis``: None is every axis, an integer or a tuple names some."""

    axis: int | tuple[int, ...] | None = None
    keepdims: bool = False

    def axes_of(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The reduced axes as sorted positions."""
        ndim = len(shape)
        if self.axis is None:
            return tuple(range(ndim))
        given = (self.axis,) if isinstance(self.axis, int) else self.axis
        axes = tuple(sorted(a + ndim if a < 0 else a for a in given))
        if len(set(axes)) < len(axes) or any(not 0 <= a < ndim for a in axes):
            raise self._fail(f"axis={self.axis}", f"must name different axes of an input of shape {tuple(shape)}")
        return axes

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        return apply(self, tangents[0])

    def _spread(self, g: Any, shape: tuple[int, ...]) -> Any:
        """The cotangent of a sum: the same number for every cell that was added."""
        axes = self.axes_of(shape)
        return broadcast_to(reshape(g, tuple(1 if i in axes else n for i, n in enumerate(shape))), shape)

    def _rows(self, x: Array) -> tuple[Array, tuple[int, ...]]:
        """(x with the reduced axes last and as one, the output's shape)."""
        axes = self.axes_of(x.shape)
        kept = [i for i in range(x.ndim) if i not in axes]
        rows = x.transpose((*kept, *axes)).reshape((*(x.shape[i] for i in kept), math.prod(x.shape[i] for i in axes)))
        if self.keepdims:
            return rows, tuple(1 if i in axes else n for i, n in enumerate(x.shape))
        return rows, tuple(x.shape[i] for i in kept)


@dataclass(frozen=True)
class Sum(_Reduction):
    """The sum over some axes; of no elements, 0."""

    name: ClassVar[str] = "sum"

    def forward(self, *inputs: Array) -> Any:
        rows, shape = self._rows(inputs[0])
        return _sums(rows, 1).reshape(shape)

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        shape = primals[0].shape
        return lambda g: (self._spread(g, shape),)


@dataclass(frozen=True)
class Mean(_Reduction):
    """The mean over some axes; of no elements, 0."""

    name: ClassVar[str] = "mean"

    def forward(self, *inputs: Array) -> Any:
        rows, shape = self._rows(inputs[0])
        return _sums(rows, max(1, rows.shape[-1])).reshape(shape)

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        shape = primals[0].shape
        count = math.prod(shape[a] for a in self.axes_of(shape))
        return lambda g: (self._spread(divide_by(g, max(1, count)), shape),)


@dataclass(frozen=True)
class DivideBy(TapeOperator):
    """Every element times ``times`` (1 or 2), divided by one integer: the exact quotient, rounded once.

    The integer need not be a number of the element type: float16 holds neither 2049 nor 70,000.
    """

    divisor: int
    times: int = 1
    name: ClassVar[str] = "divide_by"

    def forward(self, *inputs: Array) -> Any:
        (x,) = inputs
        if x.dtype == object:
            return x * scalar_like(x, self.times) / scalar_like(x, self.divisor)
        if self.times == 1 and holds(x.dtype, self.divisor):
            return x / x.dtype.type(self.divisor)
        # A window of one cell, or of the same cell twice: the average's kernel divides by integers exactly.
        cells = np.broadcast_to(x[..., None], (*x.shape, self.times))
        return _sums(cells, self.divisor).reshape(x.shape)

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        return apply(self, tangents[0])

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        return lambda g: (apply(self, g),)


@lru_cache(maxsize=256)
def _pool(length: int, divisor: int) -> AvgPool:
    return AvgPool((length,), divisor_override=divisor)


def _sums(rows: Array, divisor: int) -> Array:
    """sum(row) / divisor for every row of the last axis."""
    length = rows.shape[-1]
    if rows.size == 0:
        return full(rows.shape[:-1], rows, 0)
    if rows.dtype != object and rows.dtype.kind in "iub":
        return np.asarray(rows.sum(axis=-1))
    return np.asarray(_pool(length, divisor)(rows))


def divide_by(x: Any, divisor: int, times: int = 1) -> Any:
    """Every element times 1 or 2, divided by one integer."""
    if divisor % times == 0:
        divisor, times = divisor // times, 1
    return x if divisor == times == 1 else apply(DivideBy(divisor, times), x)


def sum_(x: Any, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Any:
    """The sum over some axes, correctly rounded.

    >>> sum_(np.array([1e16, 1.0, -1e16]))
    array(1.)
    """
    return apply(Sum(axis, keepdims), x)


def mean(x: Any, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Any:
    """The mean over some axes, correctly rounded.

    >>> mean(np.array([[1.0, 2.0], [3.0, 6.0]]), axis=1)
    array([1.5, 4.5])
    """
    return apply(Mean(axis, keepdims), x)


def sum_to(g: Any, shape: tuple[int, ...]) -> Any:
    """The transpose of broadcasting from ``shape``: sums over the axes that were repeated."""
    if g.shape == shape:
        return g
    new = len(g.shape) - len(shape)
    repeated = tuple(i + new for i, n in enumerate(shape) if n == 1 and g.shape[i + new] != 1)
    return reshape(sum_(g, (*range(new), *repeated)), shape)
