"""Numbers a + b * sqrt(d) with rationals, and sums of them: what normalisations give exactly, and their rounding.

Square roots of positive rationals are linearly independent over the rationals unless the quotient of two is rational
(Besicovitch). So a sum of them is rational only if the irrational ones cancel class by class, which is found exactly;
any other sum lies on no boundary of rounding, and balls of growing precision decide it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from halfulp.numbers import flint
from halfulp.numbers._formats import Format
from halfulp.numbers._rounding import round_ball, round_rational

_FIRST = 160


class Surd:
    """The sum of coefficient * sqrt(radicand) over ``terms``; radicand 1 is the rational part. NaN and infinity too.

    >>> from halfulp.numbers import FORMATS
    >>> two = Surd.of(2.0).sqrt()
    >>> (two * two).rounded(FORMATS["float32"]), (1 / two).rounded(FORMATS["float16"])
    (2.0, 0.70703125)
    """

    __slots__ = ("special", "terms")

    def __init__(self, terms: dict[Any, Any], special: float | None = None) -> None:
        self.terms = terms
        self.special = special

    @classmethod
    def of(cls, value: float) -> Surd:
        """The number that a float means."""
        if not math.isfinite(value):
            return cls({}, value)
        return cls.rational(flint.fmpq(*value.as_integer_ratio()))

    @classmethod
    def rational(cls, value: Any) -> Surd:
        """A rational number."""
        return cls({_ONE: value} if value != 0 else {})

    @property
    def is_zero(self) -> bool:
        """Whether the number is zero, exactly."""
        return self.special is None and (not self.terms or self.exact() == 0)

    def __add__(self, other: Any) -> Surd:
        other = _surd(other)
        if self.special is not None or other.special is not None:
            return Surd({}, (self.special or 0.0) + (other.special or 0.0))
        terms = dict(self.terms)
        for radicand, coefficient in other.terms.items():
            total = terms.pop(radicand, _ZERO) + coefficient
            if total != 0:
                terms[radicand] = total
        return Surd(terms)

    __radd__ = __add__

    def __neg__(self) -> Surd:
        return Surd({d: -c for d, c in self.terms.items()}, None if self.special is None else -self.special)

    def __sub__(self, other: Any) -> Surd:
        return self + -_surd(other)

    def __rsub__(self, other: Any) -> Surd:
        return _surd(other) + -self

    def __mul__(self, other: Any) -> Surd:
        other = _surd(other)
        if self.special is not None or other.special is not None:
            return Surd({}, self._sign() * other._sign())
        out = Surd({})
        for d, c in self.terms.items():
            for e, f in other.terms.items():
                if d == e:
                    out = out + Surd.rational(c * f * d)
                else:
                    out = out + Surd({e if d == 1 else d if e == 1 else d * e: c * f})
        return out

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Surd:
        """By a rational or a single root; by zero as IEEE 754 has it."""
        other = _surd(other)
        if other.special is not None or not other.terms:
            if other.special is not None and math.isinf(other.special) and self.special is None:
                return Surd({})
            if other.special is None and (self.special is not None or self.terms):
                return Surd({}, self._sign() * math.inf)
            return Surd({}, math.nan)
        ((radicand, coefficient),) = other.terms.items()
        return self * Surd({radicand: 1 / (coefficient * radicand)})

    def __rtruediv__(self, other: Any) -> Surd:
        return _surd(other) / self

    def sqrt(self) -> Surd:
        """The root of a rational; of a negative number, NaN."""
        if self.special is not None:
            return Surd({}, self.special if self.special > 0 else math.nan)
        value = self.terms.get(_ONE, _ZERO)
        if value < 0:
            return Surd({}, math.nan)
        found = root(value)
        return Surd({value: _UNIT}) if found is None else Surd.rational(found)

    def _sign(self) -> float:
        """A float with the sign of the number: 0, ±1, ±inf or NaN."""
        if self.special is not None:
            return self.special
        if self.is_zero:
            return 0.0
        precision = _FIRST
        while True:
            with flint.ctx.workprec(precision):
                ball = self.ball()
                if not ball.contains(0):
                    return 1.0 if ball > 0 else -1.0
            precision *= 2

    def ball(self) -> Any:
        """A ball around the number, at the precision that is set."""
        return sum((flint.arb(c) * flint.arb(d).sqrt() for d, c in self.terms.items()), flint.arb(0))

    def exact(self) -> Any:
        """The number as a rational if it is one, else None."""
        classes: list[list[Any]] = []
        for radicand, coefficient in self.terms.items():
            for own in classes:
                ratio = root(radicand / own[0])
                if ratio is not None:
                    own[1] += coefficient * ratio
                    break
            else:
                classes.append([radicand, coefficient])
        left = [(d, c) for d, c in classes if c != 0]
        if not left:
            return _ZERO
        found = root(left[0][0]) if len(left) == 1 else None
        return None if found is None else found * left[0][1]

    def rounded(self, target: Format) -> float:
        """The nearest float of a format; an exact zero is +0."""
        if self.special is not None:
            return math.nan if math.isnan(self.special) else self.special
        if set(self.terms) <= {_ONE}:
            value = flint.fmpq(self.terms.get(_ONE, _ZERO))
            return round_rational(int(value.p), int(value.q), target)
        precision = _FIRST
        while True:
            with flint.ctx.workprec(precision):
                result = round_ball(self.ball(), target)
            if result is not None:
                return result
            if precision == _FIRST:
                value = self.exact()
                if value is not None:
                    value = flint.fmpq(value)
                    return round_rational(int(value.p), int(value.q), target)
            precision *= 2


def root(value: Any) -> Any:
    """The rational root of a rational >= 0; None if there is none."""
    value, parts = flint.fmpq(value), []
    for part in (int(value.p), int(value.q)):
        found = math.isqrt(part)
        if found * found != part:
            return None
        parts.append(found)
    return flint.fmpq(*parts)


def surds(values: Iterable[float]) -> list[Surd]:
    """The numbers that floats mean."""
    return [Surd.of(value) for value in values]


def _surd(value: Any) -> Surd:
    return value if isinstance(value, Surd) else Surd.rational(flint.fmpq(value))


_ZERO: Any = 0
_ONE: Any = 1
_UNIT: Any = 1
