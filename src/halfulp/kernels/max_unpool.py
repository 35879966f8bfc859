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


def _place(op: MaxUnpool, values: Array, indices: Array, shape: tuple[int, ...]) -> Any:
    planes = prod(shape[: len(shape) - op.ndim])
    output, refused = _core.place(op.name, planes, np.ascontiguousarray(values), indices, shape)
    if refused >= 0:
        where = np.unravel_index(refused, indices.shape)
        raise op.refused_index(where, int(indices[where]), prod(shape[len(shape) - op.ndim :]))
    return output


def forward(op: MaxUnpool, *inputs: Any, out: Any = None) -> Any:
    """The values in their cells."""
    return _place(op, *_checked(op, inputs))


def jvp(op: MaxUnpool, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    """The values and their tangents in the same cells."""
    values, indices, shape = _checked(op, primals)
    _inputs.differentiable(op, values)
    t = _inputs.as_tangents(op, (values, indices), tangents)[0]
    assert t is not None
    return _place(op, values, indices, shape), _place(op, t, indices, shape)


def vjp(op: MaxUnpool, *primals: Any) -> tuple[Any, Pullback]:
    """The values in their cells, and a pullback that keeps its own copy of the indices."""
    values, indices, shape = _checked(op, primals)
    _inputs.differentiable(op, values)
    kept, dtype = indices.copy(), values.dtype
    output = _place(op, values, kept, shape)

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        g = _inputs.as_cotangent(op, cotangent, shape, dtype)
        planes = prod(shape[: len(shape) - op.ndim])
        return _core.pick(op.name, planes, np.ascontiguousarray(g), kept), None

    return output, pullback


register(MaxUnpool, forward=forward, jvp=jvp, vjp=vjp)
