"""Cross entropy in the compiled core against the specification, bit for bit, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import halfulp as hu
from tests.kernels.bits import assert_spec_bits, every_type, numbers, same

KINDS = ("normal", "integers", "equal", "near", "tiny", "far", "huge", "masked", "special")


def logits(kind: str, rng: np.random.Generator, shape: Any, dtype: Any) -> Any:
    if kind in ("far", "masked"):
        normal = rng.standard_normal(shape)
        return (normal * 300 if kind == "far" else np.where(rng.random(shape) < 0.3, -np.inf, normal)).astype(dtype)
    return numbers(kind, rng, shape, dtype)


@every_type
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_the_kernels_have_the_bits_of_the_specification(reduction: str, kind: str, dtype: Any) -> None:
    rng = np.random.default_rng(len(kind) + len(reduction))
    for shape in ((4, 3), (3, 1), (5,), (2, 3, 2), (2, 20)):
        for smoothing, weighted, dense in (
            (0.0, False, False),
            (0.1, True, False),
            (0.0, True, True),
            (0.25, False, True),
        ):
            op = hu.CrossEntropy(-7, reduction, smoothing)
            x, t = logits(kind, rng, shape, dtype), numbers("normal", rng, shape, dtype)
            classes = shape[op.class_axis(shape)]
            target: Any = rng.integers(0, classes, op.samples(shape))
            if dense:
                target = (rng.integers(0, 5, shape) / 4).astype(dtype)
            elif target.size > 2:
                target.flat[0] = -7
            weight = (rng.integers(0, 5, classes) / 4).astype(dtype) if weighted else None
            primals = (x, np.asarray(target), weight)
            g = numbers("normal", rng, op.output_shape(*(None if p is None else p.shape for p in primals)), dtype)
            assert_spec_bits(op, primals, (t, None, None), g)


def test_values_are_those_of_pytorch() -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((6, 5, 2)), rng.random(5)
    for target in (rng.integers(0, 5, (6, 2)), rng.random((6, 5, 2))):
        for reduction in ("mean", "sum", "none"):
            for smoothing in (0.0, 0.2):
                theirs = F.cross_entropy(
                    torch.tensor(x),
                    torch.tensor(target),
                    torch.tensor(weight),
                    reduction=reduction,
                    label_smoothing=smoothing,
                )
                ours = hu.cross_entropy(x, target, weight, reduction=reduction, label_smoothing=smoothing)
                np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-12)


def test_confident_samples_keep_their_gradient() -> None:
    """1 - p of a class that is nearly certain has all its bits."""
    x = np.array([[0.0, 40.0, -20.0], [0.0, 800.0, 0.0]], np.float32)
    op = hu.CrossEntropy(reduction="sum")
    (dx, *_), expected = (
        op.vjp(x, np.array([1, 1]))[1](np.float32(1)),
        hu.spec.vjp(op, (x, np.array([1, 1])), np.float32(1)),
    )
    assert same(dx, expected[0])
    assert dx[0, 1] == np.float32(-np.exp(-40.0) - np.exp(-60.0))
    assert np.signbit(dx[1, 1])


def test_complementary_rows_sum_exactly() -> None:
    """The tangents of two rows add up to a rational: their denominators are the same sum of exponentials."""
    x, t = np.array([[0.3, 1.0], [1.0, 0.3]]), np.array([[1.0, 0.0], [1.0, 0.0]])
    op = hu.CrossEntropy(reduction="sum")
    assert op.jvp((x, np.array([0, 0]), None), (t, None, None))[1] == -1.0


def test_samples_that_are_left_out() -> None:
    x = np.array([[np.nan, 1.0], [0.0, 0.0]])
    loss = hu.cross_entropy(x, np.array([-100, 0]))
    assert same(loss, np.asarray(hu.log_softmax(np.zeros(2))[0] * -1))
    assert np.isnan(hu.cross_entropy(x, np.array([-100, -100])))
    dx = hu.CrossEntropy().vjp(x, np.array([-100, 0]))[1](np.array(1.0))[0]
    assert dx.tolist() == [[0.0, 0.0], [-0.5, 0.5]]


def test_layout_and_threads_do_not_matter() -> None:
    rng = np.random.default_rng(3)
    x, target = rng.standard_normal((64, 30, 5)).astype(np.float32), rng.integers(0, 30, (64, 5))
    op = hu.CrossEntropy()
    y, pull = op.vjp(x, target)
    dx = pull(np.float32(1.5))[0]
    last = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    before = hu.get_num_threads()
    try:
        for threads in (1, 2):
            hu.set_num_threads(threads)
            for given in (x, last, np.asfortranarray(x)):
                again, other = op.vjp(given, target)
                assert same(again, y)
                assert same(other(np.float32(1.5))[0], dx)
    finally:
        hu.set_num_threads(before)


X = np.zeros((2, 3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hu.CrossEntropy(reduction="max"), r"cross_entropy: reduction='max': must be one of .* \[Z4\]"),
        (lambda: hu.CrossEntropy(0.5), r"cross_entropy: ignore_index=0.5: must be an integer \[Z4\]"),
        (lambda: hu.CrossEntropy(label_smoothing=2), r"cross_entropy: label_smoothing=2: must be a number .* \[Z4\]"),
        (lambda: hu.cross_entropy(X, np.array([0])), r"cross_entropy: target shape=\(1,\): must be \(2,\), .* \[Z5\]"),
        (lambda: hu.cross_entropy(np.float64(1), np.array(0)), r"cross_entropy: input shape=\(\): must be .* \[Z5\]"),
        (lambda: hu.cross_entropy(np.ones((2, 0)), np.array([0, 0])), r"cross_entropy: .*at least one class \[Z5\]"),
        (lambda: hu.cross_entropy(X, np.array([0, 3])), r"cross_entropy: target=3: class indices must be .* \[Z6\]"),
        (lambda: hu.cross_entropy(X, np.array([0, 1]), np.ones(2)), r"cross_entropy: weight shape=\(2,\): .* \[Z7\]"),
        (
            lambda: hu.cross_entropy(X, np.array([0, 1]), np.array([1, 1, np.inf])),
            r"cross_entropy: weight: class weights must be finite \[Z7\]",
        ),
        (lambda: hu.cross_entropy(X, np.array([0.0, 1])), r"cross_entropy: target dtype=float64: class .* \[I1\]"),
        (lambda: hu.cross_entropy(X, X.astype(int)), r"cross_entropy: target dtype=int64: probabilities .* \[I1\]"),
        (
            lambda: hu.cross_entropy(X.astype(np.float32), X + 0.1),
            r"cross_entropy: target dtype=float64: must be float32, the input's, or hold numbers of that type \[I2\]",
        ),
    ],
)
def test_what_does_not_fit_is_named(call: Any, message: str) -> None:
    with pytest.raises(hu.HalfulpError, match=message):
        call()
