"""Fractional max pooling kernels against the specification, and its windows against PyTorch's."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
from tests import strategies as draw


def samples_of(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Samples below 1, also after rounding."""
    return (rng.integers(0, 128, shape) / 128).astype(dtype)


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(0, 6)), min_size=1, max_size=3),
    draw.leading_axes,
    draw.float_dtypes,
    draw.float_dtypes,
    draw.layouts,
    draw.ties,
    draw.nan_policies,
    draw.seeds,
)
def test_it_matches_the_specification(
    axes: list[tuple[int, int, int]],
    leading: tuple[int, ...],
    dtype: np.dtype[Any],
    sample_dtype: np.dtype[Any],
    layout: str,
    ties: str,
    nan: str,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    op = hu.FractionalMaxPool(tuple(k for k, _, _ in axes), tuple(m for _, m, _ in axes), ties=ties, nan=nan)
    x = draw.random_array(rng, (*leading, *(k + m - 1 + more for k, m, more in axes)), dtype)
    samples = samples_of(rng, (*leading, len(axes)), sample_dtype)
    given_x = draw.in_layout(x, layout)
    expected = hu.spec.forward(op, x, samples)
    draw.assert_same_bits(op(given_x, samples), expected)
    output, indices = hu.kernels.forward_with_indices(op, given_x, samples)
    draw.assert_same_bits(output, expected)
    assert np.array_equal(indices, hu.spec.indices(op, x, samples))
    t = draw.random_array(rng, x.shape, dtype)
    draw.assert_same_bits(op.jvp((given_x, samples), (t, None))[1], hu.spec.jvp(op, (x, samples), (t, None))[1])
    g = draw.random_array(rng, expected.shape, dtype)
    output, pullback = op.vjp(given_x, samples)
    draw.assert_same_bits(output, expected)
    dx, nothing = pullback(draw.in_layout(g, layout))
    assert nothing is None
    draw.assert_same_bits(dx, hu.spec.vjp(op, (x, samples), g)[0])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("shape", "kernel", "output"), [((31, 40), (2, 3), (13, 17)), ((9, 10, 17), (2, 1, 3), (4, 9, 6))]
)
def test_the_windows_are_those_of_pytorch(
    dtype: str, shape: tuple[int, ...], kernel: tuple[int, ...], output: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(len(shape))
    kind = draw.BFLOAT16 if dtype == "bfloat16" else np.dtype(dtype)
    x = rng.permutation(2 * 3 * int(np.prod(shape))).reshape(2, 3, *shape).astype(np.float64)
    samples = samples_of(rng, (2, 3, len(shape)), kind)
    function = getattr(torch.nn.functional, f"fractional_max_pool{len(shape)}d")
    tensor, given_samples = (torch.from_numpy(a.astype(np.float64)).to(getattr(torch, dtype)) for a in (x, samples))
    _, expected = function(tensor, kernel, output_size=output, _random_samples=given_samples, return_indices=True)
    # a narrow type has ties, where PyTorch also takes the first
    found = hu.kernels.forward_with_indices(hu.FractionalMaxPool(kernel, output), tensor.double().numpy(), samples)[1]
    assert np.array_equal(found, expected.numpy())


def test_exact_samples_are_taken_exactly() -> None:
    x, op = np.arange(20.0), hu.FractionalMaxPool((2,), (7,))
    samples = np.array([Fraction(2, 3)], dtype=object)
    assert np.array_equal(op(x, samples), hu.spec.forward(op, x, samples))
    assert hu.geometry.fractional_starts(Fraction(2, 3), 20, 7, 2) == [0, 3, 6, 9, 12, 15, 18]


def test_samples_that_do_not_fit_are_refused_f1() -> None:
    op = hu.FractionalMaxPool((2,), (3,))
    with pytest.raises(
        hu.ShapeError,
        match=r"^fractional_max_pool1d: samples shape=\(2,\): must be \(1,\): "
        r"one sample per plane and spatial axis \[F1\]$",
    ):
        op(np.zeros(8), np.zeros(2))
    with pytest.raises(
        hu.ShapeError, match=r"^fractional_max_pool1d: samples: every sample must be at least 0 and below 1 \[F1\]$"
    ):
        op(np.zeros(8), np.array([1.0]))
    with pytest.raises(hu.DTypeError, match=r"^fractional_max_pool1d: samples dtype=int64: must be .* \[F1\]$"):
        op(np.zeros(8), np.array([0]))


def test_too_few_cells_are_refused_f2() -> None:
    with pytest.raises(
        hu.ShapeError,
        match=r"^fractional_max_pool1d: output_size=\(3,\): with kernel_size=\(2,\) needs at least "
        r"output_size \+ kernel_size - 1 cells, not \(3,\) \[F2\]$",
    ):
        hu.FractionalMaxPool((2,), (3,))(np.zeros(3), np.zeros(1))
