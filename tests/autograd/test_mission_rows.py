"""The tape's convolution and pooling nodes are those of the specification, over every kind of scalar."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import sympy
from flint import arb, fmpq
from hypothesis import given
from hypothesis import strategies as st
from tests.scaling import examples

import halfulp as hu
from halfulp import Tape

KINDS = {"fmpq": fmpq, "Fraction": Fraction, "arb": arb, "sympy": sympy.Rational, "float64": np.float64}


def draw(seed: int, shape: tuple[int, ...], kind: str) -> Any:
    numbers = np.random.default_rng(seed).integers(-9, 10, shape)
    if kind == "float64":
        return numbers / 4
    return np.frompyfunc(lambda v: KINDS[kind](int(v)) / 4, 1, 1)(numbers)


ROWS: dict[str, Any] = {
    # name: (method, its arguments, the record, shapes of x and of the parameters)
    "conv": (
        lambda t, x, w, b: t.conv(w, b, x, stride=2, padding=1),
        hu.Conv(1, stride=2, padding=1),
        [(2, 5), (3, 2, 3), (3,)],
    ),
    "conv 3-d": (
        lambda t, x, w, b: t.conv(w, b, x, stride=(1, 2, 1), padding=(0, 1, 0)),
        hu.Conv(3, stride=(1, 2, 1), padding=(0, 1, 0)),
        [(1, 2, 3, 2), (2, 1, 2, 2, 1), (2,)],
    ),
    "conv2d": (
        lambda t, x, w, b: t.conv2d(w, b, x, stride=2, padding=1, dilation=2),
        hu.Conv(2, stride=2, padding=1, dilation=2),
        [(2, 5, 4), (3, 2, 2, 2), (3,)],
    ),
    "conv_transpose": (
        lambda t, x, w, b: t.conv_transpose(w, b, x, stride=2, padding=1),
        hu.ConvTranspose(1, stride=2, padding=1),
        [(2, 4), (2, 3, 3), (3,)],
    ),
    "conv_transpose2d": (
        lambda t, x, w, b: t.conv_transpose2d(w, b, x, stride=2, padding=1, output_padding=1),
        hu.ConvTranspose(2, stride=2, padding=1, output_padding=1),
        [(2, 3, 2), (2, 3, 3, 3), (3,)],
    ),
    "max_pool": (
        lambda t, x: t.max_pool(x, (2, 1, 2), stride=1, padding=(1, 0, 0)),
        hu.MaxPool((2, 1, 2), stride=1, padding=(1, 0, 0)),
        [(2, 3, 2, 3)],
    ),
    "max_pool2d": (lambda t, x: t.max_pool2d(x, 2), hu.MaxPool((2, 2)), [(2, 4, 4)]),
    "max_pool2d padded": (
        lambda t, x: t.max_pool2d(x, 3, 2, padding=1, ties="split"),
        hu.MaxPool((3, 3), stride=2, padding=1, ties="split"),
        [(2, 5, 4)],
    ),
    "avg_pool": (lambda t, x: t.avg_pool(x, (3,), 2, 1), hu.AvgPool((3,), stride=2, padding=1), [(2, 5)]),
    "avg_pool2d": (lambda t, x: t.avg_pool2d(x, 2), hu.AvgPool((2, 2)), [(2, 4, 4)]),
    "avg_pool2d padded": (
        lambda t, x: t.avg_pool2d(x, 3, 2, padding=1, count_include_pad=False),
        hu.AvgPool((3, 3), stride=2, padding=1, count_include_pad=False),
        [(2, 5, 4)],
    ),
    "adaptive_avg_pool": (lambda t, x: t.adaptive_avg_pool(x, (2, 3)), hu.AdaptiveAvgPool((2, 3)), [(2, 5, 4)]),
    "adaptive_max_pool": (lambda t, x: t.adaptive_max_pool(x, (2, 3)), hu.AdaptiveMaxPool((2, 3)), [(2, 5, 4)]),
    "global_avg_pool": (lambda t, x: t.global_avg_pool(x), hu.GlobalAvgPool(2), [(2, 3, 4)]),
    "global_max_pool": (
        lambda t, x: t.global_max_pool(x, keepdims=False),
        hu.GlobalMaxPool(2, keepdims=False),
        [(2, 3, 4)],
    ),
}
SMOOTH_ROWS: dict[str, Any] = {
    "smooth_max_pool": (
        lambda t, x: t.smooth_max_pool(x, (2,), 3, stride=1, padding=1),
        hu.SmoothMaxPool((2,), 3, stride=1, padding=1),
        [(2, 4)],
    ),
    "smooth_max_pool2d": (
        lambda t, x: t.smooth_max_pool2d(x, 2, 2, stride=1),
        hu.SmoothMaxPool((2, 2), 2, stride=1),
        [(1, 3, 3)],
    ),
}


def same(kind: str, ours: Any, theirs: Any) -> bool:
    if kind == "arb":
        return all(a.overlaps(b) and a.rad() == b.rad() for a, b in zip(ours.flat, theirs.flat, strict=True))
    return bool((ours == theirs).all())


def assert_agrees_with_the_specification(build: Any, record: Any, shapes: Any, kind: str, seed: int) -> None:
    inputs = [draw(seed + i, shape, kind) for i, shape in enumerate(shapes)]
    tape, ids = Tape(), []
    for value in inputs:
        tape, id = tape.leaf(value)
        ids.append(id)
    tape, out = build(tape, *ids)
    assert same(kind, tape.value(out), hu.spec.forward(record, *inputs))
    cotangent = draw(seed + 7, tape.value(out).shape, kind)
    gradients = tape.backward(out, cotangent)
    for id, expected in zip(ids, hu.spec.vjp(record, tuple(inputs), cotangent), strict=True):
        assert same(kind, gradients[id], expected)
    tangents = [draw(seed + 11 + i, shape, kind) for i, shape in enumerate(shapes)]
    pushed = tape.jvp(out, dict(zip(ids, tangents, strict=True)))
    assert same(kind, pushed, hu.spec.jvp(record, tuple(inputs), tuple(tangents))[1])


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("row", list(ROWS))
def test_rows_of_the_original(row: str, kind: str) -> None:
    assert_agrees_with_the_specification(*ROWS[row], kind, seed=5)


@examples(15)
@given(st.sampled_from(sorted(ROWS)), st.integers(0, 10**6))
def test_rows_of_the_original_for_random_rationals(row: str, seed: int) -> None:
    assert_agrees_with_the_specification(*ROWS[row], "fmpq", seed)


@pytest.mark.parametrize("kind", ["arb", "float64"])
@pytest.mark.parametrize("row", list(SMOOTH_ROWS))
def test_smooth_rows_of_the_original(row: str, kind: str) -> None:
    assert_agrees_with_the_specification(*SMOOTH_ROWS[row], kind, seed=3)


def test_smooth_max_of_symbols() -> None:
    a, b = sympy.symbols("a b", real=True)
    tape, x = Tape().leaf(np.array([a, b]))
    tape, y = tape.smooth_max_pool(x, (2,), 1)
    gradient = tape.backward(y)[x]
    for symbol, given_ in zip((a, b), gradient, strict=True):
        assert sympy.simplify(given_ - sympy.diff(sympy.log(sympy.exp(a) + sympy.exp(b)), symbol)) == 0


def test_a_batch_is_one_more_leading_axis() -> None:
    x, w = draw(0, (3, 2, 4, 4), "fmpq"), draw(1, (2, 2, 3, 3), "fmpq")
    tape, i = Tape().leaf(x)
    tape, k = tape.leaf(w)
    tape, y = tape.conv2d(k, None, i)
    tape, z = tape.sum(y)
    gradients = tape.backward(z)
    singles = []
    for image in x:
        one, j = Tape().leaf(image)
        one, k2 = one.leaf(w)
        one, y2 = one.conv2d(k2, None, j)
        one, z2 = one.sum(y2)
        singles.append(one.backward(z2))
        assert (singles[-1][j] == gradients[i][len(singles) - 1]).all()
    assert (sum(g[1] for g in singles) == gradients[k]).all()
