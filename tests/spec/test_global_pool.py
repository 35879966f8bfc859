"""Global pooling: the folds behind it, and the three rules for its maximisers."""

from __future__ import annotations

import numpy as np
import pytest
from flint import fmpq

import halfulp as hu
from halfulp.spec import global_pool
from tests.exact import equal, rationals


def test_folds() -> None:
    rng = np.random.default_rng(0)
    x = rationals(rng, (2, 3, 4))
    planes = x.reshape(2, 12)
    assert global_pool.reduce_spatial(list(planes[0]), fmpq(0), lambda a, b: a + b) == sum(planes[0], fmpq(0))
    for keepdims in (True, False):
        mean = global_pool.global_pool(x, 2, lambda plane: sum(plane, fmpq(0)) / len(plane), keepdims)
        assert equal(mean, hu.spec.forward(hu.GlobalAvgPool(2, keepdims), x))
        assert equal(global_pool.global_pool(x, 2, max, keepdims), hu.spec.forward(hu.GlobalMaxPool(2, keepdims), x))
    assert equal(mean, x.reshape(2, 12).sum(axis=1) / 12)


@pytest.mark.parametrize(
    ("ties", "expected"),
    [("all", [6, 0, 6, 6]), ("split", [2, 0, 2, 2]), ("first", [6, 0, 0, 0]), ("last", [0, 0, 0, 6])],
)
def test_maximisers(ties: str, expected: list[int]) -> None:
    x = hu.exact(np.array([[[5.0, 1.0], [5.0, 5.0]]]))
    for keepdims in (True, False):
        op = hu.GlobalMaxPool(2, keepdims=keepdims, ties=ties)
        g = hu.exact(np.full(op.output_shape(x.shape), 6.0))
        assert hu.spec.vjp(op, (x,), g)[0].ravel().tolist() == expected
    assert hu.GlobalMaxPool(2).ties == "all"


def test_shapes() -> None:
    x = np.zeros((3, 4, 5, 6))
    assert hu.spec.forward(hu.GlobalAvgPool(2), x).shape == (3, 4, 1, 1)
    assert hu.spec.forward(hu.GlobalAvgPool(2, keepdims=False), x).shape == (3, 4)
    assert hu.spec.forward(hu.GlobalMaxPool(4, keepdims=False), x).shape == ()
