"""Integers that an element type does not hold: quotients by a count, and multiples, are exact and rounded once."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.strategies import BFLOAT16, FLOATS, assert_same_bits, float_dtypes, in_layout, random_array, seeds

import halfulp as hu
from halfulp import ops
from halfulp.autograd.operators.arithmetic import Times
from halfulp.autograd.operators.reduction import divide_by
from halfulp.numbers import float_format, round_rational

SIZES = st.one_of(
    st.integers(1, 300),
    st.integers(1, 70_000),
    st.integers(1, 2**53),
    st.sampled_from([2049, 4097, 65_519, 65_520, 70_000, 2**24 + 1, 2**53 + 1]),
)


def scaled(x: Any, factor: Fraction) -> Any:
    """Every finite element times a positive rational, from integers alone; zeros, NaN and infinities are themselves."""
    out = np.array(x, order="C")
    for place in np.ndindex(*x.shape):
        value = float(x[place])
        if np.isfinite(value) and value != 0:
            exact = Fraction(value) * factor
            out[place] = round_rational(exact.numerator, exact.denominator, float_format(x.dtype))
    return out


@given(SIZES, st.sampled_from([1, 2]), float_dtypes, st.sampled_from(["c", "fortran", "reversed", "stepped"]), seeds)
def test_a_quotient_by_an_integer_is_rounded_once(n: int, times: int, dtype: Any, layout: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = random_array(rng, (2, 3, 2), dtype)
    found = divide_by(in_layout(x, layout), n, times)
    assert_same_bits(np.array(found), scaled(x, Fraction(times, n)))
    g = random_array(rng, x.shape, dtype)
    _, pullback = hu.vjp(lambda v: divide_by(v, n, times), x)
    assert_same_bits(pullback(g)[0], scaled(g, Fraction(times, n)))
    _, pushed = hu.jvp(lambda v: divide_by(v, n, times), (x,), (g,))
    assert_same_bits(np.array(pushed), scaled(g, Fraction(times, n)))


@given(SIZES, float_dtypes, seeds)
def test_a_multiple_is_rounded_once(n: int, dtype: Any, seed: int) -> None:
    x = random_array(np.random.default_rng(seed), (4, 2), dtype)
    with np.errstate(all="ignore"):
        assert_same_bits(Times(n)(in_layout(x, "fortran")), scaled(x, Fraction(n)))


@given(st.integers(1, 9000), float_dtypes, st.sampled_from([1.0, -3.0, 0.1]))
@example(70_000, np.dtype("float16"), 1.0)
@example(2049, BFLOAT16, 1.0)
def test_gradients_of_means(n: int, dtype: Any, weight: float) -> None:
    g = np.array(weight).astype(dtype)
    x = np.zeros(n, dtype)
    share = scaled(g.reshape(1), Fraction(1, n))[0]
    _, pullback = hu.vjp(ops.mean, x)
    assert_same_bits(pullback(g)[0], np.full(n, share))
    _, pullback = hu.vjp(lambda p: ops.mse(p, np.zeros(n, dtype)), np.ones(n, dtype))
    assert_same_bits(pullback(g)[0], np.full(n, scaled(g.reshape(1), Fraction(2, n))[0]))


@given(st.integers(1, 300), float_dtypes, st.sampled_from([1.0, -3.0, 0.1]))
@example(2049, BFLOAT16, 1.0)
def test_gradients_of_the_mean_of_cross_entropies(n: int, dtype: Any, weight: float) -> None:
    g = np.array(weight).astype(dtype)
    share = scaled(g.reshape(1), Fraction(1, n))[0]
    logits, labels = np.zeros((n, 1), dtype), np.zeros(n, np.int64)
    logits = np.concatenate((logits, np.full((n, 1), -np.inf).astype(dtype)), axis=1)
    _, pullback = hu.vjp(lambda v: ops.cross_entropy(v, labels), logits)
    assert (pullback(g)[0] == 0).all()  # the first class has probability 1
    _, pullback = hu.vjp(lambda v: ops.cross_entropy(v, labels + 1), logits[:, ::-1][:, [1, 0]])
    assert_same_bits(np.abs(pullback(g)[0]), np.full((n, 2), np.abs(share)))


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_float16_gradient_of_70_000_is_no_zero(dtype: Any) -> None:
    n = 70_000
    gradient = hu.grad(ops.mean)(np.ones(n, dtype))
    assert (gradient == round_rational(1, n, float_format(dtype))).all()


def test_mse_does_not_overflow_before_the_division() -> None:
    x = np.ones(3, np.float16)
    _, pullback = hu.vjp(lambda p: ops.mse(p, np.zeros_like(x)), x)
    assert_same_bits(pullback(np.array(60_000, np.float16))[0], np.full(3, 40_000, np.float16))


def test_the_derivative_of_a_high_power() -> None:
    n = 2049
    slope = hu.grad(lambda x: ops.power(x, n))(np.array(1.0, np.float16))
    assert float(slope) == 2048  # 2049 is half-way between 2048 and 2050
    base = np.array(1.0009765625, np.float16)
    expected = scaled(np.array(ops.power(base, n - 1)).reshape(1), Fraction(n))[0]
    assert hu.grad(lambda x: ops.power(x, n))(base) == expected
