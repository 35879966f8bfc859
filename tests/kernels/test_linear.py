"""Matrix products in the compiled core against the specification, bit for bit, and what they refuse."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import halfulp as hu

DTYPES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32), np.dtype(np.float64)]
every_type = pytest.mark.parametrize("dtype", DTYPES, ids=str)
SHAPES = [
    ((3, 4), (4, 2)),
    ((2, 3, 4), (4, 2)),
    ((3, 4), (2, 4, 5)),
    ((2, 3, 4), (2, 4, 1)),
    ((2, 1, 3, 4), (3, 4, 2)),
    ((1, 2, 1, 4), (3, 1, 4, 2)),
    ((4,), (4,)),
    ((4,), (2, 4, 3)),
    ((2, 3, 4), (4,)),
    ((0, 4), (4, 2)),
    ((3, 0), (0, 2)),
    ((2, 3, 4), (2, 4, 0)),
]


def same(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    a, b = (np.where(np.isnan(v.astype(np.float64)), np.nan, v.astype(np.float64)) for v in (a, b))  # one NaN
    return bool(a.tobytes() == b.tobytes())


def hard(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    """Numbers over many binades, equal ones of both signs among them: sums that cancel."""
    numbers = (
        rng.integers(-8, 9, shape) * 2.0 ** rng.integers(-9, 10, shape) * np.where(rng.random(shape) < 0.1, -0.0, 1)
    )
    return numbers.astype(dtype)


def assert_agree(op: Any, inputs: tuple[Any, ...], tangents: tuple[Any, ...], g: Any) -> None:
    assert same(op(*inputs), hu.spec.forward(op, *inputs))
    assert same(op.jvp(inputs, tangents)[1], hu.spec.jvp(op, inputs, tangents)[1])
    pulled, expected = op.vjp(*inputs)[1](g), hu.spec.vjp(op, inputs, g)
    assert all(same(a, b) for a, b in zip(pulled, expected, strict=True))


@every_type
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_products_have_the_bits_of_the_specification(shapes: Any, dtype: Any) -> None:
    rng, op = np.random.default_rng(0), hu.Matmul()
    for _ in range(4):
        inputs, tangents = (tuple(hard(rng, s, dtype) for s in shapes) for _ in range(2))
        assert_agree(op, inputs, tangents, hard(rng, op.output_shape(*shapes), dtype))


@every_type
def test_few_products_for_each_of_long_rows(dtype: Any) -> None:
    rng, op = np.random.default_rng(7), hu.Matmul()
    for depth, special in ((1, False), (3, True), (9, False)):
        a, b = hard(rng, (11, depth), dtype), hard(rng, (depth, 1031), dtype)
        for array, one_in in ((a, 2), (b, 3)):  # zeros of either sign
            array[rng.integers(0, one_in, array.shape) > 0] *= dtype.type(0)
        if special:
            a[3, 1], b[0, 700], b[2, 701] = -np.inf, np.nan, np.inf
        assert same(op(a, b), hu.spec.forward(op, a, b))


@every_type
@pytest.mark.parametrize("leading", [(), (1,), (5,), (2, 3), (0,)], ids=str)
@pytest.mark.parametrize("has_bias", [True, False])
def test_linear_layers_have_the_bits_of_the_specification(leading: Any, has_bias: bool, dtype: Any) -> None:
    rng, op = np.random.default_rng(1), hu.Linear()
    for inner, outer in ((3, 2), (33, 17), (1, 1), (0, 2), (3, 0)):
        shapes = [(*leading, inner), (outer, inner), (outer,) if has_bias else None]
        inputs, tangents = (tuple(None if s is None else hard(rng, s, dtype) for s in shapes) for _ in range(2))
        assert_agree(op, inputs, tangents, hard(rng, (*leading, outer), dtype))


@every_type
def test_infinities_and_nan_follow_the_rules_of_sums(dtype: Any) -> None:
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0], dtype)
    rng = np.random.default_rng(2)
    for _ in range(20):
        a, b = rng.choice(special, (3, 4)), rng.choice(special, (4, 3))
        with np.errstate(invalid="ignore"):
            assert_agree(hu.Matmul(), (a, b), (b.T.copy(), a.T.copy()), rng.choice(special, (3, 3)))


def test_layout_batch_and_threads_do_not_matter() -> None:
    rng = np.random.default_rng(3)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((64, 300), (50, 300)))
    y, pull = hu.Linear().vjp(x, w)
    g = rng.standard_normal(y.shape).astype(np.float32)
    strided = np.asfortranarray(x)[::-1][::-1]
    assert same(hu.linear(strided, np.asfortranarray(w)), y)
    assert same(np.concatenate([hu.linear(row[None], w) for row in x]), y)
    before = hu.get_num_threads()
    try:
        hu.set_num_threads(1)
        again, pull_again = hu.Linear().vjp(x, w)
        assert same(again, y)
        assert all(same(a, b) for a, b in zip(pull(g), pull_again(g), strict=True))
    finally:
        hu.set_num_threads(before)


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_long_rows_and_every_bias(rows: int) -> None:
    rng = np.random.default_rng(5)
    x, w, bias = (rng.standard_normal(s).astype(np.float32) for s in ((rows, 700), (150, 700), (150,)))
    bias[7:11] = np.inf, np.nan, 1e30, -0.0
    x[0, :600] = 0.0
    op, few = hu.Linear(), slice(0, 30)
    assert same(op(x, w, bias)[:2, few], hu.spec.forward(op, x[:2], w[few], bias[few]))
    for precision in ("correct", "fast"):
        y = hu.linear(x, w, bias, precision=precision)
        image = np.ascontiguousarray(x.T)  # pixels side by side: filters are the weight, not the rows of x
        assert same(y, np.ascontiguousarray(hu.conv1d(image, w[:, :, None], bias, precision=precision).T))
        assert same(y, np.concatenate([hu.linear(row[None], w, bias, precision=precision) for row in x]))


def test_fast_products_are_near() -> None:
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((2, 30, 40), (2, 40, 20)))
    np.testing.assert_allclose(hu.matmul(a, b, precision="fast"), hu.matmul(a, b), rtol=1e-4, atol=1e-4)
    with pytest.raises(hu.PolicyError, match=r"precision='best': must be one of .* \[P4\]"):
        hu.Linear("best")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hu.matmul(np.ones((2, 3)), np.ones((2, 3))), r"matmul: .* inner sizes must be equal.* 3 and 2 \[M1\]"),
        (lambda: hu.matmul(np.ones(()), np.ones(3)), r"matmul: .* at least one axis \[M1\]"),
        (
            lambda: hu.matmul(np.ones((2, 2, 3)), np.ones((3, 3, 1))),
            r"matmul: leading axes \(2,\) and \(3,\): .* \[M2\]",
        ),
        (lambda: hu.linear(np.ones(3), np.ones((2, 4))), r"linear: input shape=\(3,\): .* 4 inputs \[M1\]"),
        (lambda: hu.linear(np.ones(3), np.ones(3)), r"linear: weight shape=\(3,\): must be \(outputs, inputs\) \[M3\]"),
        (lambda: hu.linear(np.ones(3), np.ones((2, 3)), np.ones(3)), r"linear: bias shape=\(3,\): .* \[M3\]"),
        (lambda: hu.linear(np.ones(3), None), r"linear: weight=None: must be an array.* \[I3\]"),
        (lambda: hu.matmul(np.ones((2, 2), int), np.ones((2, 2), int)), r"matmul: input dtype=int64: .*astype \[I1\]"),
        (lambda: hu.matmul(np.ones((2, 2)), np.ones((2, 2), np.float32)), r"matmul: dtypes .* \[I2\]"),
    ],
)
def test_what_does_not_fit_is_named(call: Any, message: str) -> None:
    with pytest.raises(hu.HalfulpError, match=message):
        call()
