"""Transposed convolution by hand: what each input cell spreads, what padding cuts off, what output_padding adds."""

from __future__ import annotations

import numpy as np
import pytest

import halfulp as hu

X = hu.exact(np.array([[1.0, 2.0, 3.0]]))
W = hu.exact(np.array([[[1.0, 10.0]]]))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [1, 12, 23, 30]),
        ({"stride": 2}, [1, 10, 2, 20, 3, 30]),
        ({"stride": 3}, [1, 10, 0, 2, 20, 0, 3, 30]),
        ({"dilation": 2}, [1, 2, 13, 20, 30]),
        ({"padding": 1}, [12, 23]),
        ({"padding": ((0, 2),)}, [1, 12]),
        ({"stride": 2, "output_padding": 1}, [1, 10, 2, 20, 3, 30, 0]),
        ({"stride": 2, "padding": 1, "output_padding": 1}, [10, 2, 20, 3, 30]),  # it uncovers what padding cut off
        ({"stride": 2, "padding": "same"}, [1, 10, 2, 20, 3, 30]),
        ({"padding": "same"}, [1, 12, 23]),
        ({"padding": "same_lower"}, [12, 23, 30]),
        ({"stride": 3, "padding": "same", "output_padding": 1}, [1, 10, 0, 2, 20, 0, 3, 30, 0]),
    ],
)
def test_values(settings: dict[str, object], expected: list[int]) -> None:
    assert hu.spec.forward(hu.ConvTranspose(1, **settings), X, W).tolist() == [expected]


def test_groups_and_bias() -> None:
    x = hu.exact(np.array([[1.0], [2.0]]))
    weight = hu.exact(np.array([[[1.0], [10.0]], [[100.0], [1000.0]]]))
    bias = hu.exact(np.array([0.5, 0.5, 0.5, 0.5]))
    value = hu.spec.forward(hu.ConvTranspose(1, groups=2), x, weight, bias)
    assert [str(v) for v in value.ravel()] == ["3/2", "21/2", "401/2", "4001/2"]


def test_cells_that_nothing_reaches_have_the_bias_alone() -> None:
    value = hu.spec.forward(hu.ConvTranspose(1, stride=3), X, W, hu.exact(np.array([7.0])))
    assert value.tolist() == [[8, 17, 7, 9, 27, 7, 10, 37]]
    floats = hu.spec.forward(hu.ConvTranspose(1, stride=3), np.array([[-0.0]]), np.array([[[1.0]]]), np.array([-0.0]))
    assert np.signbit(floats).tolist() == [[True]]


def test_derivatives() -> None:
    op = hu.ConvTranspose(1, stride=2, padding=1)
    value, jt = hu.spec.jvp(op, (X, W), (hu.exact(np.ones((1, 3))), hu.exact(np.ones((1, 1, 2)))))
    assert value.tolist() == [[10, 2, 20, 3]]
    assert jt.tolist() == [[11, 3, 12, 4]]
    dx, dw, db = hu.spec.vjp(op, (X, W), hu.exact(np.array([[1.0, 10.0, 100.0, 1000.0]])))
    assert dx.tolist() == [[10, 1010, 1000]]
    assert dw.tolist() == [[[3020, 201]]]
    assert db is None
