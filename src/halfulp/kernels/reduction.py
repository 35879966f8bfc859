"""Sums and means over axes: average pooling of whole rows, whose kernel is correctly rounded."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from halfulp.kernels._registry import entries, register
from halfulp.records import AvgPool, Mean, Pullback, Sum, _inputs

Array = np.ndarray[Any, Any]


@lru_cache(maxsize=256)
def _pool(length: int, divisor: int) -> AvgPool:
    return AvgPool((length,), divisor_override=divisor)


def _pooled(rows: Array, length: int, divisor: int) -> Any:
    return entries[AvgPool].forward(_pool(length, divisor), rows)


def _apply(op: Any, x: Array) -> Any:
    shape = op.output_shape(x.shape)
    axes = op.axes_of(x.shape)
    length = prod(x.shape[i] for i in axes)
    if x.size == 0:
        return np.zeros(shape, x.dtype)
    kept = [i for i in range(x.ndim) if i not in axes]
    rows = np.ascontiguousarray(x.transpose(*kept, *axes)).reshape(-1, length)
    return _pooled(rows, length, op.divisor(x.shape)).reshape(shape)


def forward(op: Any, *inputs: Any, out: Any = None) -> Any:
    """The sum or mean."""
    (x,) = _inputs.as_arrays(op, inputs)
    assert x is not None
    return _apply(op, x)


def jvp(op: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    """The same of x and of its tangent."""
    (x,) = _inputs.as_arrays(op, primals)
    (t,) = _inputs.as_tangents(op, (x,), tangents)
    assert x is not None
    assert t is not None
    return _apply(op, x), _apply(op, t)


def vjp(op: Any, *primals: Any, wanted: Any = None) -> tuple[Any, Pullback]:
    """The value, and the cotangent at every cell, divided."""
    (x,) = _inputs.as_arrays(op, primals)
    assert x is not None
    output, shape, dtype = _apply(op, x), x.shape, x.dtype
    result = output.shape

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        g = _inputs.as_cotangent(op, cotangent, result, dtype)
        axes, divisor = op.axes_of(shape), op.divisor(shape)
        if divisor > 1 and g.size:
            g = _pooled(np.ascontiguousarray(g)[..., None], 1, divisor).reshape(g.shape)
        spread = g.reshape([1 if i in axes else n for i, n in enumerate(shape)])
        return (np.broadcast_to(spread, shape).copy(),)

    return output, pullback


register(Sum, forward=forward, jvp=jvp, vjp=vjp)
register(Mean, forward=forward, jvp=jvp, vjp=vjp)
