"""Sums and means over axes: average pooling of whole rows or columns, whose kernel is correctly rounded."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from halfulp.kernels._linear_map import register_linear
from halfulp.kernels._registry import entries
from halfulp.records import AvgPool, Mean, Sum

Array = np.ndarray[Any, Any]


WIDE = 32  # from so many columns on, whole rows are added


@lru_cache(maxsize=256)
def _pool(window: tuple[int, ...], divisor: int) -> AvgPool:
    return AvgPool(window, divisor_override=divisor)


def _pooled(cells: Array, window: tuple[int, ...], divisor: int) -> Any:
    return entries[AvgPool].forward(_pool(window, divisor), cells)


def _apply(op: Any, x: Array) -> Any:
    shape = op.output_shape(x.shape)
    axes = op.axes_of(x.shape)
    length = prod(x.shape[i] for i in axes)
    if x.size == 0:
        return np.zeros(shape, x.dtype)
    columns = prod(x.shape[axes[-1] + 1 :]) if axes else 1
    if columns >= WIDE and axes == tuple(range(axes[0], axes[-1] + 1)):
        planes = np.ascontiguousarray(x).reshape(-1, 1, length, columns)
        return _pooled(planes, (length, 1), op.divisor(x.shape)).reshape(shape)
    kept = [i for i in range(x.ndim) if i not in axes]
    rows = np.ascontiguousarray(x.transpose(*kept, *axes)).reshape(-1, length)
    return _pooled(rows, (length,), op.divisor(x.shape)).reshape(shape)


def _transposed(op: Any, g: Array, shape: tuple[int, ...]) -> Any:
    """The cotangent at every cell, divided."""
    axes, divisor = op.axes_of(shape), op.divisor(shape)
    if divisor > 1 and g.size:
        g = _pooled(np.ascontiguousarray(g)[..., None], (1,), divisor).reshape(g.shape)
    spread = g.reshape([1 if i in axes else n for i, n in enumerate(shape)])
    return np.broadcast_to(spread, shape).copy()


register_linear(Sum, _apply, _transposed)
register_linear(Mean, _apply, _transposed)
