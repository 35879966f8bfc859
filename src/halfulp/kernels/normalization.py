"""Normalisations in the compiled core; the few outputs that its bounds leave undecided, exactly, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from operator import mul
from typing import Any

import numpy as np

from halfulp import _core
from halfulp.kernels._keeping import kept
from halfulp.kernels._registry import register
from halfulp.numbers import as_doubles, flint, float_format
from halfulp.numbers._surds import Surd
from halfulp.records import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, Pullback, _inputs
from halfulp.records.normalization import Groups

Array = np.ndarray[Any, Any]
Maybe = np.ndarray[Any, Any] | None
VALUE, TANGENT, COTANGENT, WEIGHTS = range(4)
_MOMENTS = 8
"""How many float64 the core keeps of the statistics of a group."""


@lru_cache(maxsize=1024)
def _plan(op: Any, *shapes: tuple[int, ...] | None) -> tuple[Groups, tuple[int, ...]]:
    """What depends on the shapes alone, which are checked: the groups, and the weight's shape."""
    op.output_shape(*shapes)
    return op.groups_of(shapes[0]), op.weight_shape(shapes[0])


class _Call:
    """One normalisation of dense arrays: x, weight, bias, mean and variance, each but x maybe None."""

    def __init__(self, op: Any, arrays: Sequence[Maybe], keep: bool = False) -> None:
        self.op = op
        self.groups, self.weight_shape = _plan(op, *(None if a is None else a.shape for a in arrays))
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
        return np.ascontiguousarray(np.moveaxis(array, 1, -1) if self.last else array)

    @property
    def sizes(self) -> list[int]:
        """What the core asks for: blocks, groups, cells in a row, channels of a group."""
        g = self.groups
        return [g.blocks, g.groups, g.inner, g.channels]

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
        return np.moveaxis(out, -1, 1) if self.last else out

    def _decided(self, out: Array, undecided: Array, work: int, more: Sequence[Maybe]) -> Array:
        if undecided.size:
            exact, flat, target = _Exact(self, more), out.reshape(-1), float_format(self.dtype)
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
    return x.shape[1] > 1 and not x.flags.c_contiguous and np.moveaxis(x, 1, -1).flags.c_contiguous


def _same_type(array: Array, dtype: Any) -> Array:
    """Statistics of another float type, rounded to the input's."""
    if array.dtype == dtype:
        return array
    with np.errstate(over="ignore"):
        return array.astype(dtype)


