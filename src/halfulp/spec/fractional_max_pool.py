"""Fractional max pooling: the hard maximum of windows whose places follow from samples, other ones in every plane.

Value, JVP and VJP of a window are those of hard max pooling; the samples have no derivative.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from halfulp.geometry import flat_index, fractional_starts
from halfulp.records import FractionalMaxPool
from halfulp.spec._pooling import planes
from halfulp.spec._registry import Functions, register
from halfulp.spec._scalars import filled, zero_of
from halfulp.spec.max_pool import max_pool_index, max_pool_jvp_value, max_pool_value, max_pool_vjp_values

Array = np.ndarray[Any, Any]


def plane_windows(op: FractionalMaxPool, x: Array, samples: Array) -> Iterator[tuple[list[Any], list[list[int]]]]:
    """Every plane with the flat indices of the cells of each of its windows."""
    spatial = x.shape[x.ndim - op.ndim :]
    sizes = list(zip(spatial, op.output_size, op.kernel_size, strict=True))
    for plane, own in zip(planes(x, spatial), samples.reshape(-1, op.ndim), strict=True):
        starts = [fractional_starts(own[op.sample_of(a)], *size) for a, size in enumerate(sizes)]
        windows = [
            [
                flat_index(cell, spatial)
                for cell in product(*(range(s, s + k) for s, k in zip(corner, op.kernel_size, strict=True)))
            ]
            for corner in product(*starts)
        ]
        yield plane, windows


def forward(op: FractionalMaxPool, inputs: tuple[Array, ...], progress: bool = False) -> Array:
    """The maximum of every window."""
    x, samples = inputs
    zero = zero_of((x,))
    out = [
        max_pool_value(op, zero, [plane[i] for i in cells], 0)
        for plane, windows in plane_windows(op, x, samples)
        for cells in windows
    ]
    return filled(op.output_shape(x.shape, samples.shape), out)


def jvp(
    op: FractionalMaxPool, primals: tuple[Array, ...], tangents: tuple[Array, ...], progress: bool = False
) -> Array:
    """The derivative of every window along the tangent of x."""
    (x, samples), t = primals, tangents[0]
    zero, along = zero_of((x,)), planes(t, x.shape[x.ndim - op.ndim :])
    out = [
        max_pool_jvp_value(op, zero, [plane[i] for i in cells], [along[number][i] for i in cells], 0)
        for number, (plane, windows) in enumerate(plane_windows(op, x, samples))
        for cells in windows
    ]
    return filled(op.output_shape(x.shape, samples.shape), out)


def vjp(op: FractionalMaxPool, primals: tuple[Array, ...], cotangent: Array, progress: bool = False) -> tuple[Any, ...]:
    """For every cell, the sum of the cotangents from the windows that hold it."""
    x, samples = primals
    zero = zero_of((x, cotangent))
    g = iter(cotangent.ravel())
    out: list[Any] = []
    for plane, windows in plane_windows(op, x, samples):
        sums: list[Any] = [None] * len(plane)
        for cells in windows:
            parts = max_pool_vjp_values(op, zero, [plane[i] for i in cells], next(g), 0)
            for i, part in zip(cells, parts, strict=True):
                if part is not None:
                    sums[i] = part if sums[i] is None else sums[i] + part
        out.extend(zero if s is None else s for s in sums)
    return (filled(x.shape, out),)


def indices(op: FractionalMaxPool, x: Array, samples: Array) -> list[int]:
    """The flat index of every window's winner."""
    return [
        max_pool_index(op, [plane[i] for i in cells], cells)
        for plane, windows in plane_windows(op, x, samples)
        for cells in windows
    ]


register(FractionalMaxPool, Functions(forward, jvp, vjp))
