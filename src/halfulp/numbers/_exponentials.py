"""Sums of exponentials of rationals; correct rounding of softmax, log-softmax and their derivatives, one at a time.

Such sums are kept as {exponent: coefficient}. By the Lindemann-Weierstrass theorem such a sum
is zero only if nothing is left of it, so a quotient of two can be compared with a boundary of rounding exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from halfulp.numbers import flint
from halfulp.numbers._formats import Format
from halfulp.numbers._rounding import round_ball, round_rational

Exponentials = dict[Any, Any]
_NEAR = 1024
"""At so many bits a result that is still undecided is compared with its boundary exactly."""


def rational(value: float) -> Any:
    """The rational that a finite float means."""
    return flint.fmpq(*float(value).as_integer_ratio())


def is_bad(row: Sequence[float], factors: Sequence[float] = ()) -> bool:
    """Whether NaN is the result: a NaN or +inf in the row, nothing but -inf, or a factor that is not finite."""
    if any(math.isnan(x) or x == math.inf for x in row) or all(x == -math.inf for x in row):
        return True
    return not all(math.isfinite(t) for t in factors)


def softmax(row: Sequence[float], i: int, target: Format) -> float:
    """exp(x_i) / sum(exp(x_j)), rounded once."""
    if is_bad(row):
        return math.nan
    if row[i] == -math.inf:
        return 0.0
    return quotient({rational(row[i]): flint.fmpq(1)}, total(row), target)


def log_softmax(row: Sequence[float], i: int, target: Format) -> float:
    """x_i - log(sum(exp(x_j))), rounded once."""
    if is_bad(row):
        return math.nan
    if row[i] == -math.inf:
        return -math.inf
    own, bottom = rational(row[i]), total(row)
    if bottom == {own: 1}:
        return 0.0
    top = max(bottom)
    rest = dict(bottom)
    rest[top] -= 1

    def ball() -> Any:
        return flint.arb(own - top) - evaluated(rest, top).log1p()

    def side(boundary: Any) -> int:
        return sign(added({own - boundary: flint.fmpq(1)}, bottom, -1))

    return rounded(ball, side, target)


def softmax_derivative(row: Sequence[float], factors: Sequence[float], i: int, target: Format) -> float:
    """p_i (t_i - sum(p_j t_j)): tangent and cotangent alike."""
    if is_bad(row, factors):
        return math.nan
    gaps = _gaps(row, factors, i)
    if not gaps or row[i] == -math.inf:
        return 0.0
    own, bottom = rational(row[i]), total(row)
    return quotient({a + own: c for a, c in gaps.items()}, bottom, target, squared=True)


def log_softmax_tangent(row: Sequence[float], factors: Sequence[float], i: int, target: Format) -> float:
    """t_i - sum(p_j t_j)."""
    if is_bad(row, factors):
        return math.nan
    return quotient(_gaps(row, factors, i), total(row), target)


def log_softmax_cotangent(row: Sequence[float], factors: Sequence[float], i: int, target: Format) -> float:
    """g_i - p_i sum(g_j)."""
    if is_bad(row, factors):
        return math.nan
    bottom, own = total(row), rational(factors[i])
    top = {a: own * c for a, c in bottom.items()} if own != 0 else {}
    if row[i] != -math.inf:
        whole = sum((rational(g) for g in factors), flint.fmpq(0))
        top = added(top, {rational(row[i]): whole} if whole != 0 else {}, -1)
    return quotient(top, bottom, target)


def _gaps(row: Sequence[float], factors: Sequence[float], i: int) -> Exponentials:
    """sum(exp(x_j) (t_i - t_j))."""
    out: Exponentials = {}
    own = rational(factors[i])
    for x, t in zip(row, factors, strict=True):
        if x != -math.inf:
            out = plus(out, rational(x), own - rational(t))
    return out


def total(row: Sequence[float]) -> Exponentials:
    """sum(exp(x_j)), each exponent once."""
    out: Exponentials = {}
    for x in row:
        if x != -math.inf:
            out = plus(out, rational(x), flint.fmpq(1))
    return out


def plus(sum_: dict[Any, Any], exponent: Any, term: Any) -> dict[Any, Any]:
    """Add term * exp(exponent) in place; what cancels is not there."""
    value = sum_.pop(exponent, flint.fmpq(0)) + term
    if value != 0:
        sum_[exponent] = value
    return sum_


def added(a: Exponentials, b: Exponentials, factor: Any) -> Exponentials:
    """a + factor * b."""
    out = dict(a)
    for exponent, coefficient in b.items():
        plus(out, exponent, factor * coefficient)
    return out


def evaluated(sum_: Exponentials, shift: Any) -> Any:
    """A ball around the sum times exp(-shift)."""
    return sum((c * flint.arb(a - shift).exp() for a, c in sum_.items()), flint.arb(0))


def side_of_zero(ball: Any) -> int:
    """1 or -1 if the ball lies on one side of 0, else 0."""
    return 1 if ball > 0 else -1 if ball < 0 else 0


def sign(sum_: Exponentials) -> int:
    """The sign of a sum of exponentials: 0 only if nothing is left of it."""
    if not sum_:
        return 0
    top = max(sum_)
    for precision in (64 << i for i in count()):
        with flint.ctx.workprec(precision):
            found = side_of_zero(evaluated(sum_, top))
        if found:
            return found
    raise AssertionError("unreachable: the sum is not zero")


def quotient(top: Exponentials, bottom: Exponentials, target: Format, squared: bool = False) -> float:
    """top / bottom or top / bottom^2, rounded once; an exact zero is +0."""
    if not top:
        return 0.0
    shift, own = max(bottom), max(top)
    power = 2 if squared else 1

    def ball() -> Any:
        return evaluated(top, own) * flint.arb(own - power * shift).exp() / evaluated(bottom, shift) ** power

    def side(boundary: Any) -> int:
        if boundary == 0:
            return sign(top)
        whole = bottom
        if squared:
            whole = {}
            for a, c in bottom.items():
                for b, d in bottom.items():
                    plus(whole, a + b, c * d)
        return sign(added(top, whole, -boundary))

    return rounded(ball, side, target)


def rounded(ball: Callable[[], Any], side: Callable[[Any], int], target: Format) -> float:
    """The float nearest to the number that ``ball`` encloses; ``side`` is its exact comparison with a rational."""
    for precision in (80 << i for i in count()):
        with flint.ctx.workprec(precision):
            found = ball()
            result = round_ball(found, target)
            if result is not None:
                return result
            boundary = _boundary(found, target) if precision >= _NEAR else None
        if boundary is not None:
            where = side(boundary)
            near = boundary + where * flint.fmpq(2) ** -4000
            return round_rational(int(near.p), int(near.q), target) if near != 0 else 0.0
    raise AssertionError("unreachable: the precision grows for ever")


def _boundary(found: Any, target: Format) -> Any:
    """The rational on which the roundings of a ball part, once it is too narrow to reach another one."""
    if not found.is_finite():
        return None
    mantissa, exponent = (int(part) for part in found.mid().man_exp())
    unit = max(exponent + abs(mantissa).bit_length() - target.precision - 1, target.quantum - 1)
    if found.contains(0):
        unit, boundary = target.quantum - 1, flint.fmpq(0)
    elif unit <= exponent:
        boundary = flint.fmpq(mantissa) * flint.fmpq(2) ** exponent
    else:
        steps = (mantissa + (1 << (unit - exponent - 1))) >> (unit - exponent)
        boundary = flint.fmpq(steps) * flint.fmpq(2) ** unit
    return boundary if abs(found - boundary) < flint.arb(flint.fmpq(2) ** (unit - 2)) else None
