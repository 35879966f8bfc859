"""Fractional max pooling in the compiled core: hard max over windows with given starts."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from halfulp import _core
from halfulp.geometry import fractional_starts
from halfulp.kernels._registry import register
from halfulp.records import FractionalMaxPool, Pullback, _inputs

Array = np.ndarray[Any, Any]


@lru_cache(maxsize=1024)
def compiled(op: FractionalMaxPool) -> _core.FractionalOperator:
    """The core's object for a record."""
    return _core.FractionalOperator(op.name, op.kernel_size, op.output_size, op.ties, op.nan)


def starts_of(op: FractionalMaxPool, samples: Array, spatial: tuple[int, ...]) -> Array:
    """(planes, windows of all axes): where every window starts, in the arithmetic of the samples' type."""
    own = samples.reshape(-1, op.ndim)
    if own.dtype == object:
        sizes = list(zip(spatial, op.output_size, op.kernel_size, strict=True))
        rows = [
            [start for a, size in enumerate(sizes) for start in fractional_starts(plane[op.sample_of(a)], *size)]
            for plane in own
        ]
        return np.array(rows, dtype=np.int64).reshape(len(own), sum(op.output_size))
    number = own.dtype.type
    columns = []
    for axis, (n, m, k) in enumerate(zip(spatial, op.output_size, op.kernel_size, strict=True)):
        u, last = own[:, op.sample_of(axis), None], n - k
        starts = np.full((own.shape[0], m), last, dtype=np.int64)
        if m > 1:
            with np.errstate(all="ignore"):
                alpha = number(last) / number(m - 1)
                first = _truncated(u * alpha, np.int64(last))
                starts[:, :-1] = _truncated((np.arange(m - 1).astype(own.dtype) + u) * alpha, last + first) - first
            np.clip(starts, 0, last, out=starts)
        columns.append(starts)
    return np.ascontiguousarray(np.concatenate(columns, axis=1))


def _truncated(values: Array, most: Any) -> Array:
    if values.size and values.max() <= np.min(most):  # nearly always; not if there is a NaN
        plain: Array = values.astype(np.int64)
        return plain
    wide = values.astype(np.float64)
    inside = wide <= most
    result: Array = np.where(inside, np.where(inside, wide, 0.0).astype(np.int64), most)
    return result


def _checked(op: FractionalMaxPool, inputs: tuple[Any, ...]) -> tuple[Array, Array]:
    """(x, the windows' starts)."""
    x, samples = _inputs.as_arrays(op, inputs)
    assert x is not None
    assert samples is not None
    op.output_shape(x.shape, samples.shape)
    _inputs.refuse_nan(op, x)
    starts = starts_of(op, samples, x.shape[x.ndim - op.ndim :])
    assert len(starts) == prod(x.shape[: x.ndim - op.ndim])
    return np.ascontiguousarray(x), starts


def forward(op: FractionalMaxPool, *inputs: Any, out: Any = None) -> Any:
    """The maximum of every window."""
    return compiled(op).forward(*_checked(op, inputs))


def indices(op: FractionalMaxPool, *inputs: Any) -> tuple[Any, Any]:
    """The maxima and the flat index of every winner in its plane."""
    return compiled(op).forward_with_indices(*_checked(op, inputs))


def jvp(op: FractionalMaxPool, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    """The maxima and their derivative along the tangent of x."""
    x, starts = _checked(op, primals)
    _inputs.differentiable(op, x)
    t = _inputs.as_tangents(op, (x, starts), tangents)[0]
    assert t is not None
    return compiled(op).jvp(x, np.ascontiguousarray(t), starts)


def vjp(op: FractionalMaxPool, *primals: Any) -> tuple[Any, Pullback]:
    """The maxima, and a pullback that keeps the winners."""
    x, starts = _checked(op, primals)
    _inputs.differentiable(op, x)
    output, transpose = compiled(op).vjp(x, starts)

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        g = _inputs.as_cotangent(op, cotangent, output_shape, dtype)
        return transpose(np.ascontiguousarray(g)), None

    output_shape, dtype = output.shape, x.dtype
    return output, pullback


register(FractionalMaxPool, forward=forward, jvp=jvp, vjp=vjp, indices=indices)
