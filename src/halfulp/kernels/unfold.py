"""Unfold and fold in the compiled core. Each is the other's transpose."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from halfulp import _core
from halfulp.kernels._linear_map import register_linear
from halfulp.records import Fold, PatchOperator, Unfold

Array = np.ndarray[Any, Any]


@lru_cache(maxsize=1024)
def _axes(op: PatchOperator, spatial: tuple[int, ...]) -> tuple[tuple[int, int, int, int, int, int], ...]:
    return tuple((a.size, a.kernel, a.stride, a.dilation, a.before, a.output_size) for a in op.axes(spatial))


def _unfold(op: PatchOperator, x: Array, spatial: tuple[int, ...]) -> Any:
    return _core.unfold(op.name, _axes(op, spatial), np.ascontiguousarray(x), op.columns(x.shape))


def _fold(op: PatchOperator, columns: Array, shape: tuple[int, ...]) -> Any:
    return _core.fold(op.name, _axes(op, shape[len(shape) - op.ndim :]), np.ascontiguousarray(columns), shape)


def _unfolded(op: Unfold, x: Array) -> Any:
    op.output_shape(x.shape)
    return _unfold(op, x, x.shape[x.ndim - op.ndim :])


register_linear(Unfold, _unfolded, _fold)
register_linear(
    Fold,
    lambda op, x: _fold(op, x, op.output_shape(x.shape)),
    lambda op, g, shape: _unfold(op, g, op.output_size),
)
