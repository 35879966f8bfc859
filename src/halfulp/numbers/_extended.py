"""Extended reals: exact rationals with signed zero, infinities and NaN.

Floats are lifted to these when an operand is not a plain finite number, so that the specification, written for any
scalar, gives the IEEE answers: NaN absorbs, +inf with -inf and 0 * inf are NaN, an exact zero sum is +0 unless every
term is -0.
"""

from __future__ import annotations

import math
from typing import Any

from halfulp.numbers import flint


class Extended:
    """A rational (``value``), or, where ``value`` is None, the special float ``special``.

    ``special`` always tells the class: nan, +-inf, +-0.0, or +-1.0 for a nonzero rational.

    >>> Extended.of(-0.0) + Extended.of(-0.0)
    Extended(-0)
    >>> Extended.of(0.5) + Extended.of(float("inf")) * 2
    Extended(inf)
    """

    __slots__ = ("special", "value")

    def __init__(self, value: Any, special: float | None = None) -> None:
        self.value = value
        self.special = special if special is not None else (1.0 if value > 0 else -1.0 if value < 0 else 0.0)

    @classmethod
    def of(cls, number: float) -> Extended:
        """The extended real that a Python float means."""
        if not math.isfinite(number):
            return cls(None, number)
        if number == 0:
            return cls(flint.fmpq(0), number)
        return cls(flint.fmpq(*number.as_integer_ratio()), math.copysign(1.0, number))

    @property
    def is_nan(self) -> bool:
        """Whether this is NaN."""
        return self.special != self.special

    @property
    def is_finite(self) -> bool:
        """Whether this is a rational."""
        return self.value is not None

    def __add__(self, other: Any) -> Extended:
        other = _extended(other)
        if self.value is None or other.value is None:
            return Extended(None, _reach(self) + _reach(other))
        total = self.value + other.value
        if total == 0:
            return Extended(flint.fmpq(0), self.special + other.special if self.value == 0 else 0.0)
        return Extended(total)

    __radd__ = __add__

    def __neg__(self) -> Extended:
        return Extended(None if self.value is None else -self.value, -self.special)

    def __sub__(self, other: Any) -> Extended:
        return self + -_extended(other)

    def __rsub__(self, other: Any) -> Extended:
        return _extended(other) + -self

    def __mul__(self, other: Any) -> Extended:
        other = _extended(other)
        special = self.special * other.special
        if self.value is None or other.value is None:
            return Extended(None, special)
        return Extended(self.value * other.value, special)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Extended:
        """Division as IEEE 754 has it, by zero included."""
        other = _extended(other)
        if self.is_nan or other.is_nan:
            return Extended(None, math.nan)
        negative = math.copysign(1.0, self.special) * math.copysign(1.0, other.special)
        if other.special == 0:
            return Extended(None, math.nan if self.special == 0 else negative * math.inf)
        if self.value is None:
            return Extended(None, math.nan if other.value is None else negative * math.inf)
        if other.value is None or self.special == 0:
            return Extended(flint.fmpq(0), negative * 0.0)
        return Extended(self.value / other.value, negative)

    def _key(self) -> tuple[float, Any]:
        if self.value is None:
            return self.special, flint.fmpq(0)
        return 0.0, self.value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Extended, int)):
            return NotImplemented
        other = _extended(other)
        return bool(not self.is_nan and not other.is_nan and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())

    def __gt__(self, other: Any) -> bool:
        other = _extended(other)
        return bool(not self.is_nan and not other.is_nan and self._key() > other._key())

    def __lt__(self, other: Any) -> bool:
        return bool(_extended(other) > self)

    def __ge__(self, other: Any) -> bool:
        return bool(self > other or self == other)

    def __le__(self, other: Any) -> bool:
        return bool(self < other or self == other)

    def __repr__(self) -> str:
        if self.value is None:
            return f"Extended({self.special})"
        return "Extended(-0)" if self.value == 0 and math.copysign(1.0, self.special) < 0 else f"Extended({self.value})"


def _extended(value: Any) -> Extended:
    return value if isinstance(value, Extended) else Extended(flint.fmpq(value))


def _reach(value: Extended) -> float:
    """The float whose sum with an infinity or NaN has the right class: any finite number acts as 0."""
    return value.special if value.value is None else 0.0
