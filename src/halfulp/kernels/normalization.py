"""Normalisations in the compiled core; the few outputs that its bounds leave undecided, exactly, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from halfulp import _core
from halfulp.kernels._exact_normalization import (
    COTANGENT,
    TANGENT,
    VALUE,
    WEIGHTS,
    Exact,
    channels_last,
    channels_second,
    moved,
    moved_exactly,
)
from halfulp.kernels._keeping import kept
from halfulp.kernels._registry import register
from halfulp.numbers import as_doubles, float_format
from halfulp.records import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, Pullback, _inputs
from halfulp.records.normalization import Groups

Array = np.ndarray[Any, Any]
Maybe = np.ndarray[Any, Any] | None
_MOMENTS = 8
"""How many float64 the core keeps of the statistics of a group."""


@lru_cache(maxsize=1024)
def _plan(op: Any, *shapes: tuple[int, ...] | None) -> tuple[Groups, tuple[int, ...], list[int]]:
    """What depends on the shapes alone, which are checked: the groups, the weight's shape, the sizes for the core."""
    op.output_shape(*shapes)
    g = op.groups_of(shapes[0])
    return g, op.weight_shape(shapes[0]), [g.blocks, g.groups, g.inner, g.channels]


class _Call:
    """One normalisation of dense arrays: x, weight, bias, mean and variance, each but x maybe None."""

    def __init__(self, op: Any, arrays: Sequence[Maybe], keep: bool = False) -> None:
        self.op = op
        self.groups, self.weight_shape, self.sizes = _plan(op, *(None if a is None else a.shape for a in arrays))
        x = arrays[0]
        assert x is not None
        self.shape, self.dtype = x.shape, x.dtype
        self.last = self.groups.joint and _channels_last(x)
        self.x = self.dense(x)
        if keep and np.may_share_memory(self.x, x):
            self.x = kept(self.x)
        parameters = [None if a is None else kept(a, "C") if keep else np.ascontiguousarray(a) for a in arrays[1:]]
        self.weight, self.bias, *given = [*parameters, None, None, None, None][:4]
        self.mean, self.variance = (None if a is None else _same_type(a, x.dtype) for a in given)
        self.moments: Maybe = None
        self.known = False
        if keep:
            self.keep_moments()

    def keep_moments(self) -> None:
        """Let the core keep the statistics of every group, for what follows."""
        g = self.groups
        if self.op.own_statistics and self.dtype.itemsize < 8 and self.x.size:
            self.moments = np.empty((g.groups * (1 if g.joint else g.blocks), _MOMENTS))

    def dense(self, array: Array) -> Array:
        """A cell for each of the input's, in the order that the core takes."""
        return np.ascontiguousarray(channels_last(array) if self.last else array)

    @property
    def flags(self) -> list[bool]:
        """Joint groups, weights for every cell, groups along the last axis."""
        return [self.groups.joint, self.groups.per_cell, self.last]

    def run(self, work: int, t: Maybe = None, d_weight: Maybe = None, d_bias: Maybe = None) -> Any:
        """The value or a tangent, undecided outputs decided."""
        if self.x.size == 0:
            return np.zeros(self.shape, self.dtype)
        more = [None if t is None else self.dense(t)]
        more += [None if a is None else np.ascontiguousarray(a) for a in (d_weight, d_bias)]
        given = [self.weight, self.bias if work == VALUE else None, self.mean, self.variance, *more]
        out, undecided = _core.normalize(
            self.op.name,
            work,
            self.sizes,
            self.flags,
            self.op.eps,
            self.x,
            given,
            self.moments,
            self.known,
            list(self.x.shape),
        )
        self.known = self.moments is not None
        return self._in_shape(self._decided(out, undecided, work, more))

    def pull_back(self, g: Array, wanted: Sequence[bool]) -> list[Any]:
        """The cotangents of x, weight and bias that are wanted, the others None."""
        if self.x.size == 0:
            shapes = (self.shape, self.weight_shape, self.weight_shape)
            return [np.zeros(s, self.dtype) if w else None for s, w in zip(shapes, wanted, strict=True)]
        dense = self.dense(g)
        found = _core.normalize_pullback(
            self.op.name,
            self.sizes,
            self.flags,
            self.op.eps,
            self.x,
            [self.weight, self.mean, self.variance, dense],
            self.moments,
            self.known,
            list(wanted),
            list(self.x.shape),
            list(self.weight_shape),
        )
        results: list[Any] = [None, None, None]
        more = [dense, None, None]
        dx, d_weight, d_bias = found
        if dx is not None:
            results[0] = self._in_shape(self._decided(dx[0], dx[1], COTANGENT, more))
        if d_weight is not None:
            results[1] = self._decided(d_weight[0], d_weight[1], WEIGHTS, more)
        if d_bias is not None:
            results[2] = self._summed(d_bias[0], d_bias[1], g)
        return results

    def _in_shape(self, out: Array) -> Array:
        return channels_second(out) if self.last else out

    def _decided(self, out: Array, undecided: Array, work: int, more: Sequence[Maybe]) -> Array:
        if undecided.size:
            exact, flat, target = Exact(self, more), out.reshape(-1), float_format(self.dtype)
            for position in exact.left(undecided, work, flat).tolist():
                number = exact.share(position) if work == WEIGHTS else exact.cell(exact.in_groups(position), work)
                flat[position] = np.float64(number.rounded(target)).astype(self.dtype)
        return out

    def _summed(self, out: Array, undecided: Array, g: Array) -> Array:
        """The cotangent of the bias: a sum over the cells that share it, in which an exact zero is +0."""
        if undecided.size:
            groups, count = self.groups, prod(self.weight_shape)
            planes = g.reshape(-1, count, 1) if groups.per_cell else g.reshape(groups.blocks, count, -1)
            if undecided.size < count:
                planes = planes[:, undecided]
            sums: Any = _core.conv_channel_sums(self.op.name, 1, np.ascontiguousarray(planes))
            sums[sums == 0] = 0
            out.reshape(-1)[undecided if undecided.size < count else slice(None)] = sums
        return out


