"""Max unpooling in the compiled core: values placed by index, cotangents picked by it."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from halfulp import _core
from halfulp.kernels._registry import register
from halfulp.records import MaxUnpool, Pullback, _inputs

Array = np.ndarray[Any, Any]


def _checked(op: MaxUnpool, inputs: tuple[Any, ...]) -> tuple[Array, Array, tuple[int, ...]]:
    """(values, indices as dense 64-bit integers, the output's shape)."""
    values, indices = _inputs.as_arrays(op, inputs)
    assert values is not None
    assert indices is not None
    shape = op.output_shape(values.shape, indices.shape)
    if indices.dtype == np.uint64:  # beyond 2**63 is beyond every plane, not below 0
        indices = np.minimum(indices, np.uint64(2**63 - 1))
    return values, np.ascontiguousarray(indices, dtype=np.int64), shape


def _allow(op: MaxUnpool, indices: Array, refused: int, shape: tuple[int, ...]) -> None:
    if refused >= 0:
        where = np.unravel_index(refused, indices.shape)
        raise op.refused_index(where, int(indices[where]), prod(shape[len(shape) - op.ndim :]))


def forward(op: MaxUnpool, *inputs: Any, out: Any = None) -> Any:
    """The values in their cells."""
    values, indices, shape = _checked(op, inputs)
    output, refused = _core.place(op.name, op.ndim, np.ascontiguousarray(values), indices, shape)
    _allow(op, indices, refused, shape)
    return output


def jvp(op: MaxUnpool, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    """The values and their tangents in the same cells."""
    values, indices, shape = _checked(op, primals)
    _inputs.differentiable(op, values)
    t = _inputs.as_tangents(op, (values, indices), tangents)[0]
    assert t is not None
    dense = np.ascontiguousarray(values), np.ascontiguousarray(t)
    output, tangent, refused = _core.place_two(op.name, op.ndim, *dense, indices, shape)
    _allow(op, indices, refused, shape)
    return output, tangent


def vjp(op: MaxUnpool, *primals: Any) -> tuple[Any, Pullback]:
    """The values in their cells, and a pullback that keeps where they were placed."""
    values, indices, shape = _checked(op, primals)
    _inputs.differentiable(op, values)
    dtype = values.dtype
    output, placed, refused = _core.place_keep(op.name, op.ndim, np.ascontiguousarray(values), indices, shape)
    _allow(op, indices, refused, shape)

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        g = _inputs.as_cotangent(op, cotangent, shape, dtype)
        return _core.pick(op.name, placed, np.ascontiguousarray(g)), None

    return output, pullback


register(MaxUnpool, forward=forward, jvp=jvp, vjp=vjp)
