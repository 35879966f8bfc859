"""Sums over windows and their transpose, in the longest float of the machine, and rounding with an error bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from halfulp.geometry import Axis, flat_index
from halfulp.numbers import Format, on_grid

Array = np.ndarray[Any, Any]


class WindowSums:
    """Sums over the windows of arrays (planes, cells), for sliding windows."""

    def __init__(self, axes: tuple[Axis, ...]) -> None:
        self.axes = axes
        self.sizes = tuple(axis.size for axis in axes)
        self.outputs = tuple(axis.output_size for axis in axes)
        self.cells = prod(axis.kernel for axis in axes)
        self.numbers = [(a.size, a.kernel, a.stride, a.dilation, a.before, a.output_size) for a in axes]
        """The axes as the compiled core takes them."""

    def push(self, values: Array) -> Array:
        """The sum of every window."""
        cells = values.reshape(-1, *self.sizes)
        out = np.zeros((len(cells), *self.outputs), values.dtype)
        for windows, real in self._taps():
            out[windows] += cells[real]
        return out.reshape(len(cells), prod(self.outputs))

    def pull(self, values: Array) -> Array:
        """The sum, for every cell, over the windows that hold it."""
        windows_of = values.reshape(-1, *self.outputs)
        out = np.zeros((len(windows_of), *self.sizes), values.dtype)
        for windows, real in self._taps():
            out[real] += windows_of[windows]
        return out.reshape(len(windows_of), prod(self.sizes))

    def _taps(self) -> Iterator[tuple[Any, Any]]:
        """For every offset of the window: the windows for which it is a real cell, and those cells."""
        per_axis = [[pair for w in range(axis.kernel) if (pair := _run(axis, w))] for axis in self.axes]
        for choice in product(*per_axis):
            yield (slice(None), *(windows for windows, _ in choice)), (slice(None), *(real for _, real in choice))

    def window(self, output: int) -> list[int]:
        """The flat indices of the cells of a window."""
        position = np.unravel_index(output, self.outputs)
        real = (axis.real_cells(int(o)) for axis, o in zip(self.axes, position, strict=True))
        return [flat_index(cell, self.sizes) for cell in product(*real)]

    def padded(self, output: int) -> bool:
        """Whether a window has a cell in the padding, or no real cell."""
        position = [int(o) for o in np.unravel_index(output, self.outputs)]
        counted = prod(axis.counted(o) for axis, o in zip(self.axes, position, strict=True))
        return counted > prod(len(axis.real_cells(o)) for axis, o in zip(self.axes, position, strict=True))

    def holders(self, cell: int) -> list[int]:
        """The flat indices of the windows that hold a cell."""
        position = [int(i) for i in np.unravel_index(cell, self.sizes)]
        held = (
            [o for o in range(axis.output_size) if i in axis.real_cells(o)]
            for axis, i in zip(self.axes, position, strict=True)
        )
        return [flat_index(window, self.outputs) for window in product(*held)]


class PlaneSums:
    """The same for one window over a whole plane."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.cells = prod(sizes)
        self.numbers = [(size, size, 1, 1, 0, 1) for size in sizes]
        """One window over every axis, as the compiled core takes them."""

    def push(self, values: Array) -> Array:
        """The sum of every plane."""
        out: Array = values.sum(axis=1, keepdims=True)
        return out

    def pull(self, values: Array) -> Array:
        """The plane's number for every cell."""
        return np.broadcast_to(values, (len(values), self.cells))

    def window(self, output: int) -> list[int]:
        """All cells."""
        return list(range(self.cells))

    def padded(self, output: int) -> bool:
        """There is no padding."""
        return False

    def holders(self, cell: int) -> list[int]:
        """The one window."""
        return [0]


def _run(axis: Axis, tap: int) -> tuple[slice, slice] | None:
    """The windows whose offset ``tap`` is a real cell, and these cells; None if there are none."""
    shift = tap * axis.dilation - axis.before
    first = max(0, -(shift // axis.stride))
    stop = min(axis.output_size, (axis.size - 1 - shift) // axis.stride + 1)
    if first >= stop:
        return None
    start = first * axis.stride + shift
    return slice(first, stop), slice(start, start + (stop - first - 1) * axis.stride + 1, axis.stride)


def decided(estimate: Array, error: Array, target: Format) -> tuple[Array, Array]:
    """(the estimate rounded, where the error bound leaves no other result)."""
    with np.errstate(all="ignore"):
        low, high = (on_grid(end, target) for end in (estimate - error, estimate + error))
        sure = (low == high) & (np.signbit(low) == np.signbit(high)) & np.isfinite(estimate) & (low != 0)
        return low.astype(target.dtype), sure
