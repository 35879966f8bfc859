"""Smooth max pooling over floats: the exact value, rounded once.

Each result is enclosed in a ball of rising precision until the ball lies within one rounding interval. A result whose
ball keeps touching a boundary between two floats is compared with that boundary exactly: the comparison is the sign of
a sum c_k * exp(a_k) with distinct rational exponents a_k and nonzero rational c_k. By the Lindemann-Weierstrass theorem
such a sum is zero only if it is empty, so the comparison always ends.

Infinite cells follow the formula in the extended reals: exp(-inf) = 0, exp(inf) = inf, and a weight inf / inf or 0 / 0
is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

from halfulp.numbers import Extended, Format, flint, round_ball, round_rational
from halfulp.spec._smooth_identity import Exponentials, accumulate, combine, evaluate, side_of, sign_of_sum


def signed_zero(negative: Sequence[bool]) -> float:
    """The zero that a sum of zeros is: -0 if every one of them is, +0 otherwise."""
    return -0.0 if negative and all(negative) else 0.0


def is_negative(value: Extended) -> bool:
    """The sign bit."""
    return math.copysign(1.0, value.special) < 0


@dataclass(frozen=True)
class Cells:
    """A window seen through beta: its exponents, and whether infinities decide it."""

    beta: flint.fmpq
    values: Sequence[Extended]
    padded: int

    @cached_property
    def is_nan(self) -> bool:
        """Whether a cell is NaN."""
        return any(v.is_nan for v in self.values)

    def tends_to(self, value: Extended) -> float:
        """beta * value as +inf, -inf, or 0 for anything finite."""
        return 0.0 if value.is_finite else value.special * (1.0 if self.beta > 0 else -1.0)

    @cached_property
    def largest(self) -> float:
        """+inf if a term is infinite, -inf if all terms are zero, 0 otherwise."""
        reaches = [self.tends_to(v) for v in self.values] + [0.0] * (self.padded > 0)
        return max(reaches, default=-math.inf)

    @cached_property
    def sum(self) -> Exponentials:
        """The sum of the finite, nonzero terms."""
        out: Exponentials = {flint.fmpq(0): flint.fmpq(self.padded)} if self.padded else {}
        for v in self.values:
            if v.is_finite:
                accumulate(out, self.beta * v.value, flint.fmpq(1))
        return out

    def weight_class(self, value: Extended) -> float:
        """NaN, 0.0, or 1.0 for a weight that is a proper positive number."""
        if self.is_nan:
            return math.nan
        if len(self.values) + self.padded == 1:
            return 1.0 if value.is_finite else math.nan
        if self.largest == math.inf:
            return math.nan if self.tends_to(value) == math.inf else 0.0
        if self.largest == -math.inf:
            return math.nan
        return 1.0 if value.is_finite else 0.0


def smooth_value(cells: Cells, target: Format) -> float:
    """The rounded smooth maximum of a window."""
    if len(cells.values) + cells.padded <= 1:
        return _as_float(cells.values[0]) if cells.values else 0.0
    if cells.is_nan:
        return math.nan
    if cells.largest:
        return cells.largest * (1.0 if cells.beta > 0 else -1.0)
    s = cells.sum
    if len(s) == 1:
        ((exponent, count),) = s.items()
        if count == 1:  # a single term: the smooth maximum is that cell
            return _round(exponent / cells.beta, target)
    top = max(s)

    def ball() -> Any:
        small = reduce(
            lambda a, b: a + b,
            (flint.arb(c) * flint.arb(a - top).exp() for a, c in s.items() if a != top),
            flint.arb(0),
        )
        return (flint.arb(top) + (small + (s[top] - 1)).log1p()) / flint.arb(cells.beta)

    def side(boundary: flint.fmpq) -> int:
        difference = dict(s)
        accumulate(difference, cells.beta * boundary, flint.fmpq(-1))
        return sign_of_sum(difference) if cells.beta > 0 else -sign_of_sum(difference)

    return decide(ball, side, target)


def smooth_jvp(cells: Cells, tangents: Sequence[Extended], target: Format) -> float:
    """The rounded sum of p_i * t_i."""
    if not cells.values:
        return 0.0
    classes = [cells.weight_class(v) for v in cells.values]
    special = _sum_class(classes, tangents)
    if special is not None:
        return special
    s = cells.sum
    if len(cells.values) + cells.padded == 1:
        s = {cells.beta * cells.values[0].value: flint.fmpq(1)}
    weighted: Exponentials = {}
    for v, t, weight in zip(cells.values, tangents, classes, strict=True):
        if weight:
            accumulate(weighted, cells.beta * v.value, t.value)
    if not weighted:
        negative = [is_negative(t) for t in tangents] + [False] * (cells.padded > 0)
        cancelled = any(t.value != 0 and weight for t, weight in zip(tangents, classes, strict=True))
        return 0.0 if cancelled else signed_zero(negative)

    def ball() -> flint.arb:
        top = max(s)
        return evaluate(weighted, top) / evaluate(s, top)

    def side(boundary: flint.fmpq) -> int:
        return sign_of_sum(combine(weighted, s, -boundary))

    return decide(ball, side, target)


def smooth_vjp(parts: Sequence[tuple[Cells, Extended, Extended]], target: Format) -> float:
    """The rounded sum, over the windows that hold one cell, of its weight times their cotangent.

    ``parts`` has (window, the cell's value, the window's cotangent) for each of them.
    """
    if not parts:
        return 0.0
    classes = [cells.weight_class(value) for cells, value, _ in parts]
    cotangents = [g for _, _, g in parts]
    special = _sum_class(classes, cotangents)
    if special is not None:
        return special
    # p = 1 / sum(exp(beta * (x_j - x_i))): windows with the same sum share one coefficient
    shares: dict[frozenset[tuple[Any, Any]], Any] = {}
    for (cells, value, g), weight in zip(parts, classes, strict=True):
        if weight:
            s = cells.sum if len(cells.values) + cells.padded > 1 else {cells.beta * value.value: flint.fmpq(1)}
            key = frozenset((a - cells.beta * value.value, c) for a, c in s.items())
            shares[key] = shares.get(key, flint.fmpq(0)) + g.value
    shares = {key: g for key, g in shares.items() if g != 0}
    if not shares:
        cancelled = any(g.value != 0 and weight for g, weight in zip(cotangents, classes, strict=True))
        return 0.0 if cancelled else signed_zero([is_negative(g) for g in cotangents])

    def ball(boundary: Any = 0) -> flint.arb:
        """The sum minus a boundary. Of a denominator the largest term c * exp(a) is taken exactly.

        1 / (c + r) = 1 / c - r / (c * (c + r)), in which r may be tiny beside c, times exp(-a).
        """
        exact: Exponentials = {}
        accumulate(exact, flint.fmpq(0), -flint.fmpq(boundary))
        rest = flint.arb(0)
        for key, g in shares.items():
            s = dict(key)
            top = max(s)
            c = s.pop(top)
            r = evaluate(s, top)
            accumulate(exact, -top, g / c)
            rest -= flint.arb(g) * flint.arb(-top).exp() * r / (c * (c + r))
        return evaluate(exact, flint.fmpq(0)) + rest

    def side(boundary: flint.fmpq) -> int:
        near = ball(boundary)
        if near > 0 or near < 0:
            return 1 if near > 0 else -1
        return side_of(shares, boundary)

    return decide(ball, side, target)


def decide(ball: Callable[[], flint.arb], side: Callable[[flint.fmpq], int], target: Format) -> float:
    """Round the number that ``ball`` encloses ever more tightly; ``side`` tells its side of a boundary, or 0 on it."""
    before = flint.ctx.prec
    try:
        for precision in (80, 160, 320, 640):
            flint.ctx.prec = precision
            enclosure = ball()
            result = round_ball(enclosure, target)
            if result is not None:
                return result
        while True:
            low, high, boundary = _boundary(enclosure, target)
            if boundary is not None:
                sign = side(boundary)
                if sign == 0:
                    return _round(boundary, target)
                return high if sign > 0 else low
            flint.ctx.prec *= 2
            enclosure = ball()
            result = round_ball(enclosure, target)
            if result is not None:
                return result
    finally:
        flint.ctx.prec = before


def _boundary(ball: flint.arb, target: Format) -> tuple[float, float, flint.fmpq | None]:
    """The two floats a ball rounds to and the one boundary between them; None while it holds more than one."""
    if not ball.is_finite():
        return math.nan, math.nan, None
    low, high = round_ball(ball.lower(), target), round_ball(ball.upper(), target)
    assert low is not None
    assert high is not None
    if low == high == 0:
        return -0.0, 0.0, flint.fmpq(0)
    if math.copysign(1.0, low) != math.copysign(1.0, high):
        return low, high, None  # zero, where the sign changes, is a boundary too
    ends = []
    for end, other in ((low, high), (high, low)):
        if math.isfinite(end):
            ends.append(flint.fmpq(*end.as_integer_ratio()))
        else:  # the float that would follow the largest one
            ends.append(flint.fmpq(2) ** (target.emax + 1) * (1 if end > other else -1))
    middle = (ends[0] + ends[1]) / 2
    spacing = ends[1] - ends[0]
    # Neighbours only: with a float strictly between them there are two boundaries.
    between = round_rational(int(middle.p), int(middle.q), target)
    if between not in (low, high) and spacing != 0:
        return low, high, None
    return low, high, middle


def _sum_class(weights: Sequence[float], factors: Sequence[Extended]) -> float | None:
    """What sum(weight * factor) is if an infinity or NaN decides it, else None."""
    special = 0.0
    for weight, factor in zip(weights, factors, strict=True):
        if math.isnan(weight) or not factor.is_finite:
            special += weight * factor.special
    return special if special != 0 else None


def _as_float(value: Extended) -> float:
    """A lifted float, back as it was."""
    return float(int(value.value.p) / int(value.value.q)) if value.is_finite and value.value != 0 else value.special


def _round(value: Any, target: Format) -> float:
    return round_rational(int(value.p), int(value.q), target)
