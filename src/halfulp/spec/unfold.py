"""Unfold and fold.

Unfold writes every window as a column: entry (c, w) of column o is cell o of window offset w of channel c, 0 in the
padding. Fold is its transpose: a cell is the sum of the entries that stand for it, 0 if there is none. Both are linear.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np

from halfulp.geometry import Axis, flat_index
from halfulp.records import Fold, Unfold
from halfulp.spec._pooling import planes
from halfulp.spec._registry import register
from halfulp.spec._scalars import filled, total, zero_of

Array = np.ndarray[Any, Any]


def entries(axes: tuple[Axis, ...]) -> list[int | None]:
    """For every offset of the window and every window: the flat index of the cell, None in the padding."""
    sizes = [axis.size for axis in axes]
    out: list[int | None] = []
    for offsets in product(*(range(axis.kernel) for axis in axes)):
        for window in product(*(range(axis.output_size) for axis in axes)):
            cell = [axis.cells(o)[w] for axis, o, w in zip(axes, window, offsets, strict=True)]
            real = all(0 <= i < n for i, n in zip(cell, sizes, strict=True))
            out.append(flat_index(cell, sizes) if real else None)
    return out


def unfolded(op: Any, x: Array, spatial: tuple[int, ...]) -> Array:
    """The columns of every window of x."""
    zero, table = zero_of((x,)), entries(op.axes(spatial))
    out = [zero if i is None else plane[i] for plane in planes(x, spatial) for i in table]
    return filled(op.columns(x.shape), out)


def folded(op: Any, columns: Array, shape: tuple[int, ...]) -> Array:
    """The sum of the columns' entries at every cell of an array of this shape."""
    spatial = shape[len(shape) - op.ndim :]
    zero, table, cells = zero_of((columns,)), entries(op.axes(spatial)), prod(spatial)
    flat = list(columns.ravel())
    out: list[Any] = []
    for plane in range(prod(shape[: len(shape) - op.ndim])):
        terms: list[list[Any]] = [[] for _ in range(cells)]
        for position, i in enumerate(table):
            if i is not None:
                terms[i].append(flat[plane * len(table) + position])
        out.extend(total(t) if t else zero for t in terms)
    return filled(shape, out)


class UnfoldRule:
    """Unfold, and fold as its transpose."""

    @staticmethod
    def forward(op: Unfold, inputs: tuple[Array, ...], progress: bool = False) -> Array:
        (x,) = inputs
        return unfolded(op, x, x.shape[x.ndim - op.ndim :])

    @staticmethod
    def jvp(op: Unfold, primals: tuple[Array, ...], tangents: tuple[Array, ...], progress: bool = False) -> Array:
        return UnfoldRule.forward(op, tangents)

    @staticmethod
    def vjp(op: Unfold, primals: tuple[Array, ...], cotangent: Array, progress: bool = False) -> tuple[Array, ...]:
        return (folded(op, cotangent, primals[0].shape),)


class FoldRule:
    """Fold, and unfold as its transpose."""

    @staticmethod
    def forward(op: Fold, inputs: tuple[Array, ...], progress: bool = False) -> Array:
        (x,) = inputs
        return folded(op, x, op.output_shape(x.shape))

    @staticmethod
    def jvp(op: Fold, primals: tuple[Array, ...], tangents: tuple[Array, ...], progress: bool = False) -> Array:
        return FoldRule.forward(op, tangents)

    @staticmethod
    def vjp(op: Fold, primals: tuple[Array, ...], cotangent: Array, progress: bool = False) -> tuple[Array, ...]:
        return (unfolded(op, cotangent, op.output_size),)


register(Unfold, UnfoldRule)
register(Fold, FoldRule)
