"""Interpolation in the compiled core: the taps of every axis as tables, and the few outputs left, exactly."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import lcm, prod
from typing import Any, NamedTuple

import numpy as np

from halfulp import _core
from halfulp.kernels._linear_map import register_linear
from halfulp.numbers import as_doubles, float_format
from halfulp.numbers._rounding import round_rational
from halfulp.records import Interpolate
from halfulp.records.interpolate import Taps

Array = np.ndarray[Any, Any]
_LARGEST = 2**62


class Map(NamedTuple):
    """A linear map of planes: its taps, and what the core asks of them."""

    sizes: tuple[int, ...]
    outputs: tuple[int, ...]
    taps: tuple[tuple[Taps, ...], ...]
    tables: tuple[tuple[Array, ...], ...]
    divisor: int
    bits: int
    reach: float
    negative: bool
    copies: tuple[Array, ...] | None
    """The cell of every output along every axis, where that is all."""


@lru_cache(maxsize=256)
def map_of(op: Interpolate, spatial: tuple[tuple[int, int, float | None], ...], transposed: bool = False) -> Map:
    """The map of an operator, or its transpose."""
    taps = [op.taps(*axis) for axis in spatial]
    if transposed:
        taps = [_transposed(own, n) for own, (n, _, _) in zip(taps, spatial, strict=True)]
    sizes = tuple(m if transposed else n for n, m, _ in spatial)
    return _made(sizes, tuple(taps))


def _transposed(taps: tuple[Taps, ...], n: int) -> tuple[Taps, ...]:
    back: list[list[tuple[int, Fraction]]] = [[] for _ in range(n)]
    for output, own in enumerate(taps):
        for cell, weight in own:
            back[cell].append((output, weight))
    return tuple(tuple(own) for own in back)


def _made(sizes: tuple[int, ...], taps: tuple[tuple[Taps, ...], ...]) -> Map:
    if all(len(own) == 1 and own[0][1] == 1 for axis in taps for own in axis):
        copies = tuple(np.array([own[0][0] for own in axis]) for axis in taps)
        return Map(sizes, tuple(map(len, taps)), taps, (), 1, 0, 1.0, False, copies)
    below = [lcm(*(w.denominator for own in axis for _, w in own)) for axis in taps]
    divisor = prod(below)
    most = prod(
        max((abs(w.numerator) * (b // w.denominator) for own in a for _, w in own), default=1)
        for a, b in zip(taps, below, strict=True)
    )
    fits = divisor < _LARGEST and most < _LARGEST
    dyadic = all(b & (b - 1) == 0 for b in below) and divisor < 2**40
    bits = sum(b.bit_length() - 1 for b in below) if dyadic else -1
    reach = prod(max(float(sum(abs(w) for _, w in own)) for own in axis) for axis in taps)
    tables = tuple(_table(axis, b if fits else 0) for axis, b in zip(taps, below, strict=True))
    negative = any(w < 0 for axis in taps for own in axis for _, w in own)
    return Map(
        sizes,
        tuple(map(len, taps)),
        taps,
        tables,
        divisor if fits else 0,
        bits,
        max(reach, 1e-300) * 1.0001,
        negative,
        None,
    )


def _table(axis: tuple[Taps, ...], below: int) -> tuple[Array, ...]:
    most = max(1, *(len(own) for own in axis)) if axis else 1
    counts = np.array([len(own) for own in axis], dtype=np.int64)
    cells = np.zeros((most, len(axis)), dtype=np.int64)
    high, low = np.zeros((2, most, len(axis)))
    numerators = np.zeros((most, len(axis)), dtype=np.int64)
    for o, own in enumerate(axis):
        for k, (cell, weight) in enumerate(own):
            cells[k, o], high[k, o] = cell, float(weight)
            low[k, o] = float(weight - Fraction(float(weight)))
            numerators[k, o] = weight.numerator * (below // weight.denominator) if below else 0
        cells[len(own) :, o] = cells[0, o]
    return counts, cells, high, low, numerators


_ALONE = _table((((0, Fraction(1)),),), 1)
"""An axis of one cell that stays."""


def apply(name: str, x: Array, found: Map) -> Array:
    """The map of every plane of x."""
    rank = len(found.sizes)
    leading = x.shape[: x.ndim - rank]
    shape = (*leading, *found.outputs)
    if prod(shape) == 0:
        return np.zeros(shape, x.dtype)
    if found.copies is not None:
        return _copied(x, found.copies)
    planes = np.ascontiguousarray(x).reshape(prod(leading), *(1,) * (3 - rank), *found.sizes)
    axes = [_ALONE] * (3 - rank) + list(found.tables)
    out, undecided = _core.weighted_taps(name, planes, axes, found.divisor, found.bits, found.reach, found.negative)
    out = out.reshape(shape)
    if undecided.size:
        _decide(found, planes.reshape(prod(leading), prod(found.sizes)), out.reshape(-1), undecided)
    return np.asarray(out)


def _copied(x: Array, copies: tuple[Array, ...]) -> Array:
    rank = len(copies)
    for i, cells in enumerate(copies):
        axis = x.ndim - rank + i
        if len(cells) != x.shape[axis] or (cells != np.arange(len(cells))).any():
            x = np.take(x, cells, axis=axis)
        elif i == 0:
            x = x.copy()
    return np.ascontiguousarray(x)


def _decide(found: Map, planes: Array, out: Array, undecided: Array) -> None:
    """The outputs whose weights are too long for the core."""
    target, doubles = float_format(out.dtype), as_doubles(planes)
    for position in undecided.tolist():
        plane, rest = divmod(position, prod(found.outputs))
        output = np.unravel_index(rest, found.outputs)
        own = [axis[int(i)] for axis, i in zip(found.taps, output, strict=True)]
        out[position] = np.float64(_exactly(found.sizes, own, doubles[plane], target)).astype(out.dtype)


def _exactly(sizes: tuple[int, ...], taps: list[Taps], cells: Array, target: Any) -> float:
    terms = []
    for chosen in product(*taps):
        weight = prod((w for _, w in chosen), start=Fraction(1))
        terms.append((weight, float(cells[np.ravel_multi_index([c for c, _ in chosen], sizes)])))
    special = [(1 if w > 0 else -1) * v for w, v in terms if not np.isfinite(v)]
    if special:
        return float(sum(special))
    whole = sum((w * Fraction(v) for w, v in terms), Fraction(0))
    if whole == 0:
        negative = all(v == 0 and (np.signbit(v) != (w < 0)) for w, v in terms)
        return -0.0 if negative and terms else 0.0
    return round_rational(whole.numerator, whole.denominator, target)


def _resized(op: Interpolate, x: Array) -> Array:
    op.output_shape(x.shape)
    return apply(op.name, x, map_of(op, op.spatial(x.shape), False))


def _sent_back(op: Interpolate, g: Array, shape: tuple[int, ...]) -> Array:
    return apply(op.name, g, map_of(op, op.spatial(shape), True))


register_linear(Interpolate, _resized, _sent_back)
