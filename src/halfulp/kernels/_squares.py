"""Sums of products in the compiled core, factor / divisor * sum(a b), and the few results left, exactly."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np

from halfulp import _core
from halfulp.numbers import as_doubles, float_format
from halfulp.numbers._rounding import round_rational

Array = np.ndarray[Any, Any]
Maybe = np.ndarray[Any, Any] | None


class Squares:
    """Rows of x, and of y or None for the mean of every row; t, s and g as the core has them (halfulp/loss.hpp)."""

    def __init__(self, name: str, x: Array, y: Maybe, divisor: int) -> None:
        self.name, self.x, self.y, self.divisor = name, x, y, divisor

    def sums(self, factor: int, t: Maybe = None, s: Maybe = None) -> Array:
        """One number per row."""
        return self._run(factor, False, t, s, None)

    def cells(self, factor: int, t: Maybe = None, s: Maybe = None, g: Maybe = None) -> Array:
        """One number per cell; g has one per cell or per row."""
        return self._run(factor, True, t, s, g)

    def _run(self, factor: int, by_cell: bool, t: Maybe, s: Maybe, g: Maybe) -> Array:
        x = self.x
        if x.size == 0:
            return np.zeros(x.shape if by_cell else x.shape[:1], x.dtype)
        by_row = g is not None and g.ndim == 1
        arrays = [x, self.y, t, s, g]
        out, undecided = _core.squares(self.name, arrays, by_cell, by_row, float(factor), float(self.divisor))
        if undecided.size:
            flat, target = out.reshape(-1), float_format(x.dtype)
            exact = Exact(self, factor, t, s, g)
            for position in undecided.tolist():
                row, i = divmod(position, x.shape[1]) if by_cell else (position, None)
                flat[position] = np.float64(exact.rounded(row, i, target)).astype(x.dtype)
        return np.asarray(out)


class Exact:
    """Single results, with integers of one common unit."""

    def __init__(self, call: Squares, factor: int, t: Maybe, s: Maybe, g: Maybe) -> None:
        self.x, self.y, self.t, self.s, self.g = (_doubles(a) for a in (call.x, call.y, t, s, g))
        self.factor, self.divisor = factor, call.divisor
        self._rows: dict[int, Any] = {}

    def rounded(self, row: int, i: int | None, target: Any) -> float:
        """A sum, or one cell."""
        if row not in self._rows:
            self._rows[row] = self._scaled(row)
        special, a, a_unit, b, b_unit = self._rows[row]
        if i is None:
            if special is not None:
                return _special_sum(special)
            top = _dot(a, b)
        else:
            if special is not None and not np.isfinite(special[i]):
                return float(special[i]) * (1 if self.factor > 0 else -1)
            if a is None:  # the mean is not finite
                return nan
            top = int(a[i]) * int(b[i])
        bottom = self.divisor * a_unit * b_unit
        return round_rational(self.factor * top, bottom, target)

    def _scaled(self, row: int) -> tuple[Any, ...]:
        """(products that are not finite or None, a and its unit, b and its unit)."""
        assert self.x is not None
        x = self.x[row]
        pieces = [x] if self.y is None else [x, self.y[row]]
        others = [v[row] for v in (self.t, self.s) if v is not None]
        if self.g is not None:
            others = [np.broadcast_to(self.g[row], x.shape)]
        finite = all(np.isfinite(v).all() for v in (*pieces, *others))
        a, a_unit = self._first(pieces)
        if not others:
            b, b_unit = a, a_unit
        else:
            b, b_unit = _whole(others[0] if self.t is not None or self.g is not None else -others[0])
            if len(others) == 2:
                b, b_unit = _difference(others[0], others[1])
        special = None
        if not finite:
            own = _kinds(pieces, a)
            with np.errstate(invalid="ignore"):  # 0 * inf is NaN
                special = own * (_kind_of(others, self.t is None and self.g is None, b) if others else own)
        return special, a, a_unit, b, b_unit

    def _first(self, pieces: list[Array]) -> tuple[Any, int]:
        """x - y, or n x - sum(x) in n times the unit."""
        if len(pieces) == 2:
            return _difference(*pieces)
        whole, unit = _whole(pieces[0])
        if not np.isfinite(pieces[0]).all():
            return None, 1
        n, total = len(whole), sum(whole.tolist())
        return np.array([n * v - total for v in whole.tolist()], dtype=object), n * unit


def _doubles(array: Maybe) -> Maybe:
    return None if array is None else as_doubles(array)


def _whole(values: Array) -> tuple[Any, int]:
    """Finite numbers as integers over one common unit; what is not finite as 0."""
    ratios = [float(v).as_integer_ratio() if np.isfinite(v) else (0, 1) for v in values.tolist()]
    unit = max(q for _, q in ratios)
    return np.array([p * (unit // q) for p, q in ratios], dtype=object), unit


def _difference(a: Array, b: Array) -> tuple[Any, int]:
    both, unit = _whole(np.concatenate([a, b]))
    return both[: len(a)] - both[len(a) :], unit


def _dot(a: Any, b: Any) -> int:
    largest = max(abs(v) for v in a), max(abs(v) for v in b)
    if largest[0] * largest[1] * len(a) < 2**62 and max(largest) < 2**62:
        return int(a.astype(np.int64) @ b.astype(np.int64))
    return int(sum(p * q for p, q in zip(a.tolist(), b.tolist(), strict=True)))


def _kinds(pieces: list[Array], a: Any) -> Array:
    """0, 1, -1, infinities and NaN like x - y or x - mean(x), cell by cell."""
    if len(pieces) == 2:
        return _signs(a, pieces[0], -pieces[1])
    if a is None:  # a cell that is not finite: so is the mean, and every difference to it
        x = pieces[0]
        with np.errstate(invalid="ignore"):
            mean = np.where(np.isfinite(x), 0.0, x).sum()
            return np.asarray(np.where(np.isfinite(x), 0.0, x) - mean)
    return _signs(a, pieces[0], np.zeros(len(a)))


def _kind_of(others: list[Array], negative: bool, b: Any) -> Array:
    if len(others) == 2:
        return _signs(b, others[0], -others[1])
    return _signs(b, -others[0] if negative else others[0], np.zeros(len(b)))


def _signs(exact: Any, a: Array, b: Array) -> Array:
    with np.errstate(invalid="ignore"):
        beyond = np.where(np.isfinite(a), 0.0, a) + np.where(np.isfinite(b), 0.0, b)
    signs = np.array([(v > 0) - (v < 0) for v in exact], dtype=np.float64)
    return np.where(np.isfinite(a) & np.isfinite(b), signs, beyond)


def _special_sum(products: Array) -> float:
    beyond = products[~np.isfinite(products)]
    if np.isnan(beyond).any() or (beyond.max() == inf and beyond.min() == -inf):
        return nan
    return float(beyond[0])
