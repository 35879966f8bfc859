"""Sum pooling kernels against the specification, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

import halfulp as hu
from tests import strategies as draw


def check_case(op: Any, x: Any, layout: str, rng: np.random.Generator) -> None:
    """Value, JVP and VJP of one input."""
    what = f"{op} on {x.dtype} {x.shape} in {layout}"
    given_x = draw.in_layout(x, layout)
    expected = hu.spec.forward(op, x)
    draw.assert_same_bits(op(given_x), expected, what)
    t = draw.random_array(rng, x.shape, x.dtype)
    output, tangent = op.jvp((given_x,), (draw.in_layout(t, layout),))
    draw.assert_same_bits(output, expected, what)
    draw.assert_same_bits(tangent, hu.spec.jvp(op, (x,), (t,))[1], f"jvp of {what}")
    g = draw.random_array(rng, expected.shape, x.dtype)
    output, pullback = op.vjp(given_x)
    draw.assert_same_bits(output, expected, what)
    draw.assert_same_bits(pullback(g)[0], hu.spec.vjp(op, (x,), g)[0], f"vjp of {what}")


@given(draw.windows(max_ndim=4), draw.leading_axes, draw.float_dtypes, draw.layouts, draw.seeds)
def test_sums_match_the_specification(
    window: draw.Window, leading: tuple[int, ...], dtype: np.dtype[Any], layout: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    op = hu.SumPool(**window.arguments)
    for _ in range(4):
        check_case(op, draw.random_array(rng, leading + window.spatial, dtype), layout, rng)


@pytest.mark.parametrize("dtype", draw.FLOATS, ids=str)
def test_zeros_and_padding(dtype: np.dtype[Any]) -> None:
    x = np.full(3, -0.0, dtype)
    assert np.signbit(hu.SumPool((3,))(x).astype(float)).tolist() == [True]
    assert np.signbit(hu.SumPool((3,), padding=1, stride=1)(x).astype(float)).tolist() == [False, True, False]


def test_a_sum_overflows_only_if_it_exceeds_the_range() -> None:
    large = np.finfo(np.float32).max
    assert hu.SumPool((3,))(np.array([large, large, -large], np.float32)).tolist() == [large]
    assert hu.SumPool((2,))(np.array([large, large], np.float32)).tolist() == [np.inf]


def test_integers_are_refused_i1() -> None:
    with pytest.raises(
        hu.DTypeError, match=r"^sum_pool1d: input dtype=int64: must be .*; convert with astype.* \[I1\]$"
    ):
        hu.SumPool((2,))(np.arange(4))
