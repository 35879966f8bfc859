"""Squared error and variance in the compiled core against the specification, bit for bit, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import halfulp as hu
from tests.kernels.bits import assert_spec_bits, every_kind, every_type, numbers, same


@every_type
@every_kind
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_squared_errors_have_the_bits_of_the_specification(reduction: str, kind: str, dtype: Any) -> None:
    rng, op = np.random.default_rng(len(kind)), hu.MSELoss(reduction)
    for shape in ((5,), (2, 3), (40,), (1,), ()):
        x, y, t, s = (numbers(kind, rng, shape, dtype) for _ in range(4))
        g = numbers(kind, rng, op.output_shape(shape, shape), dtype)
        for tangents in ((t, s), (t, None), (None, s)):
            assert_spec_bits(op, (x, y), tangents, g)


@every_type
@every_kind
@pytest.mark.parametrize("correction", [0, 1])
def test_variances_have_the_bits_of_the_specification(correction: int, kind: str, dtype: Any) -> None:
    rng = np.random.default_rng(len(kind) + correction)
    for shape, dim in (((5,), None), ((3, 4), 0), ((2, 3, 4), (0, 2)), ((2, 40), -1), ((70,), 0)):
        for keepdim in (False, True):
            op = hu.Var(dim, correction, keepdim)
            x, t = (numbers(kind, rng, shape, dtype) for _ in range(2))
            assert_spec_bits(op, (x,), (t,), numbers(kind, rng, op.output_shape(shape), dtype))


def test_a_large_mean_does_not_cancel() -> None:
    x = np.array([1e8 + 1, 1e8 + 2, 1e8 + 3])
    assert hu.var(x) == 1.0
    assert hu.var(x, correction=0) == 2 / 3
    many = np.full(100_000, 3.1, np.float32)
    assert hu.var(many) == 0.0
    assert not np.signbit(hu.var(many))


def test_layout_and_threads_do_not_matter() -> None:
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((2, 300, 400)).astype(np.float32)
    loss, spread = hu.mse_loss(x, y), hu.var(x, 1)
    assert same(hu.mse_loss(np.asfortranarray(x), y), loss)
    assert same(hu.var(np.asfortranarray(x), 1), spread)
    assert same(hu.var(x.T, 0), spread)
    assert same(np.concatenate([hu.var(row[None], 1) for row in x]), spread)
    before = hu.get_num_threads()
    try:
        hu.set_num_threads(1)
        assert same(hu.mse_loss(x, y), loss)
        assert same(hu.var(x, 1), spread)
    finally:
        hu.set_num_threads(before)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hu.MSELoss("max"), r"mse_loss: reduction='max': must be one of 'mean', 'sum', 'none' \[Z4\]"),
        (lambda: hu.mse_loss(np.ones(2), np.ones(3)), r"mse_loss: target shape=\(3,\): must be \(2,\), .* \[Z5\]"),
        (lambda: hu.mse_loss(np.ones(0), np.ones(0)), r"mse_loss: input shape=\(0,\): there is no mean .* \[R6\]"),
        (lambda: hu.var(np.ones(1)), r"var: input shape=\(1,\): there must be more than correction=1 cells \[Z8\]"),
        (lambda: hu.Var(correction=-1), r"var: correction=-1: must be an integer >= 0 \[Z8\]"),
        (lambda: hu.var(np.ones(3), 1), r"var: dim=\(1,\): must name different axes of a shape \(3,\) \[R6\]"),
    ],
)
def test_what_does_not_fit_is_named(call: Any, message: str) -> None:
    with pytest.raises(hu.HalfulpError, match=message):
        call()
