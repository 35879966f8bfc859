"""Power-mean pooling over exact numbers and balls."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import sympy
from flint import arb, fmpq
from hypothesis import given

import halfulp as hu
from tests import exact
from tests import strategies as draw
from tests.exact import Case, equal, inner, objects, rationals


@given(exact.lp_pools, draw.seeds)
def test_the_sum_and_the_largest_have_adjoint_derivatives(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    (x,), (t,), g = case.inputs(rng), case.inputs(rng), rationals(rng, case.output)
    assert x is not None
    _, along = hu.spec.jvp(case.op, (x,), (t,))
    assert inner(along, g) == inner(t, hu.spec.vjp(case.op, (x,), g)[0])


@given(draw.seeds)
def test_euclidean_norms_of_pythagorean_triples_have_adjoint_derivatives(seed: int) -> None:
    """Windows whose norms are rational, so that the derivatives are."""
    rng = np.random.default_rng(seed)
    triples = [(3, 4), (-5, 12), (8, -15), (0, 7), (-20, -21), (0, 0)]
    scale = [fmpq(int(n), int(d)) for n, d in zip(rng.integers(1, 9, 3), rng.integers(1, 9, 3), strict=True)]
    cells = [s * c for s, k in zip(scale, rng.integers(0, len(triples), 3), strict=True) for c in triples[k]]
    x, t, g = objects(cells, (6,)), rationals(rng, (6,)), rationals(rng, (3,))
    op = hu.LpPool((2,), 2)
    output, along = hu.spec.jvp(op, (x,), (t,))
    assert all(y * y == a * a + b * b for y, a, b in zip(output, x[::2], x[1::2], strict=True))
    assert inner(along, g) == inner(t, hu.spec.vjp(op, (x,), g)[0])
    assert equal(hu.spec.vjp(op, (x,), output)[0], x)  # the gradient of y^2 / 2


def test_balls_enclose_the_norm_and_its_derivative() -> None:
    x = objects([arb(1), arb(-2), arb(3)], (3,))
    output, along = hu.spec.jvp(hu.LpPool((3,), 2.5), (x,), (objects([arb(1), arb(1), arb(0)], (3,)),))
    y = (1 + 2**2.5 + 3**2.5) ** 0.4
    assert abs(float(output[0].mid()) - y) < 1e-14
    assert abs(float(along[0].mid()) - (1 - 2**1.5) / y**1.5) < 1e-14


def test_symbols_stay_symbols() -> None:
    a, b = sympy.symbols("a b", positive=True)
    (y,) = hu.spec.forward(hu.LpPool((2,), Fraction(3, 2)), objects([a, b], (2,)))
    assert sympy.simplify(y - (a ** sympy.Rational(3, 2) + b ** sympy.Rational(3, 2)) ** sympy.Rational(2, 3)) == 0
