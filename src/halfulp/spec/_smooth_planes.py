"""Smooth max pooling of whole float arrays: every window, rounded by ``halfulp.numbers._smooth_max``."""

from __future__ import annotations

from typing import Any

import numpy as np

from halfulp.numbers import _smooth_max as exactly
from halfulp.numbers import as_doubles, float_format
from halfulp.numbers._smooth_max import Window
from halfulp.records import SmoothMaxPool
from halfulp.spec._pooling import planes
from halfulp.spec._progress import track
from halfulp.spec._scalars import exact_beta
from halfulp.spec.smooth_max_pool import RULE

Array = np.ndarray[Any, Any]


def forward(op: SmoothMaxPool, x: Array, progress: bool = False) -> Array:
    """The correctly rounded value of every window."""
    target, beta, walk = float_format(x.dtype), exact_beta(op.name, op.beta), RULE.walk(op, x.shape)
    out = [
        exactly.value(beta, Window([plane[i] for i in w.cells], w.padded), target)
        for plane in track(_planes(op, x), op.name, progress)
        for w in walk
    ]
    return _array(out, op.output_shape(x.shape), x.dtype)


def jvp(op: SmoothMaxPool, x: Array, t: Array, progress: bool = False) -> Array:
    """The correctly rounded derivative of every window."""
    target, beta, walk = float_format(x.dtype), exact_beta(op.name, op.beta), RULE.walk(op, x.shape)
    out = [
        exactly.jvp(beta, Window([xs[i] for i in w.cells], w.padded), [ts[i] for i in w.cells], target)
        for xs, ts in track(list(zip(_planes(op, x), _planes(op, t), strict=True)), op.name, progress)
        for w in walk
    ]
    return _array(out, op.output_shape(x.shape), x.dtype)


def vjp(op: SmoothMaxPool, x: Array, g: Array, progress: bool = False) -> Array:
    """The correctly rounded cotangent of every cell: one rounding of the sum over all windows that hold it."""
    target, beta, walk = float_format(x.dtype), exact_beta(op.name, op.beta), RULE.walk(op, x.shape)
    cotangents = as_doubles(g).ravel().tolist()
    out: list[float] = []
    for index, xs in enumerate(track(_planes(op, x), op.name, progress)):
        parts: list[list[Any]] = [[] for _ in xs]
        for position, w in enumerate(walk):
            window = Window([xs[i] for i in w.cells], w.padded)
            for i in w.cells:
                parts[i].append((window, xs[i], cotangents[index * len(walk) + position]))
        out.extend(exactly.vjp(beta, part, target) for part in parts)
    return _array(out, x.shape, x.dtype)


def _planes(op: SmoothMaxPool, x: Array) -> list[list[float]]:
    return [[float(cell) for cell in plane] for plane in planes(as_doubles(x), RULE.spatial(op, x.shape))]


def _array(values: list[float], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return np.array(values, dtype=np.float64).astype(dtype.newbyteorder("=")).reshape(shape)
