"""Adaptive pooling by hand: overlapping bins, more bins than cells, empty axes, kept axes."""

from __future__ import annotations

import numpy as np
import pytest

import halfulp as hu

X = hu.exact(np.array([1.0, 6.0, 2.0, 9.0, 5.0]))


@pytest.mark.parametrize(
    ("bins", "means", "maxima"),
    [
        (1, ["23/5"], [9]),
        (2, ["3", "16/3"], [6, 9]),
        (3, ["7/2", "17/3", "7"], [6, 9, 9]),
        (5, ["1", "6", "2", "9", "5"], [1, 6, 2, 9, 5]),
        (7, ["1", "7/2", "4", "2", "11/2", "7", "5"], [1, 6, 6, 2, 9, 9, 5]),
    ],
)
def test_bins(bins: int, means: list[str], maxima: list[int]) -> None:
    assert [str(v) for v in hu.spec.forward(hu.AdaptiveAvgPool((bins,)), X)] == means
    assert hu.spec.forward(hu.AdaptiveMaxPool((bins,)), X).tolist() == maxima


def test_cotangents_of_overlapping_bins_add_up() -> None:
    g = hu.exact(np.array([1.0, 1.0, 1.0]))
    pulled = hu.spec.vjp(hu.AdaptiveAvgPool((3,)), (X,), g)[0]
    assert [str(v) for v in pulled] == ["1/2", "5/6", "1/3", "5/6", "1/2"]
    assert hu.spec.vjp(hu.AdaptiveMaxPool((3,)), (X,), g)[0].tolist() == [0, 1, 0, 2, 0]


def test_an_axis_that_is_kept() -> None:
    x = np.arange(6.0).reshape(2, 3)
    assert hu.spec.forward(hu.AdaptiveMaxPool((1, None)), x).tolist() == [[3, 4, 5]]
    assert hu.spec.forward(hu.AdaptiveAvgPool((None, 1)), x).tolist() == [[1], [4]]


def test_empty_bins_are_zero_and_have_no_derivative() -> None:
    x = np.zeros((2, 0))
    for op in (hu.AdaptiveAvgPool((3,)), hu.AdaptiveMaxPool((3,)), hu.GlobalAvgPool(1), hu.GlobalMaxPool(1)):
        output, jt = hu.spec.jvp(op, (x,), (x,))
        assert output.shape == op.output_shape(x.shape)
        assert not output.any()
        assert not jt.any()
        assert hu.spec.vjp(op, (x,), np.ones(output.shape))[0].shape == (2, 0)
    assert hu.spec.indices(hu.AdaptiveMaxPool((3,)), x).tolist() == [[-1] * 3] * 2


def test_the_maximum_has_no_sentinel() -> None:
    low = np.full((3,), -np.inf)
    assert hu.spec.forward(hu.AdaptiveMaxPool((1,)), low).tolist() == [-np.inf]
    assert hu.spec.indices(hu.AdaptiveMaxPool((1,)), low).tolist() == [0]
