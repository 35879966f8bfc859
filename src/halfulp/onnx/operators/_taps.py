"""Sums with fixed rational weights along several axes, as one exact value for each output, rounded once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from halfulp.autograd.operators._base import LinearMap
from halfulp.numbers import Format, float_format, is_float, on_grid
from halfulp.numbers import rounded as round_exact
from halfulp.onnx._nearest import nearest

_UNIT = 2.0**-53

Taps = tuple[tuple[int, Fraction], ...]
"""The cells that an output uses along one axis, and their weights; no weight is 0."""


@dataclass(frozen=True)
class Axis:
    """The taps of every output along one axis of a given size."""

    size: int
    taps: tuple[Taps, ...]

    @cached_property
    def transposed(self) -> Axis:
        """The outputs that every cell goes to, with the same weights."""
        back: list[list[tuple[int, Fraction]]] = [[] for _ in range(self.size)]
        for output, taps in enumerate(self.taps):
            for cell, weight in taps:
                back[cell].append((output, weight))
        return Axis(len(self.taps), tuple(tuple(taps) for taps in back))

    @cached_property
    def table(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Cells and float64 weights, one row for each tap; a tap that an output does not have has weight 0."""
        most = max((len(taps) for taps in self.taps), default=0)
        cells = np.zeros((most, len(self.taps)), dtype=np.int64)
        weights = np.zeros((most, len(self.taps)))
        for output, taps in enumerate(self.taps):
            for k, (cell, weight) in enumerate(taps):
                cells[k, output], weights[k, output] = cell, float(weight)
        return cells, weights

    @cached_property
    def denominator_bits(self) -> int | None:
        """The bits behind the point of all weights, or None if one is not a dyadic number."""
        bits = 0
        for taps in self.taps:
            for _, weight in taps:
                bottom = weight.denominator
                if bottom & (bottom - 1) or bottom.bit_length() > 20:
                    return None
                bits = max(bits, bottom.bit_length() - 1)
        return bits


def linear_map(axes: Sequence[tuple[int, Axis]], name: str) -> LinearMap:
    """The map and its transpose, for floats and exact numbers."""
    back = [(place, axis.transposed) for place, axis in axes]
    return LinearMap(lambda x: weighted(x, axes), lambda g: weighted(g, back), name)


def weighted(x: NDArray[Any], axes: Sequence[tuple[int, Axis]]) -> NDArray[Any]:
    """The weighted sums along the given axes of x."""
    if x.dtype == object:
        return _exact(x, axes)
    if not is_float(x.dtype):
        raise TypeError(f"interpolation of {x.dtype} is not computed; convert it to a float type")
    values = x.astype(np.float64)
    with np.errstate(all="ignore"):
        estimate, size, unit = values, np.abs(values), _units(x)
        for place, axis in axes:
            estimate, size = _along(estimate, place, axis, False), _along(size, place, axis, True)
            unit = _smallest(unit, place, axis)
        terms = sum(axis.table[0].shape[0] + 2 for _, axis in axes)
        error = size * (terms * _UNIT) + 2.0**-1060
        bits = [axis.denominator_bits for _, axis in axes]
        if all(b is not None for b in bits):  # every partial sum is a multiple of the same small number
            step = unit * 2.0 ** -sum(b for b in bits if b is not None)
            error = np.where(size < step * 2.0**53, 0.0, error)
        exact_here = (error == 0) | (size == 0)
        stands = exact_here | (~np.isfinite(estimate) & _not_finite(x, axes))
        decided = np.where(exact_here, on_grid(estimate, float_format(x.dtype)), estimate)
    return nearest(decided, error, x.dtype, _Windows(x, axes, estimate.shape).exactly, stands)


def _along(x: NDArray[np.float64], place: int, axis: Axis, positive: bool) -> NDArray[np.float64]:
    cells, weights = axis.table
    shape = [1] * x.ndim
    shape[place] = len(axis.taps)
    total = np.full((*x.shape[:place], len(axis.taps), *x.shape[place + 1 :]), -0.0)  # a sum of -0 alone is -0
    for cell, weight in zip(cells, weights, strict=True):
        row = (np.abs(weight) if positive else weight).reshape(shape)
        total = total + np.where(row == 0, -0.0, x.take(cell, axis=place) * row)
    return total


def _units(x: NDArray[Any]) -> NDArray[np.float64]:
    """For every cell a power of two that divides it; infinity for 0, which any divides."""
    wide = x.astype(np.float64)
    digits = 53 if x.dtype.itemsize == 8 else 24 if x.dtype.itemsize == 4 else 11
    _, exponent = np.frexp(np.where(np.isfinite(wide), wide, 1.0))
    return np.where(wide == 0, np.inf, np.ldexp(1.0, np.maximum(exponent - digits, -1022)))


def _smallest(unit: NDArray[np.float64], place: int, axis: Axis) -> NDArray[np.float64]:
    cells, weights = axis.table
    shape = [1] * unit.ndim
    shape[place] = len(axis.taps)
    least = np.full((*unit.shape[:place], len(axis.taps), *unit.shape[place + 1 :]), np.inf)
    for cell, weight in zip(cells, weights, strict=True):
        used = np.where(weight.reshape(shape) == 0, np.inf, unit.take(cell, axis=place))
        least = np.minimum(least, used)
    return least


def _not_finite(x: NDArray[Any], axes: Sequence[tuple[int, Axis]]) -> NDArray[np.bool_]:
    """Whether an output uses a cell that is not finite."""
    marks = (~np.isfinite(x)).astype(np.float64)
    for place, axis in axes:
        marks = _along(marks, place, axis, True)
    return np.asarray(marks > 0)


class _Windows:
    """The cells and weights of single outputs, for exact sums."""

    def __init__(self, x: NDArray[Any], axes: Sequence[tuple[int, Axis]], shape: tuple[int, ...]) -> None:
        self._x, self._axes, self._shape = x, dict(axes), shape

    def value(self, position: tuple[int, ...]) -> Any:
        """The exact sum at a position of the output."""
        taps: list[Taps] = [
            self._axes[i].taps[p] if i in self._axes else ((p, Fraction(1)),) for i, p in enumerate(position)
        ]
        total = flint.fmpq(0)
        for cells in itertools.product(*taps):
            weight = Fraction(1)
            for _, factor in cells:
                weight *= factor
            cell = self._x[tuple(c for c, _ in cells)]
            number = cell if self._x.dtype == object else flint.fmpq(*float(cell).as_integer_ratio())
            total = number * flint.fmpq(weight.numerator, weight.denominator) + total
        return total

    def exactly(self, index: int, target: Format) -> float:
        """The sum at a flat index, rounded."""
        position = tuple(int(i) for i in np.unravel_index(index, self._shape))
        return float(round_exact(np.array([self.value(position)], dtype=object), target.dtype)[0])


def _exact(x: NDArray[Any], axes: Sequence[tuple[int, Axis]]) -> NDArray[Any]:
    shape = list(x.shape)
    for place, axis in axes:
        shape[place] = len(axis.taps)
    out = np.empty(shape, dtype=object)
    windows = _Windows(x, axes, tuple(shape))
    for position in np.ndindex(*shape):
        out[position] = windows.value(position)
    return out
