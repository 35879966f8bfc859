"""Global pooling: one window over all cells of the spatial axes.

It is a fold over the plane: :func:`reduce_spatial` folds one plane, :func:`global_pool` every plane, keeping the
spatial axes with size 1 or dropping them. The values and derivatives of that one window are those of average pooling
and of hard max pooling, where by default every maximiser gets the full cotangent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from halfulp.geometry import Window
from halfulp.records import GlobalAvgPool, GlobalMaxPool, GlobalOperator, Shape
from halfulp.spec._pooling import Pooling, planes
from halfulp.spec._registry import register
from halfulp.spec._scalars import filled
from halfulp.spec.adaptive_avg_pool import bin_mean, bin_mean_jvp, bin_mean_vjp
from halfulp.spec.max_pool import max_pool_index, max_pool_jvp_value, max_pool_value, max_pool_vjp_values


def reduce_spatial(plane: Sequence[Any], initial: Any, function: Callable[[Any, Any], Any]) -> Any:
    """Fold the cells of one plane, in row-major order, from an initial value.

    >>> reduce_spatial([1, 2, 3], 0, lambda a, b: a + b)
    6
    """
    return reduce(function, plane, initial)


def global_pool(
    x: np.ndarray[Any, Any], ndim: int, fold: Callable[[Sequence[Any]], Any], keepdims: bool = True
) -> np.ndarray[Any, Any]:
    """Apply a fold to every plane of the last ``ndim`` axes; ``keepdims`` keeps them with size 1.

    >>> global_pool(np.array([[1, 5], [7, 3]], dtype=object), 1, max, keepdims=False)
    array([5, 7], dtype=object)
    """
    leading, spatial = x.shape[: x.ndim - ndim], x.shape[x.ndim - ndim :]
    return filled(leading + (1,) * (ndim if keepdims else 0), [fold(plane) for plane in planes(x, spatial)])


def whole_plane(op: GlobalOperator, spatial: Shape) -> Iterable[Window]:
    """The one window that holds every cell."""
    return [Window(tuple(range(prod(spatial))), 0)]


register(GlobalAvgPool, Pooling(whole_plane, bin_mean, bin_mean_jvp, bin_mean_vjp))
register(GlobalMaxPool, Pooling(whole_plane, max_pool_value, max_pool_jvp_value, max_pool_vjp_values, max_pool_index))
