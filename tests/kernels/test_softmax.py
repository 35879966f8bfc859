"""Softmax and log-softmax in the compiled core against the specification, bit for bit, and what they refuse."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import halfulp as hu

DTYPES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32), np.dtype(np.float64)]
every_type = pytest.mark.parametrize("dtype", DTYPES, ids=str)
both = pytest.mark.parametrize("record", [hu.Softmax, hu.LogSoftmax])


def same(a: Any, b: Any) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    a, b = (np.where(np.isnan(v.astype(np.float64)), np.nan, v.astype(np.float64)) for v in (a, b))  # one NaN
    return bool(a.tobytes() == b.tobytes())


def numbers(kind: str, rng: np.random.Generator, shape: Any, dtype: Any) -> Any:
    normal = rng.standard_normal(shape)
    made = {
        "normal": normal,
        "equal": np.full(shape, rng.integers(-3, 4) * 0.3),
        "masked": np.where(rng.random(shape) < 0.4, -np.inf, normal),
        "far": normal * 1000,
        "huge": normal * 1e38,
        "tiny": normal * float(ml_dtypes.finfo(dtype).tiny) * 4,
        "special": np.where(rng.random(shape) < 0.1, rng.choice([np.inf, -np.inf, np.nan, -0.0], shape), normal),
    }[kind]
    with np.errstate(over="ignore"):
        return made.astype(dtype)


@every_type
@both
@pytest.mark.parametrize("kind", ["normal", "equal", "masked", "far", "huge", "tiny", "special"])
def test_the_kernels_have_the_bits_of_the_specification(record: Any, kind: str, dtype: Any) -> None:
    rng = np.random.default_rng(len(kind))
    for shape, dim in (((3, 5), 1), ((4, 3), 0), ((2, 3, 2), -2), ((1, 1), 0), ((2, 40), -1)):
        op, x = record(dim), numbers(kind, rng, shape, dtype)
        for factors in ("normal", "equal", "special"):
            t = numbers(factors, rng, shape, dtype)
            assert same(op(x), hu.spec.forward(op, x))
            assert same(op.jvp((x,), (t,))[1], hu.spec.jvp(op, (x,), (t,))[1])
            assert same(op.vjp(x)[1](t)[0], hu.spec.vjp(op, (x,), t)[0])


def test_large_gaps_are_decided() -> None:
    assert hu.softmax(np.array([[0.0, 0.0], [1e15, 1.0]]), 0).tolist() == [
        [0.0, 0.2689414213699951],
        [1.0, 0.7310585786300049],
    ]
    y = hu.log_softmax(np.array([0.0, -1e30]))
    assert y.tolist() == [0.0, -1e30]
    assert np.signbit(y[0])
    assert hu.log_softmax(np.array([3.0])).tolist() == [0.0]
    half = np.array([2.0**24, -1.0], np.float32)  # the gap lies half-way between two floats: the sum decides
    assert hu.log_softmax(half)[1] == np.float32(-(2.0**24) - 2)


def test_layout_batch_and_threads_do_not_matter() -> None:
    x = np.random.default_rng(3).standard_normal((64, 300)).astype(np.float32)
    y = hu.softmax(x, 1)
    assert same(hu.softmax(np.asfortranarray(x), 1), y)
    assert same(np.ascontiguousarray(hu.softmax(x.T, 0).T), y)
    assert same(np.concatenate([hu.softmax(row[None], 1) for row in x]), y)
    before = hu.get_num_threads()
    try:
        hu.set_num_threads(1)
        assert same(hu.softmax(x, 1), y)
    finally:
        hu.set_num_threads(before)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hu.softmax(np.ones(3), 1), r"softmax: dim=1: must be an axis of an input of shape \(3,\) \[R6\]"),
        (lambda: hu.LogSoftmax("x"), r"log_softmax: dim='x': must be an integer.* \[R6\]"),
        (lambda: hu.softmax(hu.exact(np.ones(3))), r"softmax: scalars of kind fmpq: .* \[S2\]"),
        (lambda: hu.softmax(np.ones(3, int)), r"softmax: input dtype=int64: .* \[I1\]"),
    ],
)
def test_what_does_not_fit_is_named(call: Any, message: str) -> None:
    with pytest.raises(hu.HalfulpError, match=message):
        call()
