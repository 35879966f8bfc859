"""Smooth maxima and their derivatives, rounded once, one result at a time, in ball arithmetic.

The specification computes every float result so, and the kernels those that error bounds left undecided.

A result is enclosed ever more tightly until the ball rounds to one float. One that lies on a boundary between two
floats, or closer to it than any precision could show, is compared with that boundary exactly: by the
Lindemann-Weierstrass theorem exponentials of distinct rationals are linearly independent over the rationals, so a sum
of them is zero only if nothing is left of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import copysign, inf, isfinite, isinf, isnan, nan
from typing import Any, NamedTuple

from halfulp.numbers import _fractions, flint
from halfulp.numbers._exponentials import (
    Exponentials,
    added,
    evaluated,
    plus,
    rational,
    rounded,
    side_of_zero,
    sign,
)
from halfulp.numbers._formats import Format
from halfulp.numbers._rounding import round_rational


class Window(NamedTuple):
    """The cells of a window, and how many padded zeros it counts beside them."""

    cells: Sequence[float]
    padded: int

    def decided_by(self, beta: Any) -> float:
        """+inf if a term is infinite, -inf if every term is zero, 0 otherwise."""
        ends = [copysign(inf, x * (1 if beta > 0 else -1)) if isinf(x) else 0.0 for x in self.cells]
        return max([*ends, *([0.0] if self.padded else [])], default=-inf)

    def total(self, beta: Any) -> Exponentials:
        """The sum of the exponentials, each exponent once."""
        out: Exponentials = {flint.fmpq(0): flint.fmpq(self.padded)} if self.padded else {}
        for x in self.cells:
            if isfinite(x):
                plus(out, beta * rational(x), flint.fmpq(1))
        return out

    def weight_kind(self, beta: Any, x: float) -> float:
        """What kind of number the weight of a cell with value x is: NaN, 0.0, or 1.0 for a positive one."""
        if any(isnan(cell) for cell in self.cells):
            return nan
        if len(self.cells) + self.padded == 1:
            return 1.0 if isfinite(x) else nan
        end = self.decided_by(beta)
        if end == inf:
            return nan if isinf(x) and (x > 0) == (beta > 0) else 0.0
        return nan if end == -inf else float(isfinite(x))


def value(beta: Any, window: Window, target: Format) -> float:
    """The smooth maximum of a window, rounded once."""
    cells, padded = window
    if len(cells) + padded <= 1:
        return cells[0] if cells else 0.0
    if any(isnan(x) for x in cells):
        return nan
    end = window.decided_by(beta)
    if end:
        return copysign(inf, end * (1 if beta > 0 else -1))
    total = window.total(beta)
    top = max(total)
    if total == {top: 1}:
        return _round(top / beta, target)

    def ball() -> Any:
        rest = flint.arb(total[top] - 1)
        for a, c in total.items():
            if a != top:
                rest += c * flint.arb(a - top).exp()
        return (top + rest.log1p()) / flint.arb(beta)

    def side(boundary: Any) -> int:
        return sign(added(total, {beta * boundary: flint.fmpq(1)}, -1)) * (1 if beta > 0 else -1)

    return rounded(ball, side, target)


def jvp(beta: Any, window: Window, tangents: Sequence[float], target: Format) -> float:
    """The tangents' mean with the weights of the cells, rounded once."""
    if not window.cells:
        return 0.0
    kinds = [window.weight_kind(beta, x) for x in window.cells]
    special = _special_sum(kinds, tangents)
    if special is not None:
        return special
    total = window.total(beta)
    weighted: Exponentials = {}
    for x, t, kind in zip(window.cells, tangents, kinds, strict=True):
        if kind:
            plus(weighted, beta * rational(x), rational(t))
    if not weighted:
        return _zero(kinds, tangents, window.padded > 0)
    means = {weighted.get(a, flint.fmpq(0)) / c for a, c in total.items()}
    if len(means) == 1:
        return _round(means.pop(), target)
    top = max(total)

    def ball() -> Any:
        return evaluated(weighted, top) / evaluated(total, top)

    # The total is positive, so the side is the sign of sum((weighted - boundary * total) * exp).
    return rounded(ball, lambda boundary: sign(added(weighted, total, -boundary)), target)


def vjp(beta: Any, parts: Sequence[tuple[Window, float, float]], target: Format) -> float:
    """The sum over (window, value of the cell, cotangent) of the cell's weight times the cotangent, rounded once."""
    kinds = [window.weight_kind(beta, x) for window, x, _ in parts]
    cotangents = [g for _, _, g in parts]
    special = _special_sum(kinds, cotangents)
    if special is not None:
        return special
    # A weight is 1 / sum(exp(beta * (x_j - x))): windows that see the same differences are one term.
    terms: dict[tuple[tuple[Any, Any], ...], Any] = {}
    for (window, x, g), kind in zip(parts, kinds, strict=True):
        if kind:
            shift = beta * rational(x)
            key = tuple(sorted((a - shift, c) for a, c in window.total(beta).items()))
            plus(terms, key, rational(g))
    if not terms:
        return _zero(kinds, cotangents, False)
    if all(len(key) == 1 for key in terms):
        return _round(sum((g / key[0][1] for key, g in terms.items()), flint.fmpq(0)), target)

    def apart(boundary: Any) -> Any:
        # With the largest term c * exp(a) of a denominator, 1 / (c + r) = 1 / c - r / (c * (c + r)), times exp(-a): the
        # first parts cancel exactly, however tiny r is beside c.
        known: Exponentials = {flint.fmpq(0): -boundary} if boundary else {}
        rest = flint.arb(0)
        for key, g in terms.items():
            (top, own), others = key[-1], evaluated(dict(key[:-1]), key[-1][0])
            plus(known, -top, g / own)
            rest -= g * flint.arb(-top).exp() * others / (own * (own + others))
        return evaluated(known, flint.fmpq(0)) + rest

    def side(boundary: Any) -> int:
        with flint.ctx.workprec(1024):
            found = side_of_zero(apart(boundary))
        return found or _fractions.sign(list(terms.items()), boundary)

    return rounded(lambda: apart(0), side, target)


def _special_sum(kinds: Sequence[float], factors: Sequence[float]) -> float | None:
    """The sum of weight * factor if NaN or infinity decides it."""
    terms = [kind * factor for kind, factor in zip(kinds, factors, strict=True)]
    if any(isnan(term) for term in terms) or (inf in terms and -inf in terms):
        return nan
    return next((term for term in terms if isinf(term)), None)


def _zero(kinds: Sequence[float], factors: Sequence[float], padded: bool) -> float:
    """A sum that is exactly zero: -0 only if every term is."""
    cancelled = any(kind and factor != 0 for kind, factor in zip(kinds, factors, strict=True))
    negative = bool(factors) and all(copysign(1.0, factor) < 0 for factor in factors)
    return -0.0 if negative and not cancelled and not padded else 0.0


def _round(q: Any, target: Format) -> float:
    return round_rational(int(q.p), int(q.q), target)
