"""Single results of normalisations over numbers with square roots: what the core's bounds leave undecided."""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul
from typing import Any

import numpy as np

from halfulp.numbers import as_doubles, flint
from halfulp.numbers._surds import Surd
from halfulp.records.normalization import Groups

Array = np.ndarray[Any, Any]
Maybe = np.ndarray[Any, Any] | None
VALUE, TANGENT, COTANGENT, WEIGHTS = range(4)


def channels_last(array: Array) -> Array:
    """The channels, the second axis, moved to the end."""
    return array if array.ndim < 3 else array.transpose(0, *range(2, array.ndim), 1)


def channels_second(array: Array) -> Array:
    """And back."""
    return array if array.ndim < 3 else array.transpose(0, -1, *range(1, array.ndim - 1))


class Exact:
    """The results of one call of the core."""

    def __init__(self, call: Any, more: Sequence[Maybe]) -> None:
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
        return np.ascontiguousarray(channels_second(doubles) if self.call.last else doubles).reshape(-1)

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


def moved_exactly(op: Any, cells: Array, old: float, squares: bool) -> Any:
    if not np.isfinite(cells).all():
        return moved(op, [Surd.of(v) for v in cells.tolist()], Surd.of(old), squares)
    mean, variance = _moments(cells)
    n = len(cells)
    new = variance * Surd.rational(flint.fmpq(n, n - 1)) if squares else mean
    return mixed(op, Surd.of(old), new)


def moved(op: Any, cells: list[Any], old: Any, squares: bool) -> Any:
    new = mean = _total(cells) / len(cells)
    if squares:
        new = _total([(x - mean) * (x - mean) for x in cells]) / (len(cells) - 1)
    return mixed(op, old, new)


def mixed(op: Any, old: Any, new: Any) -> Any:
    momentum = flint.fmpq(*op.momentum.as_integer_ratio())
    return old * (1 - momentum) + new * momentum
