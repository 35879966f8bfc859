"""Second derivatives of smooth max for a beta beyond the range of the dtype are finite: tape, JAX and PyTorch."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import FLOATS, float_dtypes

import halfulp as hu
import halfulp.jax
import halfulp.torch
from halfulp.numbers import factors, rounded

CASES = [("float16", 1e5), ("float16", -7e4), ("float32", 1e40), ("float32", 1e300), ("float32", 1e-50)]


@pytest.mark.parametrize(("dtype", "beta"), CASES)
def test_separated_cells_have_curvature_zero(dtype: str, beta: float) -> None:
    x = np.array([1, 2, 3.5, 3, 0], dtype)
    ones = np.ones_like(x)
    op = hu.SmoothMaxPool((2,), beta, stride=1)
    assert not hu.hvp(lambda v: op(v).sum(), (x,), (ones,)).any()
    along = jax.jvp(jax.grad(lambda v: jnp.sum(halfulp.jax.apply(op, v))), (jnp.asarray(x),), (jnp.asarray(ones),))[1]
    assert not np.asarray(along).any()
    leaf = torch.tensor(x[None], requires_grad=True)
    value = halfulp.torch.smooth_max_pool1d(leaf, 2, beta=beta, stride=1).sum()
    (gradient,) = torch.autograd.grad(value, leaf, create_graph=True)
    (second,) = torch.autograd.grad((gradient * torch.tensor(ones)).sum(), leaf)
    assert not second.any()


def test_equal_cells_have_the_curvature_of_beta() -> None:
    x, t = np.zeros(2, "float16"), np.array([0.25, 0], "float16")
    op = hu.SmoothMaxPool((2,), 1e5)
    # beta * p * (1 - p) * t is 6250, representable though beta is not
    expected = np.array([6250, -6250], "float16")
    assert np.array_equal(hu.hvp(lambda v: op(v).sum(), (x,), (t,)), expected)
    found = jax.jvp(jax.grad(lambda v: jnp.sum(halfulp.jax.apply(op, v))), (jnp.asarray(x),), (jnp.asarray(t),))[1]
    assert np.array_equal(np.asarray(found), expected)


@given(float_dtypes, st.integers(-(10**6), 10**6).filter(bool), st.integers(-1200, 1000))
def test_factors_multiply_to_the_number(dtype: Any, mantissa: int, exponent: int) -> None:
    number = Fraction(mantissa) * Fraction(2) ** exponent
    found = factors(number, dtype)
    assert all(np.isfinite(rounded([f], dtype)[0]) and float(rounded([f], dtype)[0]) == f for f in found)
    product = Fraction(1)
    for factor in found:
        product *= Fraction(factor)
    assert abs(product / number - 1) <= Fraction(1, 2 ** (hu.numbers.float_format(dtype).precision - 1))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_zero_is_its_own_factor(dtype: Any) -> None:
    assert factors(0, dtype) == [0.0]
