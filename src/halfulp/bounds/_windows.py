"""The cells of every window of a pooling record, as one index array."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from halfulp.bounds._maps import Array, Shape
from halfulp.geometry import adaptive_windows, windows


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
