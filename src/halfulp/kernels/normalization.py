"""Normalisations in the compiled core; the few outputs that its bounds leave undecided, exactly, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from halfulp import _core
from halfulp.kernels._registry import register
from halfulp.numbers import as_doubles, flint, float_format
from halfulp.numbers._surds import Surd
from halfulp.records import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, Pullback, _inputs
from halfulp.records.normalization import Groups

Array = np.ndarray[Any, Any]
Maybe = np.ndarray[Any, Any] | None
VALUE, TANGENT, COTANGENT, WEIGHTS = range(4)


@lru_cache(maxsize=1024)
def _plan(op: Any, *shapes: tuple[int, ...] | None) -> tuple[Groups, tuple[int, ...]]:
    """What depends on the shapes alone, which are checked: the groups, and the weight's shape."""
    op.output_shape(*shapes)
    return op.groups_of(shapes[0]), op.weight_shape(shapes[0])


class _Call:
    """One normalisation of dense arrays: x, weight, bias, mean and variance, each but x maybe None."""

    def __init__(self, op: Any, arrays: Sequence[Maybe]) -> None:
        self.op = op
        self.groups, self.weight_shape = _plan(op, *(None if a is None else a.shape for a in arrays))
        x = arrays[0]
        assert x is not None
        self.arrays = [None if a is None else np.ascontiguousarray(a) for a in arrays]
        self.arrays += [None] * (5 - len(self.arrays))
        self.shape, self.dtype = x.shape, x.dtype
        for name, a in zip(("running_mean", "running_var"), self.arrays[3:], strict=True):
            if a is not None:
                self.arrays[3 if name == "running_mean" else 4] = _same_type(op, name, a, x.dtype)

    def run(self, work: int, t: Maybe = None, d_weight: Maybe = None, d_bias: Maybe = None) -> Any:
        """A result of the core, undecided outputs decided."""
        x, weight, bias, mean, variance = self.arrays
        assert x is not None
        g, shape = self.groups, self.weight_shape if work == WEIGHTS else self.shape
        if x.size == 0:
            return np.zeros(shape, self.dtype)
        more = [None if a is None else np.ascontiguousarray(a) for a in (t, d_weight, d_bias)]
        given = [weight, bias if work == VALUE else None, mean, variance, *more]
        sizes = [g.blocks, g.groups, g.inner, g.channels]
        out, undecided = _core.normalize(
            self.op.name, work, sizes, g.joint, g.per_cell, self.op.eps, x, given, list(shape)
        )
        if undecided.size:
            self._decide(out, undecided.tolist(), work, more)
        return out

    def _decide(self, out: Array, positions: list[int], work: int, more: Sequence[Maybe]) -> None:
        exact, flat, target = _Exact(self, more), out.reshape(-1), float_format(self.dtype)
        for position in positions:
            number = exact.share(position) if work == WEIGHTS else exact.cell(position, work)
            flat[position] = np.float64(number.rounded(target)).astype(self.dtype)


def _same_type(op: Any, name: str, array: Array, dtype: Any) -> Array:
    """Statistics of another float type, if the element type of the input holds them exactly."""
    if array.dtype == dtype:
        return array
    with np.errstate(over="ignore"):
        return array.astype(dtype)


