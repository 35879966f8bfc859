"""Power-mean pooling of whole float arrays: every window or cell decided and rounded by ``numbers``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from halfulp.numbers import as_doubles, float_format
from halfulp.numbers._norms import NormTerm, norm, norm_sum
from halfulp.spec._pooling import Pooling, planes
from halfulp.spec._progress import track

Array = np.ndarray[Any, Any]


def applies(op: Any) -> bool:
    """Whether values are irrational: for p = 1 and p = infinity they are not."""
    return bool(1 < op.p < math.inf)


def forward(rule: Pooling, op: Any, x: Array, progress: bool = False) -> Array:
    """The correctly rounded norm of every window."""
    target, walk = float_format(x.dtype), rule.walk(op, x.shape)
    out = [
        norm([plane[i] for i in w.cells], op.p, target)
        for plane in track(_planes(rule, op, x), op.name, progress)
        for w in walk
    ]
    return _array(out, op.output_shape(x.shape), x.dtype)


def jvp(rule: Pooling, op: Any, x: Array, t: Array, progress: bool = False) -> Array:
    """The correctly rounded derivative of every window."""
    target, walk = float_format(x.dtype), rule.walk(op, x.shape)
    out = []
    for xs, ts in track(list(zip(_planes(rule, op, x), _planes(rule, op, t), strict=True)), op.name, progress):
        for w in walk:
            window = [xs[i] for i in w.cells]
            terms = [NormTerm(xs[i], ts[i], window) for i in w.cells]
            out.append(norm_sum(terms, op.p, target, w.padded > 0))
    return _array(out, op.output_shape(x.shape), x.dtype)


def vjp(rule: Pooling, op: Any, x: Array, g: Array, progress: bool = False) -> Array:
    """The correctly rounded cotangent of every cell: one rounding of the sum over all windows that hold it."""
    target, walk = float_format(x.dtype), rule.walk(op, x.shape)
    cotangents = as_doubles(g).ravel().tolist()
    out: list[float] = []
    for number, xs in enumerate(track(_planes(rule, op, x), op.name, progress)):
        parts: list[list[NormTerm]] = [[] for _ in xs]
        for position, w in enumerate(walk):
            window = [xs[i] for i in w.cells]
            for i in w.cells:
                parts[i].append(NormTerm(xs[i], cotangents[number * len(walk) + position], window))
        out.extend(norm_sum(part, op.p, target) for part in parts)
    return _array(out, x.shape, x.dtype)


def _planes(rule: Pooling, op: Any, x: Array) -> list[list[float]]:
    return [[float(v) for v in plane] for plane in planes(as_doubles(x), rule.spatial(op, x.shape))]


def _array(values: list[float], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return np.array(values, dtype=np.float64).astype(dtype.newbyteorder("=")).reshape(shape)
