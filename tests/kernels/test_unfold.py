"""Unfold and fold kernels against the specification, bit for bit, and against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
from tests import strategies as draw
from tests.kernels.test_sum_pool import check_case


def patches(window: draw.Window) -> dict[str, Any]:
    """The arguments of a window that unfold takes."""
    arguments = {name: value for name, value in window.arguments.items() if name != "ceil_mode"}
    if arguments["stride"] is None:
        arguments["stride"] = arguments["kernel_size"]
    return arguments


@given(
    draw.windows(max_ndim=4, max_outputs=3),
    st.sampled_from([(1,), (2,), (2, 3), (0, 2), (2, 0), (1, 2, 1)]),
    draw.float_dtypes,
    draw.layouts,
    draw.seeds,
)
def test_both_match_the_specification(
    window: draw.Window, leading: tuple[int, ...], dtype: np.dtype[Any], layout: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    unfold = hu.Unfold(**patches(window))
    check_case(unfold, draw.random_array(rng, leading + window.spatial, dtype), layout, rng)
    columns = unfold.output_shape(leading + window.spatial)
    fold = hu.Fold(window.spatial, **patches(window))
    assert fold.output_shape(columns) == leading + window.spatial
    for _ in range(3):
        check_case(fold, draw.random_array(rng, columns, dtype), layout, rng)


@pytest.mark.parametrize("dtype", draw.INTEGERS, ids=str)
def test_unfold_takes_integers(dtype: np.dtype[Any]) -> None:
    x = draw.random_array(np.random.default_rng(0), (2, 3, 5, 4), dtype)
    op = hu.Unfold((2, 3), padding=1, dilation=(2, 1))
    assert np.array_equal(op(x), hu.spec.forward(op, x))


ARGUMENTS = [
    {"kernel_size": (2, 3)},
    {"kernel_size": (3, 2), "dilation": 2, "padding": 1, "stride": 2},
    {"kernel_size": (3, 3), "padding": (2, 1), "stride": (1, 3)},
]


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_the_layout_is_that_of_pytorch(arguments: dict[str, Any]) -> None:
    x = np.random.default_rng(1).integers(-8, 8, (2, 3, 7, 8)).astype(np.float64)
    columns = torch.nn.functional.unfold(torch.from_numpy(x), **arguments).numpy()
    assert np.array_equal(hu.Unfold(**arguments)(x), columns)
    expected = torch.nn.functional.fold(torch.from_numpy(columns), (7, 8), **arguments).numpy()
    assert np.array_equal(hu.Fold((7, 8), **arguments)(columns), expected)


@pytest.mark.parametrize("dtype", draw.FLOATS, ids=str)
def test_a_sum_in_fold_is_rounded_once(dtype: np.dtype[Any]) -> None:
    """Three terms whose sum in any order of two additions is wrong, an overflow that cancels, and zeros."""
    tiny, one = np.array(float(np.spacing(np.ones((), dtype)) / 4), dtype), np.ones((), dtype)
    op = hu.Fold((3,), (3,), padding=1)
    for values in ([one, tiny, tiny], [one, one * 3, -tiny], [np.array(-0.0, dtype)] * 3):
        columns = np.zeros((3, 3), dtype)
        columns[[2, 1, 0], [0, 1, 2]] = values  # all stand for cell 1
        draw.assert_same_bits(op(columns), hu.spec.forward(op, columns))
    large = np.array(float(np.finfo(np.float64).max) if dtype == np.float64 else 2.0**15, dtype)
    columns[[2, 1, 0], [0, 1, 2]] = [large, large, -large]
    assert op(columns)[0, 1] == large


def test_a_cell_that_no_window_holds_is_a_positive_zero() -> None:
    output = hu.Fold((5,), (1,), stride=2)(np.full((1, 3), -0.0))
    assert np.signbit(output).tolist() == [[True, False, True, False, True]]


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_do_not_change_the_result(threads: int) -> None:
    columns = draw._sprinkled(np.random.default_rng(2), (4, 8 * 9, 40 * 41), np.dtype("f4"))
    op = hu.Fold((40, 41), (3, 3), padding=1)
    hu.set_num_threads(threads)
    try:
        draw.assert_same_bits(op(columns)[:1], hu.spec.forward(op, columns[:1]))
        draw.assert_same_bits(
            hu.Unfold((3, 3), padding=1)(op(columns))[3:], hu.Unfold((3, 3), padding=1)(op(columns)[3:])
        )
    finally:
        hu.set_num_threads(0)


def test_shapes_that_do_not_fit_are_refused_k1() -> None:
    with pytest.raises(
        hu.ShapeError,
        match=r"^unfold: input shape=\(4, 4\): must be \(…, channels, spatial\) with 2 spatial axes \[K1\]$",
    ):
        hu.Unfold((2, 2))(np.zeros((4, 4)))
    rule = r"must be \(…, channels \* 4, 9\): the cells of a window, and the windows of \(4, 4\) \[K1\]$"
    with pytest.raises(hu.ShapeError, match=r"^fold: input shape=\(4, 8\): " + rule):
        hu.Fold((4, 4), (2, 2))(np.zeros((4, 8)))
    with pytest.raises(hu.ShapeError, match=r"^fold: input shape=\(3, 9\): " + rule):
        hu.Fold((4, 4), (2, 2))(np.zeros((3, 9)))
