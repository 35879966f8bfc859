"""Max unpooling kernels against the specification and PyTorch."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
from tests import strategies as draw


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 5)), min_size=1, max_size=3),
    draw.leading_axes,
    draw.float_dtypes,
    draw.layouts,
    st.sampled_from(["i8", "i4", "u2", "u8"]),
    draw.seeds,
)
def test_it_matches_the_specification(
    axes: list[tuple[int, int]], leading: tuple[int, ...], dtype: np.dtype[Any], layout: str, kind: str, seed: int
) -> None:
    """Many indices are equal, and some drop their value."""
    rng = np.random.default_rng(seed)
    spatial, cells = tuple(n for n, _ in axes), tuple(m for _, m in axes)
    op = hu.MaxUnpool((2,) * len(axes), output_size=cells)
    values = draw.random_array(rng, leading + spatial, dtype)
    indices = rng.integers(0 if kind[0] == "u" else -1, prod(cells), values.shape).astype(kind)
    given_values, given_indices = draw.in_layout(values, layout), draw.in_layout(indices, layout)
    expected = hu.spec.forward(op, values, indices)
    draw.assert_same_bits(op(given_values, given_indices), expected)
    t = draw.random_array(rng, values.shape, dtype)
    draw.assert_same_bits(
        op.jvp((given_values, given_indices), (t, None))[1], hu.spec.jvp(op, (values, indices), (t,))[1]
    )
    g = draw.random_array(rng, expected.shape, dtype)
    output, pullback = op.vjp(given_values, given_indices)
    draw.assert_same_bits(output, expected)
    dv, nothing = pullback(draw.in_layout(g, layout))
    assert nothing is None
    draw.assert_same_bits(dv, hu.spec.vjp(op, (values, indices), g)[0])


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_it_puts_back_what_max_pooling_took_as_pytorch_does(ndim: int) -> None:
    x = np.random.default_rng(ndim).standard_normal((2, 3, *(6,) * ndim)).astype(np.float32)
    values, indices = hu.kernels.forward_with_indices(hu.MaxPool((2,) * ndim), x)
    function = getattr(torch.nn.functional, f"max_unpool{ndim}d")
    expected = function(torch.from_numpy(values), torch.from_numpy(indices), 2).numpy()
    draw.assert_same_bits(hu.MaxUnpool((2,) * ndim)(values, indices), expected)


@given(st.integers(1, 3), st.integers(1, 40), st.integers(0, 1), draw.float_dtypes, st.booleans(), draw.seeds)
def test_values_in_windows_of_two_by_two_cells_match_the_specification(
    rows: int, columns: int, more: int, dtype: np.dtype[Any], leaves: bool, seed: int
) -> None:
    """As max pooling gives indices; one plane may have a value elsewhere, or none."""
    rng = np.random.default_rng(seed)
    height, width = 2 * rows + more, 2 * columns + more
    op = hu.MaxUnpool((2, 2), output_size=(height, width))
    values, t = (draw.random_array(rng, (3, rows, columns), dtype) for _ in range(2))
    y, x = (rng.integers(0, 2, values.shape) for _ in range(2))
    indices = (2 * np.arange(rows)[:, None] + y) * width + 2 * np.arange(columns) + x
    if leaves:
        indices[1, rng.integers(rows), rng.integers(columns)] = rng.integers(-1, height * width)
    output, tangent = op.jvp((values, indices), (t, None))
    expected = hu.spec.jvp(op, (values, indices), (t,))
    draw.assert_same_bits(output, expected[0])
    draw.assert_same_bits(op(values, indices), expected[0])
    draw.assert_same_bits(tangent, expected[1])
    g = draw.random_array(rng, output.shape, dtype)
    output, pullback = op.vjp(values, indices)
    draw.assert_same_bits(output, expected[0])
    draw.assert_same_bits(pullback(g)[0], hu.spec.vjp(op, (values, indices), g)[0])


def test_the_last_of_equal_indices_counts_in_the_value_and_both_derivatives() -> None:
    op, indices = hu.MaxUnpool((3,)), np.array([1])
    op = hu.MaxUnpool((2,), output_size=(3,))
    values, indices = np.array([5.0, 7.0, 9.0, 1.0]), np.array([1, 2, 1, -1])
    output, pullback = op.vjp(values, indices)
    assert output.tolist() == [0, 9, 7]
    assert pullback(np.array([1.0, 10.0, 100.0]))[0].tolist() == [0, 100, 10, 0]
    assert op.jvp((values, indices), (np.array([1.0, 2.0, 3.0, 4.0]), None))[1].tolist() == [0, 3, 2]


def test_an_index_that_is_no_cell_is_refused_u2() -> None:
    rule = r"must be from 0 to 3, a cell of the output's plane, or -1 for none \[U2\]$"
    for index, dtype in ((4, "i8"), (-2, "i8"), (2**63 + 5, "u8")):
        indices = np.array([[0, 1], [2, index]], dtype)
        with pytest.raises(hu.ShapeError, match=r"^max_unpool1d: index -?\d+ at \(1, 1\): " + rule):
            hu.MaxUnpool((2,))(np.ones((2, 2)), indices)
        with pytest.raises(hu.ShapeError, match=r"^max_unpool1d: index -?\d+ at \(1, 1\): " + rule):
            hu.spec.forward(hu.MaxUnpool((2,)), np.ones((2, 2)), indices)


def test_indices_of_another_shape_or_type_are_refused_u1() -> None:
    with pytest.raises(
        hu.ShapeError, match=r"^max_unpool1d: indices shape=\(3,\): must be \(2,\), the shape of the input \[U1\]$"
    ):
        hu.MaxUnpool((2,))(np.ones(2), np.zeros(3, int))
    with pytest.raises(hu.DTypeError, match=r"^max_unpool1d: indices dtype=float64: must be an integer type \[U1\]$"):
        hu.MaxUnpool((2,))(np.ones(2), np.zeros(2))


def test_sizes_below_0_are_refused_u3() -> None:
    with pytest.raises(
        hu.ShapeError, match=r"^max_unpool1d: output_size=\(-1,\): every output size must be >= 0 \[U3\]$"
    ):
        hu.MaxUnpool((2,), output_size=(-1,))


def test_a_tangent_of_the_indices_is_refused_i4() -> None:
    op, values, indices = hu.MaxUnpool((2,)), np.ones(2), np.array([0, 1])
    with pytest.raises(
        hu.ShapeError, match=r"^max_unpool1d: a tangent for indices: must be None: indices have no derivative \[I4\]$"
    ):
        op.jvp((values, indices), (values, indices))
    with pytest.raises(hu.ShapeError, match=r"^max_unpool1d: 1 inputs: takes input and indices \[I3\]$"):
        op(values)
