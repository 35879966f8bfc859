"""Normalisations in the compiled core against the specification, bit for bit, and what they refuse."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import halfulp as hu

DTYPES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32), np.dtype(np.float64)]
every_type = pytest.mark.parametrize("dtype", DTYPES, ids=str)
OPERATORS = [
    (hu.LayerNorm((5,)), (4, 5)),
    (hu.LayerNorm((3, 2), 0.5), (2, 3, 2)),
    (hu.LayerNorm(70), (2, 70)),
    (hu.GroupNorm(2), (2, 4, 3)),
    (hu.GroupNorm(1, 1e-3), (2, 3)),
    (hu.InstanceNorm(), (2, 3, 4)),
    (hu.BatchNorm(True), (3, 2, 4)),
    (hu.BatchNorm(True, eps=0.25), (5, 3)),
    (hu.BatchNorm(), (3, 2, 4)),
]
KINDS = ["normal", "equal", "cancelling", "integers", "wide", "tiny", "special"]


def same(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    a, b = (np.where(np.isnan(v.astype(np.float64)), np.nan, v.astype(np.float64)) for v in (a, b))  # one NaN
    return bool(a.tobytes() == b.tobytes())


def numbers(kind: str, rng: np.random.Generator, shape: Any, dtype: Any) -> Any:
    normal = rng.standard_normal(shape)
    made = {
        "normal": normal,
        "equal": np.full(shape, rng.integers(-3, 4) * 0.3),
        "cancelling": 1000 + 0.01 * normal,
        "integers": rng.integers(-3, 4, shape) * 1.0,
        "wide": normal * 10.0 ** rng.integers(-30, 30, shape),
        "tiny": normal * float(ml_dtypes.finfo(dtype).tiny) * 4,
        "special": np.where(rng.random(shape) < 0.1, rng.choice([np.inf, -np.inf, np.nan, -0.0], shape), normal),
    }[kind]
    with np.errstate(over="ignore"):
        return made.astype(dtype)


def inputs_of(op: Any, shape: Any, make: Any) -> tuple[Any, ...]:
    weight = op.weight_shape(shape)
    given = (make(weight), np.abs(make(weight))) if isinstance(op, hu.BatchNorm) and not op.training else ()
    return make(shape), make(weight), make(weight), *given


@every_type
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("op", "shape"), OPERATORS, ids=str)
def test_the_kernels_have_the_bits_of_the_specification(op: Any, shape: Any, kind: str, dtype: Any) -> None:
    rng = np.random.default_rng(len(kind))
    for factors in ("normal", kind):
        inputs = inputs_of(op, shape, lambda s, k=factors: numbers(k, rng, s, dtype))
        inputs = (numbers(kind, rng, shape, dtype), *inputs[1:])
        tangents = (*(numbers(factors, rng, a.shape, dtype) for a in inputs[:3]), *(None for _ in inputs[3:]))
        g = numbers(factors, rng, shape, dtype)
        with np.errstate(invalid="ignore"):
            assert same(op(*inputs), hu.spec.forward(op, *inputs))
            assert same(op.jvp(inputs, tangents)[1], hu.spec.jvp(op, inputs, tangents)[1])
            pulled, expected = op.vjp(*inputs)[1](g), hu.spec.vjp(op, inputs, g)
        assert all(same(a, b) for a, b in zip(pulled, expected, strict=True))


@every_type
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize(
    ("op", "shape"),
    [
        (hu.LayerNorm((5,)), (0, 5)),
        (hu.GroupNorm(2), (0, 4, 3)),
        (hu.InstanceNorm(), (0, 3, 4)),
        (hu.BatchNorm(True), (0, 3)),
        (hu.BatchNorm(), (3, 2, 0)),
    ],
    ids=str,
)
def test_without_cells_cotangents_of_weight_and_bias_are_zeros(op: Any, shape: Any, weighted: bool, dtype: Any) -> None:
    x, weight, bias, *given = inputs_of(op, shape, lambda s: np.ones(s, dtype))
    inputs = (x, weight if weighted else None, bias, *given)
    value, pullback = op.vjp(*inputs)
    pulled, expected = pullback(x), hu.spec.vjp(op, inputs, x)
    assert same(value, hu.spec.forward(op, *inputs))
    assert all(same(a, b) for a, b in zip(pulled, expected, strict=True))
    assert not any(pulled[2])


@every_type
@pytest.mark.parametrize("kind", ["normal", "equal", "special"])
@pytest.mark.parametrize("factor", [1.0, 0.3, np.inf])
@pytest.mark.parametrize(
    "op", [hu.LayerNorm((5,), 0.0), hu.GroupNorm(2), hu.InstanceNorm(), hu.BatchNorm(True)], ids=str
)
def test_constant_tangents_and_cotangents(op: Any, factor: float, kind: str, dtype: Any) -> None:
    """What a normalisation takes away: the derivative along a constant is 0, unless a cell is not finite."""
    rng = np.random.default_rng(2)
    shape = (3, 4, 5)
    x = numbers(kind, rng, shape, dtype)
    constant = np.full(shape, factor).astype(dtype)
    constant[2, 3] = 2  # groups in which it is not constant
    for weights in ("normal", "equal"):
        inputs = (x, *(numbers(weights, rng, op.weight_shape(shape), dtype) for _ in range(2)))
        with np.errstate(invalid="ignore"):
            pulled, expected = op.vjp(*inputs)[1](constant), hu.spec.vjp(op, inputs, constant)
            pushed = op.jvp(inputs, (constant, None, None))[1]
            assert same(pushed, hu.spec.jvp(op, inputs, (constant, None, None))[1])
        assert all(same(a, b) for a, b in zip(pulled, expected, strict=True))


def test_boundaries_of_rounding_are_decided_exactly() -> None:
    """Cells 1 and -1 of variance 1 with eps = 0 are their own normal form: weight and bias make any sum."""
    x = np.array([[1.0, -1.0]], np.float32)
    weight = np.array([1 + 2.0**-23, 2.0**-24], np.float32)
    bias = np.array([2.0**24, 1.0], np.float32)
    y = hu.layer_norm(x, (2,), weight, bias, eps=0.0)
    exact = [Fraction(float(weight[0])) + Fraction(float(bias[0])), -Fraction(float(weight[1])) + 1]
    assert y.tolist() == [hu.rounded(np.array(exact, dtype=object), np.float32).tolist()]


def test_layout_batch_and_threads_do_not_matter() -> None:
    rng = np.random.default_rng(3)
    x, w, b = (rng.standard_normal(s).astype(np.float32) for s in ((64, 300), (300,), (300,)))
    op = hu.LayerNorm((300,))
    y, pull = op.vjp(x, w, b)
    g = rng.standard_normal(y.shape).astype(np.float32)
    assert same(op(np.asfortranarray(x), w[::-1][::-1], b), y)
    assert same(np.concatenate([op(row[None], w, b) for row in x]), y)
    before = hu.get_num_threads()
    try:
        hu.set_num_threads(1)
        assert all(same(a, c) for a, c in zip(op.vjp(x, w, b)[1](g), pull(g), strict=True))
    finally:
        hu.set_num_threads(before)
    image = rng.standard_normal((4, 6, 5, 5)).astype(np.float32)
    last = np.ascontiguousarray(image.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    for other in (hu.BatchNorm(True), hu.GroupNorm(3), hu.InstanceNorm()):
        assert same(other(image), other(last))


@every_type
def test_running_statistics_move_once_rounded(dtype: Any) -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((5, 3, 4)).astype(dtype)
    mean, variance = rng.standard_normal(3).astype(dtype), rng.random(3).astype(dtype)
    cells = hu.exact(x.transpose(1, 0, 2).reshape(3, -1))
    means = cells.sum(axis=1) / 20
    variances = ((cells - means[:, None]) ** 2).sum(axis=1) / 19
    share = Fraction(0.1)
    kept = hu.exact(np.array([1 - share], dtype=object)), hu.exact(np.array([share], dtype=object))
    expected = [
        hu.rounded(hu.exact(o) * kept[0] + n * kept[1], dtype) for o, n in ((mean, means), (variance, variances))
    ]
    hu.batch_norm(x, mean, variance, training=True)
    assert same(mean, expected[0])
    assert same(variance, expected[1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hu.LayerNorm((0,)), r"layer_norm: normalized_shape=\(0,\): .* \[R3\]"),
        (lambda: hu.layer_norm(np.ones((2, 3)), (2,)), r"layer_norm: input shape=\(2, 3\): the last axes .* \[R3\]"),
        (
            lambda: hu.layer_norm(np.ones(3), (3,), np.ones(2)),
            r"layer_norm: weight shape=\(2,\): must be \(3,\).* \[R2\]",
        ),
        (lambda: hu.LayerNorm((2,), eps=-1.0), r"layer_norm: eps=-1.0: must be a finite number >= 0 \[R1\]"),
        (lambda: hu.group_norm(np.ones((1, 3)), 2), r"group_norm: num_groups=2: must divide the 3 channels \[R3\]"),
        (lambda: hu.batch_norm(np.ones((1, 3)), None, None), r"batch_norm: running_mean None: .* training=True \[R4\]"),
        (lambda: hu.BatchNorm(momentum=2.0), r"batch_norm: momentum=2.0: must be a number from 0 to 1 \[R1\]"),
        (lambda: hu.LayerNorm((2,))(hu.exact(np.array([1.0, 2.0]))), r"layer_norm: scalars of kind fmpq: .* \[R5\]"),
        (lambda: hu.layer_norm(np.ones(2, int), (2,)), r"layer_norm: input dtype=int64: .*astype \[I1\]"),
    ],
)
def test_what_does_not_fit_is_named(call: Any, message: str) -> None:
    with pytest.raises(hu.HalfulpError, match=message):
        call()
