"""The outputs of smooth max pooling that error bounds left undecided, one by one, in ball arithmetic.

A result is enclosed ever more tightly until the ball rounds to one float. One that lies on a boundary between two
floats, or closer to it than any precision could show, is compared with that boundary exactly: by the
Lindemann-Weierstrass theorem exponentials of distinct rationals are linearly independent over the rationals, so a sum
of them is zero only if nothing is left of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from math import copysign, inf, isfinite, isinf, isnan, nan
from typing import Any, NamedTuple

from halfulp.kernels import _fractions
from halfulp.numbers import Format, flint, round_ball, round_rational

_LESS_THAN_ANY_GAP = -4000
"""The exponent of a step from a boundary of rounding that reaches no other one in any float type."""

Exponentials = dict[Any, Any]
"""sum(c * exp(a)) as {a: c}, rationals both."""


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
                _add(out, beta * _rational(x), flint.fmpq(1))
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

    return _narrowed(ball, target)


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
            _add(weighted, beta * _rational(x), _rational(t))
    if not weighted:
        return _zero(kinds, tangents, window.padded > 0)
    means = {weighted.get(a, flint.fmpq(0)) / c for a, c in total.items()}
    if len(means) == 1:
        return _round(means.pop(), target)
    top = max(total)

    def apart(boundary: Any) -> Any:
        # The total is positive, so the sign is that of sum((weighted - boundary * total) * exp).
        sums = {a: weighted.get(a, flint.fmpq(0)) - boundary * c for a, c in total.items()}
        sums = {a: c for a, c in sums.items() if c != 0}
        return _evaluate(sums, max(sums)) if sums else flint.arb(0)

    return _narrowed(lambda: _evaluate(weighted, top) / _evaluate(total, top), target, apart=apart)


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
            shift = beta * _rational(x)
            key = tuple(sorted((a - shift, c) for a, c in window.total(beta).items()))
            _add(terms, key, _rational(g))
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
            (top, own), others = key[-1], _evaluate(dict(key[:-1]), key[-1][0])
            _add(known, -top, g / own)
            rest -= g * flint.arb(-top).exp() * others / (own * (own + others))
        return _evaluate(known, flint.fmpq(0)) + rest

    return _narrowed(lambda: apart(0), target, apart, lambda boundary: _compared(terms, boundary))


def _narrowed(
    ball: Callable[[], Any],
    target: Format,
    apart: Callable[[Any], Any] | None = None,
    compared: Callable[[Any], int] | None = None,
) -> float:
    """The float that the number rounds to.

    ``apart`` encloses the number minus a rational: its sign decides for a number that is closer to a boundary than any
    precision could show, such as 1 + exp(-10**15). ``compared`` is that sign itself, 0 on the boundary, at any cost.
    """
    for precision in (64 << i for i in count()):
        with _precision(precision):
            enclosure = ball()
            result = round_ball(enclosure, target)
            if result is not None:
                return result
            boundary = _boundary(enclosure, target) if precision >= 1024 else None
            side = _sign(apart(boundary)) if boundary is not None and apart is not None else 0
        if boundary is None or (not side and compared is None):
            continue
        if not side and compared is not None:
            side = compared(boundary)
        return _round(boundary + side * flint.fmpq(2) ** _LESS_THAN_ANY_GAP, target)
    raise AssertionError("unreachable: the precision grows for ever")


def _sign(enclosure: Any) -> int:
    """1 or -1 if the ball lies on one side of 0, else 0."""
    return 1 if enclosure > 0 else -1 if enclosure < 0 else 0


def _boundary(enclosure: Any, target: Format) -> Any:
    """The rational on which the two roundings of a ball part, once it is too narrow to reach another one."""
    if not enclosure.is_finite():
        return None
    # The midpoint between two floats has one bit more than they have: more than a Python float may hold.
    mantissa, exponent = (int(part) for part in enclosure.mid().man_exp())
    unit = max(exponent + abs(mantissa).bit_length() - target.precision - 1, target.quantum - 1)
    if enclosure.contains(0):
        unit, boundary = target.quantum - 1, flint.fmpq(0)
    elif unit <= exponent:
        boundary = flint.fmpq(mantissa) * flint.fmpq(2) ** exponent
    else:
        steps = (mantissa + (1 << (unit - exponent - 1))) >> (unit - exponent)
        boundary = flint.fmpq(steps) * flint.fmpq(2) ** unit
    return boundary if abs(enclosure - boundary) < flint.arb(flint.fmpq(2) ** (unit - 2)) else None


def _compared(terms: dict[tuple[tuple[Any, Any], ...], Any], boundary: Any) -> int:
    """The sign of sum(g / D) - boundary, D the sums of exponentials."""

    def side(precision: int, ball: Callable[[], Any]) -> int:
        with _precision(precision):
            return _sign(ball())

    return _fractions.sign(list(terms.items()), boundary, side)


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


def _evaluate(sum_: Exponentials, shift: Any) -> Any:
    return sum((c * flint.arb(a - shift).exp() for a, c in sum_.items()), flint.arb(0))


def _add(sum_: dict[Any, Any], key: Any, term: Any) -> None:
    """Add a term; what cancels is not there."""
    total = sum_.get(key, flint.fmpq(0)) + term
    if total == 0:
        sum_.pop(key, None)
    else:
        sum_[key] = total


def _rational(x: float) -> Any:
    return flint.fmpq(*x.as_integer_ratio())


def _round(q: Any, target: Format) -> float:
    return round_rational(int(q.p), int(q.q), target)


@contextmanager
def _precision(bits: int) -> Iterator[None]:
    before = flint.ctx.prec
    flint.ctx.prec = bits
    try:
        yield
    finally:
        flint.ctx.prec = before
