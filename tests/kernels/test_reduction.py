"""Sums and means over axes against the specification, bit for bit, and what they refuse."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import halfulp as hu

DTYPES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32), np.dtype(np.float64)]


def same(a: Any, b: Any) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    a, b = (np.where(np.isnan(v.astype(np.float64)), np.nan, v.astype(np.float64)) for v in (a, b))  # one NaN
    return bool(a.tobytes() == b.tobytes())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("record", [hu.Sum, hu.Mean])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((5,), None),
        ((3, 4), 0),
        ((2, 3, 4), (0, 2)),
        ((2, 3), -1),
        ((7, 1), 1),
        ((), None),
        ((3, 41), 0),  # whole rows are added
        ((2, 3, 2, 33), (1, 2)),
        ((3, 2, 33), (0, 2)),
    ],
)
def test_the_kernels_have_the_bits_of_the_specification(
    record: Any, shape: Any, dim: Any, keepdim: bool, dtype: Any
) -> None:
    rng, op = np.random.default_rng(0), record(dim, keepdim)
    for special in (False, True):
        numbers = rng.integers(-8, 9, (2, *shape)) * 2.0 ** rng.integers(-12, 12, (2, *shape))
        if special:
            numbers = np.where(rng.random((2, *shape)) < 0.3, rng.choice([np.inf, np.nan, -0.0], (2, *shape)), numbers)
        x, t = numbers.astype(dtype)
        x, t = np.asarray(x), np.asarray(t)
        g = rng.integers(-9, 9, op.output_shape(shape)).astype(dtype)
        assert same(op(x), hu.spec.forward(op, x))
        assert same(op.jvp((x,), (t,))[1], hu.spec.jvp(op, (x,), (t,))[1])
        assert same(op.vjp(x)[1](g)[0], hu.spec.vjp(op, (x,), g)[0])


def test_empty_axes_and_layouts() -> None:
    assert hu.sum(np.ones((0, 3)), 0).tolist() == [0.0] * 3
    x = np.random.default_rng(1).standard_normal((30, 40)).astype(np.float32)
    assert same(hu.mean(np.asfortranarray(x), 1), hu.mean(x, 1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hu.sum(np.ones(3), 1), r"sum: dim=\(1,\): must name different axes of a shape \(3,\) \[R6\]"),
        (lambda: hu.mean(np.ones((2, 2)), (0, 0)), r"mean: dim=\(0, 0\): must name different axes .* \[R6\]"),
        (lambda: hu.mean(np.ones((0, 2)), 0), r"mean: input shape=\(0, 2\): there is no mean of no cells \[R6\]"),
        (lambda: hu.Sum("x"), r"sum: dim='x': .* \[R6\]"),
    ],
)
def test_what_does_not_fit_is_named(call: Any, message: str) -> None:
    with pytest.raises(hu.HalfulpError, match=message):
        call()
