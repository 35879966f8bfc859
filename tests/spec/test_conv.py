"""Convolution by hand: orientation, groups, padding that is no term, absent inputs, empty axes."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb, fmpq

import halfulp as hu
from tests.exact import objects

X = hu.exact(np.array([[1.0, 2.0, 4.0, 8.0]]))
W = hu.exact(np.array([[[1.0, 10.0]]]))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [21, 42, 84]),  # a cross-correlation: the kernel is not flipped
        ({"stride": 2}, [21, 84]),
        ({"dilation": 2}, [41, 82]),
        ({"padding": 1}, [10, 21, 42, 84, 8]),
        ({"padding": ((2, 0),)}, [0, 10, 21, 42, 84]),
        ({"padding": "same"}, [21, 42, 84, 8]),
        ({"padding": "same_lower"}, [10, 21, 42, 84]),
        ({"padding": "same", "stride": 3}, [21, 8]),
    ],
)
def test_values(settings: dict[str, object], expected: list[int]) -> None:
    assert hu.spec.forward(hu.Conv(1, **settings), X, W).tolist() == [expected]


def test_groups_see_only_their_own_channels() -> None:
    x = hu.exact(np.array([[1.0], [2.0], [4.0], [8.0]]))
    weight = hu.exact(np.array([[[1.0], [10.0]], [[100.0], [1000.0]]]))
    assert hu.spec.forward(hu.Conv(1, groups=2), x, weight).tolist() == [[21], [8400]]


def test_a_position_without_terms_is_zero_of_its_own_kind() -> None:
    for kind in (fmpq, arb, float):
        x, w = objects([kind(1)], (1, 1)), objects([kind(2)], (1, 1, 1))
        value = hu.spec.forward(hu.Conv(1, padding=1), x, w)
        assert [type(v) for v in value.ravel()] == [kind] * 3
        assert [v == e for v, e in zip(value.ravel(), (0, 2, 0), strict=True)] == [True] * 3
        nothing = hu.spec.jvp(hu.Conv(1, padding=1), (x, w), (None, None))[1]
        assert [type(v) for v in nothing.ravel()] == [kind] * 3


def test_an_absent_bias_has_no_cotangent() -> None:
    g = hu.exact(np.ones((1, 3)))
    assert hu.spec.vjp(hu.Conv(1), (X, W), g)[2] is None
    assert hu.spec.vjp(hu.Conv(1), (X, W, None), g)[2] is None
    assert hu.spec.vjp(hu.Conv(1), (X, W, hu.exact(np.zeros(1))), g)[2].tolist() == [3]


def test_empty_axes() -> None:
    op, weight, bias = hu.Conv(1), np.ones((2, 1, 2)), np.array([1.0, 2.0])
    empty = np.zeros((0, 1, 4))
    assert hu.spec.forward(op, empty, weight, bias).shape == (0, 2, 3)
    dx, dw, db = hu.spec.vjp(op, (empty, weight, bias), np.zeros((0, 2, 3)))
    assert dx.shape == (0, 1, 4)
    assert dw.tolist() == [[[0, 0]], [[0, 0]]]
    assert db.tolist() == [0, 0]
    # no input channel: no term but the bias
    assert hu.spec.forward(op, np.zeros((1, 0, 4)), np.ones((2, 0, 2)), bias).tolist() == [[[1] * 3, [2] * 3]]
    assert hu.spec.forward(op, np.zeros((1, 1, 4)), np.ones((0, 1, 2))).shape == (1, 0, 3)
