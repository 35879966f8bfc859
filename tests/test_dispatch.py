"""Which interpreter runs, and what a pullback keeps."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import halfulp as hu
from halfulp import kernels

EVERY: list[tuple[Any, tuple[tuple[int, ...], ...]]] = [
    (hu.MaxPool((2, 2), padding=1), ((3, 4, 5),)),
    (hu.AvgPool((2, 2), padding=1), ((3, 4, 5),)),
    (hu.SmoothMaxPool((2, 2), 1.5, padding=1), ((2, 3, 3),)),
    (hu.AdaptiveMaxPool((2, 3)), ((3, 4, 5),)),
    (hu.AdaptiveAvgPool((2, 3)), ((3, 4, 5),)),
    (hu.GlobalMaxPool(2), ((3, 4, 5),)),
    (hu.GlobalAvgPool(2), ((3, 4, 5),)),
    (hu.Conv(2, padding=1), ((2, 4, 5), (3, 2, 3, 3), (3,))),
    (hu.ConvTranspose(2, stride=2), ((2, 3, 3), (2, 3, 2, 2), (3,))),
]


@pytest.mark.parametrize(("op", "shapes"), EVERY)
def test_methods_are_the_specification_whatever_runs_them(op: Any, shapes: Any) -> None:
    rng = np.random.default_rng(0)
    primals = tuple(rng.standard_normal(s).astype(np.float32) for s in shapes)
    tangents = tuple(rng.standard_normal(s).astype(np.float32) for s in shapes)
    expected, jt = hu.spec.jvp(op, primals, tangents)
    assert np.array_equal(op(*primals), expected)
    output, tangent = op.jvp(primals, tangents)
    assert np.array_equal(output, expected)
    assert np.array_equal(tangent, jt)
    g = rng.standard_normal(expected.shape).astype(np.float32)
    output, pullback = op.vjp(*primals)
    assert np.array_equal(output, expected)
    for mine, other in zip(pullback(g), hu.spec.vjp(op, primals, g), strict=True):
        assert np.array_equal(mine, other)


@pytest.mark.parametrize("kind", [np.float32, Fraction])
@pytest.mark.parametrize(("op", "shapes"), [pair for pair in EVERY if not isinstance(pair[0], hu.SmoothMaxPool)])
def test_a_pullback_can_be_called_again_and_keeps_its_own_copy(op: Any, shapes: Any, kind: Any) -> None:
    rng = np.random.default_rng(0)

    def fresh(shape: tuple[int, ...]) -> Any:
        whole = rng.integers(-5, 6, shape)
        if kind is np.float32:
            return whole.astype(np.float32)
        return np.array([Fraction(int(v)) for v in whole.ravel()]).reshape(shape)

    primals = tuple(fresh(s) for s in shapes)
    output, pullback = op.vjp(*primals)
    g = fresh(output.shape)
    first = pullback(g)
    for primal in primals:
        primal[...] = kind(99)  # what the caller does to its arrays afterwards is its own affair
    second = pullback(g)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert all(a is not b for a, b in zip(first, second, strict=True))


def test_objects_go_to_the_specification_and_numbers_to_the_kernels(monkeypatch: Any) -> None:
    evaluated = []
    monkeypatch.setattr(hu.spec, "forward", lambda op, *inputs: evaluated.append(inputs[0].dtype))
    op = hu.MaxPool((1,))
    assert kernels.supports(op)
    assert op(np.ones(1)).tolist() == [1]
    assert op(np.ones(1, np.int8)).tolist() == [1]
    op(np.array([Fraction(1)]))
    assert evaluated == [np.dtype(object)]


def test_a_value_that_decides_for_itself() -> None:
    class Traced:
        def __halfulp_apply__(self, op: Any, inputs: tuple[Any, ...]) -> tuple[Any, int]:
            return op, len(inputs)

    op = hu.Conv(1)
    assert op(Traced(), np.ones(1)) == (op, 2)
    assert op(np.ones(1), Traced()) == (op, 2)