class _Exact:
    """Single results over numbers with square roots."""

    def __init__(self, call: _Call, more: Sequence[Maybe]) -> None:
        self.call = call
        self.groups: Groups = call.groups
        self.x = as_doubles(call.arrays[0]).reshape(-1)  # type: ignore[arg-type]
        self.weight, self.bias, self.mean, self.variance = (_doubles(a) for a in call.arrays[1:])
        self.t, self.d_weight, self.d_bias = (_doubles(a) for a in more)
        self._known: dict[int, tuple[Any, Any]] = {}
        self._sums: dict[tuple[int, bool], tuple[Any, Any]] = {}

    def places(self, group: int) -> Array:
        """The flat positions of a group's cells."""
        g = self.groups
        cells = np.arange(g.blocks * g.groups * g.inner).reshape(g.blocks, g.groups, g.inner)
        chosen = cells[:, group] if g.joint else cells.reshape(-1, g.inner)[group]
        return np.asarray(chosen.ravel())

    def group_of(self, position: int) -> int:
        g = self.groups
        return position // g.inner % g.groups if g.joint else position // g.inner

    def weight_of(self, position: int) -> int:
        """The place of a cell's weight."""
        g = self.groups
        if g.per_cell:
            return position % g.inner
        return position // g.inner % g.groups * g.channels + position % g.inner // (g.inner // g.channels)

    def moments(self, group: int) -> tuple[Any, Any]:
        """(mean, 1 / sqrt(variance + eps))."""
        if group not in self._known:
            if self.mean is not None:
                assert self.variance is not None
                mean, variance = Surd.of(float(self.mean[group])), Surd.of(float(self.variance[group]))
            else:
                cells = self.x[self.places(group)]
                mean, variance = _moments(cells) if np.isfinite(cells).all() else (Surd({}, np.nan),) * 2
            self._known[group] = mean, 1 / (variance + Surd.of(self.call.op.eps)).sqrt()
        return self._known[group]

    def normal(self, position: int) -> Any:
        mean, r = self.moments(self.group_of(position))
        return (Surd.of(float(self.x[position])) - mean) * r

    def pushed(self, position: int, weighted: bool) -> Any:
        """P(t) or P(weight t) at a cell."""
        group = self.group_of(position)
        _, r = self.moments(group)
        own = self._factor(position, weighted)
        if self.mean is not None:
            return r * own
        if (group, weighted) not in self._sums:
            places = self.places(group).tolist()
            factors = [self._factor(j, weighted) for j in places]
            count = len(places)
            slope = _total([self.normal(j) * f for j, f in zip(places, factors, strict=True)]) / count
            self._sums[group, weighted] = _total(factors) / count, slope
        mean, slope = self._sums[group, weighted]
        return r * (own - mean - self.normal(position) * slope)

    def _factor(self, position: int, weighted: bool) -> Any:
        assert self.t is not None
        value = Surd.of(float(self.t[position]))
        if weighted and self.weight is not None:
            return Surd.of(float(self.weight[self.weight_of(position)])) * value
        return value

    def cell(self, position: int, work: int) -> Any:
        """One cell of a value, tangent or cotangent."""
        own = self.weight_of(position)
        if work == COTANGENT:
            return self.pushed(position, True)
        terms = []
        if work == VALUE:
            n = self.normal(position)
            terms.append(n if self.weight is None else n * Surd.of(float(self.weight[own])))
            if self.bias is not None:
                terms.append(Surd.of(float(self.bias[own])))
            return _total(terms)
        if self.t is not None:
            pushed = self.pushed(position, False)
            terms.append(pushed if self.weight is None else pushed * Surd.of(float(self.weight[own])))
        if self.d_weight is not None:
            terms.append(self.normal(position) * Surd.of(float(self.d_weight[own])))
        if self.d_bias is not None:
            terms.append(Surd.of(float(self.d_bias[own])))
        return _total(terms)

    def share(self, weight: int) -> Any:
        """The cotangent of one weight."""
        g = self.groups
        cells = np.arange(g.blocks * g.groups * g.inner).reshape(g.blocks, g.groups, g.inner)
        if g.per_cell:
            places = cells.reshape(-1, g.inner)[:, weight]
        else:
            length = g.inner // g.channels
            start = weight % g.channels * length
            places = cells[:, weight // g.channels, start : start + length]
        return _total([self._factor(j, False) * self.normal(j) for j in places.ravel().tolist()])


def _doubles(array: Maybe) -> Maybe:
    return None if array is None else as_doubles(array).reshape(-1)


def _moments(cells: Array) -> tuple[Any, Any]:
    """Mean and variance of finite floats: as integers of one common unit."""
    ratios = [float(v).as_integer_ratio() for v in cells]
    unit = max(q for _, q in ratios)
    whole = [p * (unit // q) for p, q in ratios]
    n, s, q = len(whole), sum(whole), sum(p * p for p in whole)
    mean = Surd.rational(flint.fmpq(s, n * unit))
    return mean, Surd.rational(flint.fmpq(n * q - s * s, n * n * unit * unit))


def _total(terms: Sequence[Any]) -> Any:
    result = terms[0]
    for term in terms[1:]:
        result = result + term
    return result


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
    """The value, and a pullback that keeps its own copy of the input."""
    arrays = _inputs.as_arrays(op, primals)
    call = _Call(op, [None if a is None else a.copy() for a in arrays])
    needed = [True] * 3 if wanted is None else [*wanted, False, False][:3]
    nothing = (None,) * (op.arity - 3)

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        g = _inputs.as_cotangent(op, cotangent, call.shape, call.dtype)
        dx = call.run(COTANGENT, g) if needed[0] else None
        d_weight = call.run(WEIGHTS, g) if needed[1] and arrays[1] is not None else None
        d_bias = _sums(call, g) if needed[2] and arrays[2] is not None else None
        return dx, d_weight, d_bias, *nothing

    return call.run(VALUE), pullback


def _sums(call: _Call, g: Array) -> Array:
    """The cotangent of the bias: a sum over the cells that share it, in which an exact zero is +0."""
    groups = call.groups
    count = prod(call.weight_shape)
    if g.size == 0:
        return np.zeros(call.weight_shape, call.dtype)
    planes = g.reshape(-1, count, 1) if groups.per_cell else g.reshape(groups.blocks, count, -1)
    sums: Any = _core.conv_channel_sums(call.op.name, 1, np.ascontiguousarray(planes))
    sums[sums == 0] = 0
    return np.asarray(sums.reshape(call.weight_shape))


for _record in (LayerNorm, GroupNorm, InstanceNorm, BatchNorm):
    register(_record, forward=forward, jvp=jvp, vjp=vjp)


def moved_statistic(op: Any, x: Array, old: Array, squares: bool) -> Array:
    """(1 - momentum) * old + momentum * new of every channel, rounded once; new is the mean or the variance with n - 1.

    >>> from halfulp import BatchNorm
    >>> x = np.array([[1.0], [3.0]])
    >>> moved_statistic(BatchNorm(momentum=0.5), x, np.array([0.0]), False)
    array([1.])
    """
    g = op.groups_of(x.shape)
    if x.dtype.hasobject:
        numbers = [
            _moved(op, list(x.reshape(g.blocks, g.groups, g.inner)[:, i].ravel()), old[i], squares)
            for i in range(g.groups)
        ]
        return np.array(numbers, dtype=object)
    if x.size == 0:
        return old
    if g.cells - squares < 1:
        return np.full(old.shape, np.nan).astype(x.dtype)
    sizes = [g.blocks, g.groups, g.inner, 1]
    cells, before = np.ascontiguousarray(x), np.ascontiguousarray(old.astype(x.dtype))
    moved, undecided = _core.group_statistics(
        op.name, sizes, True, cells, before, op.momentum, squares, int(squares), [g.groups]
    )
    doubles = as_doubles(cells).reshape(g.blocks, g.groups, g.inner) if undecided.size else None
    for group in undecided.tolist():
        assert doubles is not None
        numbers = [Surd.of(float(v)) for v in doubles[:, group].ravel()]
        exact = _moved(op, numbers, Surd.of(float(as_doubles(before)[group])), squares)
        moved[group] = np.float64(exact.rounded(float_format(x.dtype))).astype(x.dtype)
    return np.asarray(moved)


def _moved(op: Any, cells: list[Any], old: Any, squares: bool) -> Any:
    new = mean = _total(cells) / len(cells)
    if squares:
        new = _total([(x - mean) * (x - mean) for x in cells]) / (len(cells) - 1)
    momentum = flint.fmpq(*op.momentum.as_integer_ratio())
    return old * (1 - momentum) + new * momentum
