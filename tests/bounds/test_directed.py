"""Directed sums and products against rationals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from halfulp.bounds import _directed as directed

MAXIMUM = np.finfo(np.float64).max
finite = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-2, 2),
    st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, MAXIMUM, -MAXIMUM, 2.0**-537, 1 / 3, 2.0**500]),
)


def assert_encloses(down: np.ndarray, up: np.ndarray, exact: Fraction) -> None:
    """Down is not above, up not below, and they are at most two floats apart."""
    low, high = float(down), float(up)
    assert low == -np.inf or Fraction(low) <= exact
    assert high == np.inf or Fraction(high) >= exact
    with np.errstate(all="ignore"):
        assert np.nextafter(np.nextafter(low, np.inf), np.inf) >= high


@given(finite, finite)
def test_sums_and_products(a: float, b: float) -> None:
    x, y = np.array(a), np.array(b)
    assert_encloses(directed.add_down(x, y), directed.add_up(x, y), Fraction(a) + Fraction(b))
    assert_encloses(directed.sub_down(x, y), directed.sub_up(x, y), Fraction(a) - Fraction(b))
    assert_encloses(directed.mul_down(x, y), directed.mul_up(x, y), Fraction(a) * Fraction(b))


@given(st.integers(-1000, 1000), st.integers(-1000, 1000))
def test_exact_results_stay(a: int, b: int) -> None:
    x, y = np.array(float(a)), np.array(float(b))
    assert directed.add_up(x, y) == directed.add_down(x, y) == a + b
    assert directed.mul_up(x, y) == directed.mul_down(x, y) == a * b


@given(st.lists(st.floats(-1e300, 1e300), min_size=0, max_size=17))
def test_sums_along_an_axis(values: list[float]) -> None:
    array = np.array(values, dtype=np.float64)
    exact = sum((Fraction(value) for value in values), Fraction(0))
    assert Fraction(float(directed.sum_down(array))) <= exact <= Fraction(float(directed.sum_up(array)))