class _Exact:
    """Single results over numbers with square roots."""

    def __init__(self, call: _Call, more: Sequence[Maybe]) -> None:
        self.call = call
        self.groups: Groups = call.groups
        self.x = self._cells(call.x)
        parameters = (call.weight, call.bias, call.mean, call.variance)
        self.weight, self.bias, self.mean, self.variance = (_doubles(a) for a in parameters)
        self.t = None if more[0] is None else self._cells(more[0])
        self.d_weight, self.d_bias = (_doubles(a) for a in more[1:])
        self._known: dict[int, tuple[Any, Any]] = {}
        self._sums: dict[tuple[int, bool], tuple[Any, Any]] = {}
        g = call.groups
        self._all = np.arange(g.blocks * g.groups * g.inner).reshape(g.blocks, g.groups, g.inner)

    def _cells(self, array: Array) -> Array:
        """A cell for each of the input's, in the order (blocks, groups, inner)."""
        doubles = as_doubles(array)
        return np.ascontiguousarray(np.moveaxis(doubles, -1, 1) if self.call.last else doubles).reshape(-1)

    def left(self, undecided: Array, work: int, out: Array) -> Array:
        """The undecided positions that a constant tangent or cotangent does not decide: P of a constant is 0."""
        g = self.groups
        if self.t is None or work == VALUE or not self.call.op.own_statistics or (work == WEIGHTS and not g.joint):
            return undecided
        if self.d_weight is not None or self.d_bias is not None:
            return undecided
        groups = self.group_of(self._all.ravel())
        constant = np.isfinite(_over(self.x, groups, np.minimum)) & np.isfinite(_over(self.x, groups, np.maximum))
        constant &= _equal(self.t, groups)
        if work == COTANGENT and self.weight is not None:
            constant &= _equal(self.weight[self.weight_of(self._all.ravel())], groups)
        if not self.call.op.eps:
            constant &= ~_equal(self.x, groups)
        decided = constant[undecided if work == WEIGHTS else groups[self.in_groups(undecided)]]
        out[undecided[decided]] = 0
        return np.asarray(undecided[~decided])

    def in_groups(self, position: Any) -> Any:
        """A position of the core in that order."""
        if not self.call.last:
            return position
        g = self.groups
        row, group = divmod(position, g.groups)
        block, inner = divmod(row, g.inner)
        return (block * g.groups + group) * g.inner + inner

    def places(self, group: int) -> Array:
        """The flat positions of a group's cells."""
        g = self.groups
        chosen = self._all[:, group] if g.joint else self._all.reshape(-1, g.inner)[group]
        return np.asarray(chosen.ravel())

    def group_of(self, position: Any) -> Any:
        """The group of a cell, or of an array of cells."""
        g = self.groups
        return position // g.inner % g.groups if g.joint else position // g.inner

    def weight_of(self, position: Any) -> Any:
        """The place of a cell's weight, or of the weights of an array of cells."""
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
            self._sums[group, weighted] = self._line(group, weighted)
        mean, slope = self._sums[group, weighted]
        return r * (own - mean - (Surd.of(float(self.x[position])) - self.moments(group)[0]) * slope)

    def _line(self, group: int, weighted: bool) -> tuple[Any, Any]:
        """(mean, slope) of the factors f of a group: P(f) is r (f - mean - (x - its mean) slope) at every cell."""
        places, (_, r) = self.places(group), self.moments(group)
        count, sums = len(places), self._sums_of(places, weighted)
        if sums is not None and r.special is None:
            unit, x, other, f, products = sums
            slope = Surd.rational(flint.fmpq(count * products - x * f, count * count * unit * other))
            return Surd.rational(flint.fmpq(f, count * other)), slope * (r * r)
        factors = [self._factor(j, weighted) for j in places.tolist()]
        normals = [self.normal(j) for j in places.tolist()]
        return _total(factors) / count, _total([n * f for n, f in zip(normals, factors, strict=True)]) / count * r

    def _sums_of(self, places: Array, weighted: bool) -> tuple[int, int, int, int, int] | None:
        """(unit, sum of x, unit of factors, sum of factors, sum of products) as integers; None if not all is finite."""
        assert self.t is not None
        arrays = [self.x[places], self.t[places]]
        if weighted and self.weight is not None:
            arrays.append(self.weight[self.weight_of(places)])
        if not all(np.isfinite(a).all() for a in arrays):
            return None
        (unit, x), (other, f), *weights = map(_integers, arrays)
        for third, w in weights:
            other, f = other * third, list(map(mul, f, w))
        return unit, sum(x), other, sum(f), sum(map(mul, x, f))

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
        if g.per_cell:
            places = self._all.reshape(-1, g.inner)[:, weight]
        else:
            length = g.inner // g.channels
            start = weight % g.channels * length
            places = self._all[:, weight // g.channels, start : start + length]
        places = places.ravel()
        groups = self.group_of(places)
        return _total([self._share_of(group, places[groups == group]) for group in np.unique(groups).tolist()])

    def _share_of(self, group: int, places: Array) -> Any:
        """The sum of t n over some cells of a group."""
        (mean, r), sums = self.moments(group), self._sums_of(places, False)
        if sums is not None and mean.special is None and r.special is None:
            unit, _, other, f, products = sums
            return r * (Surd.rational(flint.fmpq(products, unit * other)) - mean * Surd.rational(flint.fmpq(f, other)))
        return _total([self._factor(j, False) * self.normal(j) for j in places.tolist()])


def _doubles(array: Maybe) -> Maybe:
    return None if array is None else as_doubles(array).reshape(-1)


def _moments(cells: Array) -> tuple[Any, Any]:
    """Mean and variance of finite floats: as integers of one common unit."""
    unit, whole = _integers(cells)
    n, s, q = len(whole), sum(whole), sum(p * p for p in whole)
    mean = Surd.rational(flint.fmpq(s, n * unit))
    return mean, Surd.rational(flint.fmpq(n * q - s * s, n * n * unit * unit))


def _over(values: Array, groups: Array, smaller: Any) -> Array:
    """The least or greatest value of every group; NaN if one is NaN."""
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    return np.asarray(smaller.reduceat(values[order], starts))


def _equal(values: Array, groups: Array) -> Array:
    """Whether the values of a group are equal, and finite."""
    least, greatest = _over(values, groups, np.minimum), _over(values, groups, np.maximum)
    return np.asarray((least == greatest) & np.isfinite(least))


def _integers(values: Array) -> tuple[int, list[int]]:
    """Finite floats as integers of one common unit: (1 / unit, the integers)."""
    ratios = [v.as_integer_ratio() for v in values.tolist()]
    unit = max(q for _, q in ratios)
    return unit, [p * (unit // q) for p, q in ratios]


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
            _moved(op, list(x.reshape(g.blocks, g.groups, g.inner)[:, i].ravel()), old[i], squares)
            for i in range(g.groups)
        ]
        return np.array(numbers, dtype=object)
    if x.size == 0:
        return old
    if g.cells - squares < 1:
        return np.full(old.shape, np.nan).astype(x.dtype)
    call, before = call or _Call(BatchNorm(True), (x,)), np.ascontiguousarray(old.astype(x.dtype))
    moments = call.moments if call.known else None
    moved, undecided = _core.group_statistics(
        op.name, call.sizes, call.flags, call.x, moments, before, op.momentum, squares, int(squares), [g.groups]
    )
    doubles = as_doubles(x).reshape(g.blocks, g.groups, g.inner) if undecided.size else None
    for group in undecided.tolist():
        assert doubles is not None
        exact = _moved_exactly(op, doubles[:, group].ravel(), float(as_doubles(before)[group]), squares)
        moved[group] = np.float64(exact.rounded(float_format(x.dtype))).astype(x.dtype)
    return np.asarray(moved)


def _moved_exactly(op: Any, cells: Array, old: float, squares: bool) -> Any:
    if not np.isfinite(cells).all():
        return _moved(op, [Surd.of(v) for v in cells.tolist()], Surd.of(old), squares)
    mean, variance = _moments(cells)
    n = len(cells)
    new = variance * Surd.rational(flint.fmpq(n, n - 1)) if squares else mean
    return _mixed(op, Surd.of(old), new)


def _moved(op: Any, cells: list[Any], old: Any, squares: bool) -> Any:
    new = mean = _total(cells) / len(cells)
    if squares:
        new = _total([(x - mean) * (x - mean) for x in cells]) / (len(cells) - 1)
    return _mixed(op, old, new)


def _mixed(op: Any, old: Any, new: Any) -> Any:
    momentum = flint.fmpq(*op.momentum.as_integer_ratio())
    return old * (1 - momentum) + new * momentum
