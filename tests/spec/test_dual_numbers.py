"""Every JVP confirmed by dual numbers, which differentiate by carrying derivatives through the forward pass alone."""

from __future__ import annotations

import numpy as np
from flint import arb
from hypothesis import given

import halfulp as hu
from tests import exact
from tests import strategies as draw
from tests.exact import Array, Case, Dual, equal, mapped, rationals
from tests.scaling import examples


def through_duals(case: Case, primals: tuple[Array | None, ...], tangents: tuple[Array | None, ...]) -> Array:
    """The derivative parts of the forward pass over duals."""
    duals = tuple(
        None if x is None or t is None else mapped(Dual, x, t) for x, t in zip(primals, tangents, strict=True)
    )
    return mapped(lambda d: d.derivative, hu.spec.forward(case.op, *duals))


@given(exact.every_exact_operator, draw.seeds)
def test_jvp_is_the_derivative_part_of_a_forward_pass_over_duals(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    primals, tangents = case.inputs(rng, exact.distinct), case.inputs(rng)
    assert equal(hu.spec.jvp(case.op, primals, tangents)[1], through_duals(case, primals, tangents))


@given(exact.hard_maxima.filter(lambda case: case.op.ties in ("first", "last")), draw.seeds)
def test_duals_of_equal_value_leave_the_choice_to_the_tie_rule(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    primals, tangents = case.inputs(rng), case.inputs(rng)
    assert equal(hu.spec.jvp(case.op, primals, tangents)[1], through_duals(case, primals, tangents))


@examples(60)
@given(exact.smooth_pools, draw.seeds)
def test_smooth_max(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    (x,), (t,) = (tuple(mapped(arb, array) for array in case.inputs(rng) if array is not None) for _ in range(2))
    confirmed = through_duals(case, (x,), (t,))
    for ball, dual in zip(hu.spec.jvp(case.op, (x,), (t,))[1].ravel(), confirmed.ravel(), strict=True):
        assert ball.overlaps(arb(dual))
        assert ball.rad() < 1e-6


def test_the_dual_number_itself() -> None:
    x, t = rationals(np.random.default_rng(0), (3,)), rationals(np.random.default_rng(1), (3,))
    a, b = Dual(x[0], t[0]), Dual(x[1] + 20, t[1])
    product, quotient = a * b, a / b
    assert product.derivative == a.value * b.derivative + a.derivative * b.value
    assert (quotient * b).derivative == a.derivative
    assert (2 - a).derivative == -a.derivative
    assert Dual(arb(2), arb(3)).exp().log().derivative.contains(3)
