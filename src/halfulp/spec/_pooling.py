"""The walk over windows that every pooling operator shares.

A pooling operator is four small functions of one window: which windows there are, the window's value, its derivative
along tangents, and the cotangents of its cells. This module applies them to every window of every plane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from halfulp.geometry import Window
from halfulp.records import Operator, Shape
from halfulp.spec._progress import track
from halfulp.spec._scalars import filled, zero_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Pooling:
    """A pooling operator by its meaning on one window.

    ``windows(op, spatial)`` lists the windows of a plane. ``value(op, zero, values, padded)`` is a window's value;
    ``jvp(op, zero, values, tangents, padded)`` its derivative; ``vjp(op, zero, values, cotangent, padded)`` the
    cotangent of each of its cells, None for a cell that has no part in it. ``values`` are the real cells in row-major
    order, ``padded`` counts the cells in the padding. ``index(op, values, cells)`` is the winner's flat index, for
    operators that select.
    """

    windows: Callable[[Any, Shape], Iterable[Window]]
    value: Callable[[Any, Any, Sequence[Any], int], Any]
    jvp_value: Callable[[Any, Any, Sequence[Any], Sequence[Any], int], Any]
    vjp_values: Callable[[Any, Any, Sequence[Any], Any, int], Sequence[Any]]
    index: Callable[[Any, Sequence[Any], Sequence[int]], int] | None = None

    def forward(self, op: Operator, inputs: tuple[Array, ...], progress: bool = False) -> Array:
        """The value of every window."""
        (x,) = inputs
        zero = zero_of(inputs)
        walk = self.walk(op, x.shape)
        out = [
            self.value(op, zero, [plane[i] for i in window.cells], window.padded)
            for plane in track(planes(x, self.spatial(op, x.shape)), op.name, progress)
            for window in walk
        ]
        return filled(op.output_shape(x.shape), out)

    def jvp(self, op: Operator, primals: tuple[Array, ...], tangents: tuple[Any, ...], progress: bool = False) -> Array:
        """The derivative of every window along the tangent."""
        (x,), (t,) = primals, tangents
        zero = zero_of(primals)
        walk = self.walk(op, x.shape)
        spatial = self.spatial(op, x.shape)
        pairs = list(zip(planes(x, spatial), planes(t, spatial), strict=True))
        out = [
            self.jvp_value(op, zero, [xs[i] for i in w.cells], [ts[i] for i in w.cells], w.padded)
            for xs, ts in track(pairs, op.name, progress)
            for w in walk
        ]
        return filled(op.output_shape(x.shape), out)

    def vjp(
        self, op: Operator, primals: tuple[Array, ...], cotangent: Array, progress: bool = False
    ) -> tuple[Array, ...]:
        """For every cell, the sum of the cotangents from the windows that hold it."""
        (x,) = primals
        zero = zero_of((*primals, cotangent))
        walk = self.walk(op, x.shape)
        spatial = self.spatial(op, x.shape)
        pairs = list(zip(planes(x, spatial), cotangent.reshape(-1, len(walk)).tolist(), strict=True)) if walk else []
        out: list[Any] = []
        for xs, gs in track(pairs, op.name, progress):
            sums: list[Any] = [None] * len(xs)
            for window, g in zip(walk, gs, strict=True):
                parts = self.vjp_values(op, zero, [xs[i] for i in window.cells], g, window.padded)
                for i, part in zip(window.cells, parts, strict=True):
                    if part is not None:
                        sums[i] = part if sums[i] is None else sums[i] + part
            out.extend(zero if s is None else s for s in sums)
        return (filled(x.shape, out if walk else [zero] * x.size),)

    def walk(self, op: Operator, shape: Shape) -> list[Window]:
        """Every window of a plane, in row-major order of the outputs."""
        return list(self.windows(op, self.spatial(op, shape)))

    def spatial(self, op: Any, shape: Shape) -> Shape:
        """The spatial sizes of an input."""
        return shape[len(shape) - op.ndim :]


def planes(x: Array, spatial: Shape) -> list[list[Any]]:
    """The planes of an array, each as the list of its cells in row-major order."""
    cells = int(np.prod(spatial, dtype=object))
    count = int(np.prod(x.shape[: x.ndim - len(spatial)], dtype=object))
    flat = list(x.ravel())
    return [flat[i * cells : (i + 1) * cells] for i in range(count)]
