"""The hard min kernels against the specification, and against hard max of negated cells, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
from tests import strategies as draw
from tests.kernels.test_hard_max import check, check_case


@given(draw.windows(max_ndim=5), draw.leading_axes, draw.ties, draw.nan_policies, draw.seeds)
def test_sliding_windows_match_the_specification(
    window: draw.Window, leading: tuple[int, ...], ties: str, nan: str, seed: int
) -> None:
    check(hu.MinPool(**window.arguments, ties=ties, nan=nan), leading + window.spatial, seed)


@given(draw.windows(max_ndim=2, max_outputs=3, long_rows=True), draw.ties, draw.nan_policies, draw.seeds)
def test_long_rows_match_the_specification(window: draw.Window, ties: str, nan: str, seed: int) -> None:
    check(hu.MinPool(**window.arguments, ties=ties, nan=nan), (1, *window.spatial), seed, cases=4)


@given(
    st.lists(st.integers(0, 7), min_size=1, max_size=3),
    draw.leading_axes,
    st.booleans(),
    draw.ties,
    draw.nan_policies,
    draw.seeds,
)
def test_global_windows_match_the_specification(
    spatial: list[int], leading: tuple[int, ...], keepdims: bool, ties: str, nan: str, seed: int
) -> None:
    op = hu.GlobalMinPool(len(spatial), keepdims=keepdims, ties=ties, nan=nan)
    check(op, leading + tuple(spatial), seed)


# Planes so large that they are changed in runs of rows, and lines that are cut into pieces.
LARGE = [
    ({"kernel_size": (3, 3), "stride": 2, "padding": 1}, (2, 700, 400)),
    ({"kernel_size": (5, 2), "stride": 1, "padding": (2, 1), "dilation": (40, 1), "ties": "last"}, (400, 300)),
    ({"kernel_size": (2, 3, 2), "stride": (2, 1, 2), "ties": "split"}, (60, 50, 70)),
    ({"kernel_size": (9,), "stride": 3, "padding": 4, "nan": "ignore"}, (50_001,)),
]


@pytest.mark.parametrize(("arguments", "shape"), LARGE, ids=str)
@pytest.mark.parametrize("layout", ["c", "channels_last", "reversed"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_large_planes_are_the_negative_of_the_maximum(
    arguments: dict[str, Any], shape: tuple[int, ...], layout: str, dtype: str
) -> None:
    rng = np.random.default_rng(sum(shape))
    x = draw._sprinkled(rng, shape, np.dtype(dtype))
    smallest, largest = hu.MinPool(**arguments), hu.MaxPool(**arguments)
    given_x = draw.in_layout(x, layout)
    expected, indices = hu.kernels.forward_with_indices(largest, -x)
    output, found = hu.kernels.forward_with_indices(smallest, given_x)
    draw.assert_same_bits(output, -expected)
    assert np.array_equal(found, indices)
    g = draw._sprinkled(rng, output.shape, x.dtype)
    draw.assert_same_bits(smallest.vjp(given_x)[1](g)[0], largest.vjp(-x)[1](g)[0])
    t = draw._sprinkled(rng, x.shape, x.dtype)
    draw.assert_same_bits(smallest.jvp((given_x,), (t,))[1], largest.jvp((-x,), (t,))[1])


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_do_not_change_the_result(threads: int) -> None:
    x = draw._sprinkled(np.random.default_rng(1), (3, 5, 130, 70), np.dtype("f4"))
    expected = -hu.MaxPool((3, 3), stride=2, padding=1)(-x)
    hu.set_num_threads(threads)
    try:
        draw.assert_same_bits(hu.MinPool((3, 3), stride=2, padding=1)(x), expected)
    finally:
        hu.set_num_threads(0)


def test_a_window_without_cells_is_a_positive_zero() -> None:
    for dtype in (np.float32, np.float64, np.int8, np.uint16, np.bool_):
        output = hu.MinPool((1,), padding=1)(np.ones(2, dtype))
        assert output.tolist() == [0, 1, 1, 0]
        assert not np.signbit(output.astype(float)).any()


def test_the_extremes_of_integers_do_not_overflow() -> None:
    for dtype in (np.int8, np.int64, np.uint64):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        assert hu.MinPool((2,), stride=1)(np.array([high, low, high, high], dtype)).tolist() == [low, low, high]


def test_a_refused_nan_is_named_p3() -> None:
    with pytest.raises(
        hu.PolicyError, match=r"^min_pool1d: nan='raise': the input is NaN at \(1,\); it must have no NaN \[P3\]$"
    ):
        hu.MinPool((2,), nan="raise")(np.array([1.0, np.nan]))


def test_a_copy_in_place_and_the_windows_of_one_value() -> None:
    x = np.array([[2.0, -1.0], [0.0, -0.0]], np.float32)
    out = np.empty((1, 2), np.float32)
    assert hu.MinPool((2, 1))(x, out=out) is out
    assert out.tolist() == [[0.0, -1.0]]
    check_case(hu.MinPool((2, 1)), x, "c", np.random.default_rng(0))