def _channels_last(x: Array) -> bool:
    """Whether the channels of a pixel are neighbours in memory."""
    if prod(x.shape[2:]) == 1:
        return True
    return x.shape[1] > 1 and not x.flags.c_contiguous and channels_last(x).flags.c_contiguous


def _same_type(array: Array, dtype: Any) -> Array:
    """Statistics of another float type, rounded to the input's."""
    if array.dtype == dtype:
        return array
    with np.errstate(over="ignore"):
        return array.astype(dtype)


def forward(op: Any, *inputs: Any, out: Any = None) -> Any:
    """weight n + bias."""
    return _Call(op, _inputs.as_arrays(op, inputs)).run(VALUE)


def jvp(op: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    """The value, and weight P(t) + dweight n + dbias."""
    arrays = _inputs.as_arrays(op, primals)
    call = _Call(op, arrays)
    t, d_weight, d_bias, *_ = _inputs.as_tangents(op, arrays, tangents)
    if t is None and d_weight is None and d_bias is None:
        return call.run(VALUE), np.zeros(call.shape, call.dtype)
    return call.run(VALUE), call.run(TANGENT, t, d_weight, d_bias)


def vjp(op: Any, *primals: Any, wanted: Sequence[bool] | None = None) -> tuple[Any, Pullback]:
    """The value, and a pullback that keeps the input (a copy, unless it is lent)."""
    arrays = _inputs.as_arrays(op, primals)
    call = _Call(op, arrays, keep=True)
    return call.run(VALUE), _pullback(call, arrays, wanted)


def _pullback(call: _Call, arrays: Sequence[Maybe], wanted: Sequence[bool] | None) -> Pullback:
    op = call.op
    needed = [True] * 3 if wanted is None else [*wanted, False, False][:3]
    needed = [n and a is not None for n, a in zip(needed, arrays, strict=False)]
    nothing = (None,) * (op.arity - 3)

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        g = _inputs.as_cotangent(op, cotangent, call.shape, call.dtype)
        return *call.pull_back(g, needed), *nothing

    return pullback


for _record in (LayerNorm, GroupNorm, InstanceNorm, BatchNorm):
    register(_record, forward=forward, jvp=jvp, vjp=vjp)


def in_training(op: Any, inputs: tuple[Any, ...], running: Sequence[Maybe]) -> tuple[Any, list[Maybe]]:
    """The value of a batch norm, and its running mean and variance moved; both share one look at the cells.

    >>> from halfulp import BatchNorm
    >>> x = np.array([[1.0], [3.0]], np.float32)
    >>> in_training(BatchNorm(True, 0.5), (x,), (np.zeros(1, np.float32), None))[1]
    [array([1.], dtype=float32), None]
    """
    arrays = _inputs.as_arrays(op, inputs)
    call = _Call(op, arrays)
    call.keep_moments()
    return call.run(VALUE), _moved_statistics(call, arrays[0], running)


def vjp_in_training(
    op: Any, inputs: tuple[Any, ...], running: Sequence[Maybe], wanted: Sequence[bool]
) -> tuple[Any, Pullback, list[Maybe]]:
    """As :func:`in_training`, with a pullback, which shares that look, too."""
    arrays = _inputs.as_arrays(op, inputs)
    call = _Call(op, arrays, keep=True)
    output = call.run(VALUE)
    return output, _pullback(call, arrays, wanted), _moved_statistics(call, arrays[0], running)


def _moved_statistics(call: _Call, x: Any, running: Sequence[Maybe]) -> list[Maybe]:
    pairs = enumerate(running)
    return [None if old is None else moved_statistic(call.op, x, old, bool(squares), call) for squares, old in pairs]


def moved_statistic(op: Any, x: Array, old: Array, squares: bool, call: Any = None) -> Array:
    """(1 - momentum) * old + momentum * new of every channel, rounded once; new is the mean or the variance with n - 1.

    ``call`` is what has evaluated the batch norm of this x.

    >>> from halfulp import BatchNorm
    >>> x = np.array([[1.0], [3.0]])
    >>> moved_statistic(BatchNorm(momentum=0.5), x, np.array([0.0]), False)
    array([1.])
    """
    g = op.groups_of(x.shape)
    if x.dtype.hasobject:
        numbers = [
            moved(op, list(x.reshape(g.blocks, g.groups, g.inner)[:, i].ravel()), old[i], squares)
            for i in range(g.groups)
        ]
        return np.array(numbers, dtype=object)
    if x.size == 0:
        return old
    if g.cells - squares < 1:
        return np.full(old.shape, np.nan).astype(x.dtype)
    call, before = call or _Call(BatchNorm(True), (x,)), np.ascontiguousarray(old.astype(x.dtype))
    moments = call.moments if call.known else None
    found, undecided = _core.group_statistics(
        op.name, call.sizes, call.flags, call.x, moments, before, op.momentum, squares, int(squares), [g.groups]
    )
    doubles = as_doubles(x).reshape(g.blocks, g.groups, g.inner) if undecided.size else None
    for group in undecided.tolist():
        assert doubles is not None
        exact = moved_exactly(op, doubles[:, group].ravel(), float(as_doubles(before)[group]), squares)
        found[group] = np.float64(exact.rounded(float_format(x.dtype))).astype(x.dtype)
    return np.asarray(found)
