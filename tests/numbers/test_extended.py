"""Extended reals behave as IEEE 754 says wherever doubles are exact, and never round."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from flint import fmpq
from hypothesis import given
from hypothesis import strategies as st

from halfulp.numbers import Extended

small = st.one_of(
    st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan]), st.integers(-50, 50).map(lambda i: i / 4)
)


def same(extended: Extended, number: float) -> bool:
    """The same class, sign and value; doubles of this size add and multiply exactly."""
    if math.isnan(number):
        return extended.is_nan
    if math.isinf(number) or number == 0:
        return str(extended.special) == str(number) and (math.isinf(number) or extended.value == 0)
    return bool(extended.value == fmpq(*number.as_integer_ratio()))


@given(small, small)
def test_sums_and_products_as_doubles_have_them(a: float, b: float) -> None:
    x, y = Extended.of(a), Extended.of(b)
    assert same(x + y, a + b)
    assert same(x - y, a - b)
    assert same(x * y, a * b)
    assert same(-x, -a)


@given(small, st.sampled_from([1, 2, 4, -1, -8, 0]))
def test_division_as_ieee_has_it(a: float, n: int) -> None:
    quotient = Extended.of(a) / n
    if n == 0:
        assert same(quotient, math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a))
    else:
        assert same(quotient, a / n)
    assert same(Extended.of(a) / Extended.of(math.inf), math.nan if not math.isfinite(a) else math.copysign(0.0, a))


@given(small, small)
def test_order_as_doubles_have_it(a: float, b: float) -> None:
    x, y = Extended.of(a), Extended.of(b)
    assert (x > y, x < y, x >= y, x <= y, x == y, x != y) == (a > b, a < b, a >= b, a <= b, a == b, a != b)
    if x == y:
        assert hash(x) == hash(y)


@given(st.lists(small, min_size=1, max_size=6))
def test_a_sum_of_zeros_is_negative_only_if_all_are(numbers: list[float]) -> None:
    total = sum((Extended.of(v) for v in numbers[1:]), Extended.of(numbers[0]))
    exact = sum(Fraction(v) for v in numbers if math.isfinite(v))
    if any(math.isnan(v) for v in numbers) or {math.inf, -math.inf} <= set(numbers):
        assert total.is_nan
    elif any(math.isinf(v) for v in numbers):
        assert total.special in set(numbers) - {0.0}
        assert not total.is_finite
    elif exact:
        assert total.value == fmpq(exact.numerator, exact.denominator)
    else:
        assert str(total.special) == ("-0.0" if all(str(v) == "-0.0" for v in numbers) else "0.0")


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.5, "Extended(1/2)"), (-0.0, "Extended(-0)"), (0.0, "Extended(0)"), (math.inf, "Extended(inf)")],
)
def test_repr(number: float, text: str) -> None:
    assert repr(Extended.of(number)) == text


def test_equality_with_other_things() -> None:
    assert Extended.of(2.0) == 2
    assert (Extended.of(2.0) == "2") is False
    tenth: Any = Extended.of(0.1)
    assert 1 - tenth == Extended.of(1.0) + -tenth
