"""Correct rounding of p-norms and of their derivatives, for one window or cell of floats.

A number is enclosed in balls of growing precision until all of a ball rounds to one float. That ends unless the number
lies on a boundary of rounding, so it must be rational. For integer p the rational ones are found exactly: p-th roots of
positive rationals are linearly independent over the rationals unless the quotient of two is rational (Besicovitch).
For other p the equal cells are treated alike, and a number that no ball of 2^13 bits tells from a boundary is taken to
lie on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from halfulp.numbers import flint
from halfulp.numbers._formats import Format
from halfulp.numbers._rounding import round_ball, round_rational

_FIRST, _LAST = 128, 1 << 13
_LARGEST_ROOT = 64  # of a denominator's root that is looked for


class NormTerm(NamedTuple):
    """factor * sign(own) * (\\|own\\| / norm of the window)^(p-1)."""

    own: float
    factor: float
    window: Sequence[float]


def norm(cells: Sequence[float], p: Any, target: Format) -> float:
    """The p-norm of floats, rounded once; 1 < p < infinity."""
    if any(math.isnan(cell) for cell in cells):
        return math.nan
    if any(math.isinf(cell) for cell in cells):
        return math.inf
    real = _rationals(cells)
    if not real:
        return 0.0
    return _rounded(lambda: _norm_ball(real, p), lambda: _rational_norm(real, p), target)


def norm_sum(terms: Iterable[NormTerm], p: Any, target: Format, padded: bool = False) -> float:
    """The sum of the terms, rounded once; 1 < p < infinity. A term whose cell is 0 is +0, as is a padded cell's."""
    zeros, infinities, finite = [0.0] if padded else [], set(), []
    for term in terms:
        kind = _special(term, p)
        if kind is None:
            finite.append(term)
        elif math.isnan(kind):
            return math.nan
        elif kind == 0:
            zeros.append(kind)
        else:
            infinities.add(kind)
    if infinities:
        return math.nan if len(infinities) == 2 else infinities.pop()
    if not finite:
        return -0.0 if zeros and all(math.copysign(1.0, zero) < 0 for zero in zeros) else 0.0
    parts = [_Part(_rational(t.own), _rational(t.factor), _rationals(t.window)) for t in finite]
    return _rounded(lambda: _sum_ball(parts, p), lambda: _rational_sum(parts, p), target)


def _special(term: NormTerm, p: Any) -> float | None:
    """The zero, infinity or NaN that a term is; None if it is another number."""
    own, factor, window = term
    if math.isnan(own) or any(math.isnan(cell) for cell in window):
        return math.nan
    if own == 0:
        return 0.0
    if any(math.isinf(cell) for cell in window):
        return math.nan if math.isinf(own) else 0.0
    if math.isnan(factor):
        return math.nan
    if factor == 0 or math.isinf(factor):
        return math.copysign(1.0, own) * factor
    return None


class _Part(NamedTuple):
    own: Any
    factor: Any
    window: list[Any]


def _rational(value: float) -> Any:
    return flint.fmpq(*value.as_integer_ratio())


def _rationals(cells: Iterable[float]) -> list[Any]:
    """The magnitudes other than 0, exactly."""
    return [abs(_rational(cell)) for cell in cells if cell != 0]


def _rounded(ball: Callable[[], Any], rational: Callable[[], Any], target: Format) -> float:
    precision = _FIRST
    while True:
        with flint.ctx.workprec(precision):
            found = ball()
            result = round_ball(found, target)
            if result is not None:
                return result
            if precision == _FIRST:
                exact = rational()
                if exact is not None:
                    return round_rational(int(exact.p), int(exact.q), target)
            if precision >= _LAST and (boundary := _boundary(found, target)) is not None:
                return round_rational(int(boundary.p), int(boundary.q), target)
        precision *= 2


def _boundary(ball: Any, target: Format) -> Any:
    """The number half-way between two floats, or float, that a narrow ball holds; None if it holds none."""
    mantissa, exponent = (int(part) for part in ball.mid().man_exp())
    bits = abs(mantissa).bit_length()
    quantum = max(bits + exponent - 1, target.emin) - target.precision
    shift = quantum - exponent
    steps = (mantissa + (1 << (shift - 1))) >> shift if shift > 0 else mantissa << -shift
    boundary = flint.fmpq(steps) * (flint.fmpq(2) ** quantum)
    return boundary if ball.contains(flint.arb(boundary)) else None


def _exponent(p: Any) -> Any:
    return flint.arb(p) if isinstance(p, int) else flint.arb(flint.fmpq(*p.as_integer_ratio()))


def _power(magnitude: Any, p: Any) -> Any:
    return flint.arb(magnitude) ** p


def _total(window: list[Any], p: Any) -> Any:
    """A ball around the sum of the p-th powers."""
    exponent = p if isinstance(p, int) else _exponent(p)
    return sum((_power(cell, exponent) for cell in window), flint.arb(0))


def _norm_ball(window: list[Any], p: Any) -> Any:
    if len(window) == 1:
        return flint.arb(window[0])
    return _total(window, p) ** (1 / _exponent(p))


def _sum_ball(parts: list[_Part], p: Any) -> Any:
    known: dict[int, Any] = {}
    result = flint.arb(0)
    for part in parts:
        if id(part.window) not in known:
            known[id(part.window)] = _norm_ball(part.window, p)
        quotient = flint.arb(abs(part.own)) / known[id(part.window)]
        term = quotient ** (p - 1 if isinstance(p, int) else _exponent(p) - 1)
        result += flint.arb(part.factor) * (term if part.own > 0 else -term)
    return result


def _rational_norm(window: list[Any], p: Any) -> Any:
    """The norm if it is rational and that is found, else None."""
    if len(window) == 1:
        return window[0]
    if isinstance(p, int):
        return _root(sum((cell**p for cell in window), flint.fmpq(0)), p)
    if any(cell != window[0] for cell in window):
        return None
    top, bottom = Fraction(p).as_integer_ratio()
    if top > _LARGEST_ROOT:
        return None
    count = _root(flint.fmpq(len(window)), top)
    return None if count is None else window[0] * count**bottom


def _rational_sum(parts: list[_Part], p: Any) -> Any:
    """The sum if it is rational and that is found, else None."""
    if not isinstance(p, int):
        single = all(len(part.window) == 1 for part in parts)
        return sum((part.factor * _sign(part.own) for part in parts), flint.fmpq(0)) if single else None
    classes: list[list[Any]] = []  # [radicand, coefficient of its p-th root]
    for part in parts:
        radicand = sum((cell**p for cell in part.window), flint.fmpq(0))
        coefficient = part.factor * _sign(part.own) * abs(part.own) ** (p - 1) / radicand
        for group in classes:
            ratio = _root(radicand / group[0], p)
            if ratio is not None:
                group[1] += coefficient * ratio
                break
        else:
            classes.append([radicand, coefficient])
    result = flint.fmpq(0)
    for radicand, coefficient in classes:
        if coefficient != 0:
            root = _root(radicand, p)
            if root is None:
                return None
            result += coefficient * root
    return result


def _sign(value: Any) -> int:
    return 1 if value > 0 else -1


def _root(value: Any, degree: int) -> Any:
    """The rational root of a rational > 0; None if there is none."""
    parts = []
    for part in (int(value.p), int(value.q)):
        root = int(flint.fmpz(part).root(degree))
        if root**degree != part:
            return None
        parts.append(root)
    return flint.fmpq(*parts)
