"""Unfold and fold in the compiled core. Each is the other's transpose."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from halfulp import _core
from halfulp.kernels._registry import register
from halfulp.records import Fold, PatchOperator, Pullback, Unfold, _inputs

Array = np.ndarray[Any, Any]


@lru_cache(maxsize=1024)
def _axes(op: PatchOperator, spatial: tuple[int, ...]) -> tuple[tuple[int, int, int, int, int, int], ...]:
    return tuple((a.size, a.kernel, a.stride, a.dilation, a.before, a.output_size) for a in op.axes(spatial))


def _unfold(op: PatchOperator, x: Array, spatial: tuple[int, ...]) -> Any:
    return _core.unfold(op.name, _axes(op, spatial), np.ascontiguousarray(x), op.columns(x.shape))


def _fold(op: PatchOperator, columns: Array, shape: tuple[int, ...]) -> Any:
    return _core.fold(op.name, _axes(op, shape[len(shape) - op.ndim :]), np.ascontiguousarray(columns), shape)


def _apply(op: Any, x: Array) -> Any:
    if isinstance(op, Fold):
        return _fold(op, x, op.output_shape(x.shape))
    op.output_shape(x.shape)
    return _unfold(op, x, x.shape[x.ndim - op.ndim :])


def forward(op: Any, *inputs: Any, out: Any = None) -> Any:
    """The operator's value."""
    (x,) = _inputs.as_arrays(op, inputs)
    assert x is not None
    return _apply(op, x)


def jvp(op: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    """The value of x, and that of its tangent."""
    (x,) = _inputs.as_arrays(op, primals)
    assert x is not None
    _inputs.differentiable(op, x)
    (t,) = _inputs.as_tangents(op, (x,), tangents)
    assert t is not None
    return _apply(op, x), _apply(op, t)


def vjp(op: Any, *primals: Any) -> tuple[Any, Pullback]:
    """The value, and the transpose."""
    (x,) = _inputs.as_arrays(op, primals)
    assert x is not None
    _inputs.differentiable(op, x)
    shape, dtype = x.shape, x.dtype
    output = _apply(op, x)
    result_shape = output.shape

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        g = _inputs.as_cotangent(op, cotangent, result_shape, dtype)
        return (_unfold(op, g, op.output_size) if isinstance(op, Fold) else _fold(op, g, shape),)

    return output, pullback


register(Unfold, forward=forward, jvp=jvp, vjp=vjp)
register(Fold, forward=forward, jvp=jvp, vjp=vjp)
