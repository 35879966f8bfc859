"""The cells of every window of a pooling record, as one index array."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from halfulp.bounds._maps import Array, Shape
from halfulp.geometry import adaptive_windows, flat_index, fractional_starts, windows


def cells_of(record: Any, source: Shape) -> tuple[Array, Array]:
    """(flat positions of the real cells (*target, cells), -1 where a window has fewer; padded cells per window).

    >>> import halfulp as hu
    >>> index, padded = cells_of(hu.MaxPool((2,), padding=1), (3,))
    >>> index.tolist(), padded.tolist()
    ([[0, -1], [1, 2]], [1, 0])
    """
    ndim = record.ndim
    leading, spatial = source[: len(source) - ndim], source[len(source) - ndim :]
    if hasattr(record, "axes"):
        found = list(windows(record.axes(spatial)))
    elif hasattr(record, "spatial_output"):
        found = list(adaptive_windows(spatial, record.spatial_output(spatial)))
    else:
        found = list(adaptive_windows(spatial, (1,) * ndim))
    most = max((len(window.cells) for window in found), default=1) or 1
    plane = np.full((len(found), most), -1, dtype=np.int64)
    for row, window in zip(plane, found, strict=True):
        row[: len(window.cells)] = window.cells
    padded = np.array([window.padded for window in found], dtype=np.int64)
    planes, size = math.prod(leading), math.prod(spatial)
    offsets = (np.arange(planes, dtype=np.int64) * size)[:, None, None]
    index = np.where(plane[None] < 0, -1, plane[None] + offsets)
    target = record.output_shape(source)
    return index.reshape(*target, most), np.broadcast_to(padded, (planes, len(found))).reshape(target).copy()


def fractional_cells(record: Any, source: Shape, samples: Array) -> Array:
    """The flat positions of the cells of every window of a fractional max pooling, (*target, cells).

    >>> import halfulp as hu
    >>> fractional_cells(hu.FractionalMaxPool((2,), (3,)), (8,), np.array([0.5])).tolist()
    [[0, 1], [3, 4], [6, 7]]
    """
    spatial = source[len(source) - record.ndim :]
    sizes = list(zip(spatial, record.output_size, record.kernel_size, strict=True))
    found = []
    for plane, own in enumerate(samples.reshape(-1, record.ndim)):
        starts = [fractional_starts(own[record.sample_of(a)], *size) for a, size in enumerate(sizes)]
        for corner in product(*starts):
            cells = product(*(range(s, s + k) for s, k in zip(corner, record.kernel_size, strict=True)))
            found.append([flat_index(cell, spatial) + plane * math.prod(spatial) for cell in cells])
    target = record.output_shape(source, samples.shape)
    return np.array(found, dtype=np.int64).reshape(*target, math.prod(record.kernel_size))


def patch_cells(linear: Any) -> Array:
    """The input cells that every position of a convolution sees, (positions, cells of the kernel), -1 for padding."""
    record, ndim = linear._push, linear.record.ndim
    shape = linear.source[len(linear.source) - ndim - 1 :]
    plane = np.pad(np.arange(int(np.prod(shape))).reshape(shape), [(0, 0), *record.padding], constant_values=-1)
    kernel, target = linear.weight.shape[2:], linear.target[len(linear.target) - ndim :]
    axes = [
        (np.arange(n) * s)[:, None] + (np.arange(k) * d)[None]
        for n, s, k, d in zip(target, record.stride, kernel, record.dilation, strict=True)
    ]
    grids = np.ix_(np.arange(shape[0]), *(axis.reshape(-1) for axis in axes))
    cut = plane[grids].reshape(shape[0], *(n for pair in zip(target, kernel, strict=True) for n in pair))
    order = [*range(1, 2 * ndim, 2), 0, *range(2, 2 * ndim + 1, 2)]
    return np.asarray(cut.transpose(order).reshape(int(np.prod(target)), -1))
