"""A number of any size as a product of floats."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from halfulp.numbers._formats import float_format
from halfulp.numbers._rounding import round_rational


def factors(number: Any, dtype: Any) -> list[float]:
    """Finite floats of a dtype whose product is a number, rounded once; one factor if it is in the dtype's range.

    To multiply by them one after the other gives 0 for 0, and an infinity only where the product overflows, also if the
    number itself is beyond the dtype's largest one or below its smallest.

    >>> factors(3, "float16"), factors(1e5, "float16")
    ([3.0], [1.525390625, 16384.0, 4.0])
    """
    target = float_format(dtype)
    exact = Fraction(int(number.p), int(number.q)) if hasattr(number, "p") else Fraction(number)
    if exact == 0:
        return [0.0]
    exponent = abs(exact.numerator).bit_length() - exact.denominator.bit_length()
    if target.emin < exponent < target.emax:
        return [round_rational(exact.numerator, exact.denominator, target)]
    scaled = exact / Fraction(2) ** exponent
    out = [round_rational(scaled.numerator, scaled.denominator, target)]
    step = target.emax - 1
    while exponent:
        part = max(-step, min(step, exponent))
        out.append(2.0**part)
        exponent -= part
    return out
