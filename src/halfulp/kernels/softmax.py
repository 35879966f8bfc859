"""Softmax and log-softmax in the compiled core; the few outputs that its bounds leave undecided, exactly."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from halfulp import _core
from halfulp.kernels._registry import register
from halfulp.numbers import _exponentials as exactly
from halfulp.numbers import as_doubles, float_format
from halfulp.records import LogSoftmax, Pullback, Softmax, _inputs

Array = np.ndarray[Any, Any]
VALUE, TANGENT, COTANGENT = range(3)
_PLAIN = (exactly.softmax, exactly.softmax_derivative, exactly.softmax_derivative)
_LOGARITHM = (exactly.log_softmax, exactly.log_softmax_tangent, exactly.log_softmax_cotangent)


def _run(op: Any, work: int, x: Array, t: Array | None = None) -> Any:
    op.output_shape(x.shape)
    if x.size == 0:
        return np.zeros(x.shape, x.dtype)
    logarithm = isinstance(op, LogSoftmax)
    axis = op.dim % x.ndim if x.ndim else 0
    moved = axis != x.ndim - 1 and np.moveaxis(x, axis, -1).flags.c_contiguous
    arrays = [a if a is None or not moved else np.moveaxis(a, axis, -1) for a in (x, t)]
    if moved:  # rows lie in memory one after the other
        axis = x.ndim - 1
    shape = arrays[0].shape  # type: ignore[union-attr]
    sizes = (prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))
    flat = [None if a is None else np.ascontiguousarray(a).reshape(sizes) for a in arrays]
    out, undecided = _core.softmax(op.name, work, logarithm, flat[0], flat[1])
    if undecided.size:
        function: Any = (_LOGARITHM if logarithm else _PLAIN)[work]
        target, cells = float_format(x.dtype), out.reshape(-1)
        given = [as_doubles(a) for a in flat if a is not None]
        for position in undecided.tolist():
            outer, i, inner = np.unravel_index(position, sizes)
            value = function(*(a[outer, :, inner].tolist() for a in given), int(i), target)
            cells[position] = np.float64(value).astype(x.dtype)
    result = out.reshape(shape)
    return np.moveaxis(result, -1, op.dim) if moved else result


def forward(op: Any, *inputs: Any, out: Any = None) -> Any:
    """The value."""
    (x,) = _inputs.as_arrays(op, inputs)
    assert x is not None
    return _run(op, VALUE, x)


def jvp(op: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    """The value and the tangent."""
    (x,) = _inputs.as_arrays(op, primals)
    (t,) = _inputs.as_tangents(op, (x,), tangents)
    assert x is not None
    return _run(op, VALUE, x), _run(op, TANGENT, x, t)


def vjp(op: Any, *primals: Any, wanted: Any = None) -> tuple[Any, Pullback]:
    """The value, and a pullback that keeps its own copy of the input."""
    (x,) = _inputs.as_arrays(op, primals)
    assert x is not None
    kept = x.copy()

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        g = _inputs.as_cotangent(op, cotangent, kept.shape, kept.dtype)
        return (_run(op, COTANGENT, kept, g),)

    return _run(op, VALUE, kept), pullback


register(Softmax, forward=forward, jvp=jvp, vjp=vjp)
register(LogSoftmax, forward=forward, jvp=jvp, vjp=vjp)
