"""Average pooling by hand: what is counted, what it is divided by, and what is never there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import halfulp as hu

X = hu.exact(np.array([2.0, 4.0, 9.0]))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [3]),
        ({"ceil_mode": True}, [3, 9]),  # the second window reaches beyond: not counted
        ({"padding": 1}, [1, "13/2"]),
        ({"padding": 1, "count_include_pad": False}, [2, "13/2"]),
        ({"padding": 1, "stride": 1}, [1, 3, "13/2", "9/2"]),
        ({"padding": 1, "stride": 1, "divisor_override": 3}, ["2/3", 2, "13/3", 3]),
        ({"padding": ((0, 2),), "stride": 2}, [3, "9/2"]),
        ({"padding": ((0, 2),), "stride": 2, "ceil_mode": True}, [3, "9/2"]),
        ({"padding": ((0, 1),), "stride": 3, "ceil_mode": True}, [3]),
        ({"dilation": 2}, ["11/2"]),
        ({"padding": "same", "stride": 2}, [3, "9/2"]),
        ({"padding": "same_lower", "stride": 2}, [1, "13/2"]),
    ],
)
def test_what_is_counted(settings: dict[str, Any], expected: list[Any]) -> None:
    assert [str(v) for v in hu.spec.forward(hu.AvgPool((2,), **settings), X)] == [str(v) for v in expected]


@pytest.mark.parametrize("divisor", [None, 5, -1])
def test_windows_in_the_padding_alone(divisor: int | None) -> None:
    x, g = np.array([6.0]), np.ones(3)
    counted = hu.AvgPool((1,), padding=1, divisor_override=divisor)
    left_out = hu.AvgPool((1,), padding=1, divisor_override=divisor, count_include_pad=False)
    for op in (counted, left_out):
        value = hu.spec.forward(op, x)
        assert value.tolist() == [0, 6 / (divisor or 1), 0]
        assert hu.spec.vjp(op, (x,), g)[0].tolist() == [1 / (divisor or 1)]
    # +0 over a negative divisor is -0; over nothing there is no division
    assert np.signbit(hu.spec.forward(counted, x)[0]) == (divisor == -1)
    assert not np.signbit(hu.spec.forward(left_out, x)[0])


def test_shares_of_overlapping_windows() -> None:
    op = hu.AvgPool((2, 2), stride=1)
    pulled = hu.spec.vjp(op, (hu.exact(np.zeros((3, 3))),), hu.exact(np.array([[1.0, 2.0], [3.0, 4.0]])))[0]
    assert [[str(v) for v in row] for row in pulled] == [
        ["1/4", "3/4", "1/2"],
        ["1", "5/2", "3/2"],
        ["3/4", "7/4", "1"],
    ]
