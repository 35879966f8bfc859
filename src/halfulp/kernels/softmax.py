"""Softmax and log-softmax in the compiled core; the few outputs that its bounds leave undecided, exactly."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from halfulp import _core
from halfulp.kernels._keeping import is_lent
from halfulp.kernels._registry import register
from halfulp.numbers import _exponentials as exactly
from halfulp.numbers import as_doubles, float_format
from halfulp.records import LogSoftmax, Pullback, Softmax, _inputs

Array = np.ndarray[Any, Any]
VALUE, TANGENT, COTANGENT = range(3)
_PLAIN = (exactly.softmax, exactly.softmax_derivative, exactly.softmax_derivative)
_LOGARITHM = (exactly.log_softmax, exactly.log_softmax_tangent, exactly.log_softmax_cotangent)


class _Call:
    """One operator on one input, as the core takes it: (outer, length, inner), dense."""

    def __init__(self, op: Any, x: Array) -> None:
        op.output_shape(x.shape)
        self.op, self.logarithm = op, isinstance(op, LogSoftmax)
        self.axis = op.dim % x.ndim if x.ndim else 0
        self.moved = False  # rows lie in memory one after the other
        if self.axis != x.ndim - 1 and np.moveaxis(x, self.axis, -1).flags.c_contiguous:
            self.moved, self.axis = True, x.ndim - 1
        self.shape = np.moveaxis(x, op.dim, -1).shape if self.moved else x.shape
        self.sizes = (prod(self.shape[: self.axis]), self.shape[self.axis], prod(self.shape[self.axis + 1 :]))
        self.x = self.dense(x)
        self.kept: Array | None = None

    def dense(self, array: Array) -> Array:
        """A cell for each of the input's, in the order that the core takes."""
        moved = np.moveaxis(array, self.op.dim, -1) if self.moved else array
        return np.ascontiguousarray(moved).reshape(self.sizes)

    def run(self, work: int, t: Array | None = None) -> Array:
        """The value, or the derivative along t."""
        along = None if t is None else self.dense(t)
        out, undecided = _core.softmax(self.op.name, work, self.logarithm, self.x, along, self.kept)
        return self._decided(out, undecided, work, along)

    def run_and_keep(self, copied: bool) -> Array:
        """The value; keeps what derivatives need, a copy of the input if nobody vouches for it."""
        out, undecided, copy, self.kept = _core.softmax_keeping(self.op.name, self.logarithm, self.x, copied)
        value = self._decided(out, undecided, VALUE, None)
        if copied:
            self.x = copy
        return value

    def _decided(self, out: Array, undecided: Array, work: int, t: Array | None) -> Array:
        if undecided.size:
            function: Any = (_LOGARITHM if self.logarithm else _PLAIN)[work]
            target, cells = float_format(out.dtype), out.reshape(-1)
            given = [as_doubles(a) for a in (self.x, t) if a is not None]
            for position in undecided.tolist():
                outer, i, inner = np.unravel_index(position, self.sizes)
                value = function(*(a[outer, :, inner].tolist() for a in given), int(i), target)
                cells[position] = np.float64(value).astype(out.dtype)
        result = out.reshape(self.shape)
        return np.moveaxis(result, -1, self.op.dim) if self.moved else result


def forward(op: Any, *inputs: Any, out: Any = None) -> Any:
    """The value."""
    (x,) = _inputs.as_arrays(op, inputs)
    assert x is not None
    return _Call(op, x).run(VALUE) if x.size else _nothing(op, x)


def jvp(op: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    """The value and the tangent."""
    (x,) = _inputs.as_arrays(op, primals)
    (t,) = _inputs.as_tangents(op, (x,), tangents)
    assert x is not None
    if not x.size:
        return _nothing(op, x), _nothing(op, x)
    call = _Call(op, x)
    return call.run(VALUE), call.run(TANGENT, t)


def vjp(op: Any, *primals: Any, wanted: Any = None) -> tuple[Any, Pullback]:
    """The value, and a pullback that keeps the input (a copy, unless it is lent) and its exponentials."""
    (x,) = _inputs.as_arrays(op, primals)
    assert x is not None
    shape, dtype = x.shape, x.dtype
    call = _Call(op, x) if x.size else None
    value = _nothing(op, x) if call is None else call.run_and_keep(not is_lent() and np.may_share_memory(call.x, x))

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        g = _inputs.as_cotangent(op, cotangent, shape, dtype)
        return (np.zeros(shape, dtype) if call is None else call.run(COTANGENT, g),)

    return value, pullback


def _nothing(op: Any, x: Array) -> Array:
    op.output_shape(x.shape)
    return np.zeros(x.shape, x.dtype)


register(Softmax, forward=forward, jvp=jvp, vjp=vjp)
register(LogSoftmax, forward=forward, jvp=jvp, vjp=vjp)
