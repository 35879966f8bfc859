"""Lines around functions of one number, against rationals and balls of 200 bits."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import flint
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfulp.bounds._max_relaxation import Planes
from halfulp.bounds._scalar_relaxation import SCALAR_RELAXATIONS, scalar_planes

HUGE = 1.7976931348623157e308
special = st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 1e-310, 1.0, -1.0, 20.0, -20.0, 400.0, 1e15, HUGE, -HUGE, 1e-9])
ends = st.one_of(st.integers(-4, 4).map(float), st.floats(-3, 3), st.floats(-60, 60), special)
some_ends = st.one_of(ends, st.floats(allow_nan=False, allow_infinity=False))


def ball(x: Fraction) -> Any:
    return flint.arb(flint.fmpq(x.numerator, x.denominator))


def tanh(x: Fraction) -> Any:
    return ball(x).tanh()


def sigmoid(x: Fraction) -> Any:
    return 1 / (1 + (-ball(x)).exp())


def softplus(beta: float) -> Callable[[Fraction], Any]:
    def f(x: Fraction) -> Any:
        scaled = ball(x * Fraction(beta))
        tail = (1 + (-abs(scaled)).exp()).log()
        return (ball(max(x * Fraction(beta), Fraction(0))) + tail) / ball(Fraction(beta))

    return f


def test_softplus_of_the_largest_float() -> None:
    planes = scalar_planes("softplus", np.array([-1.0, 0.0]), np.array([HUGE, HUGE]))
    assert planes.upper_bias.tolist() == [np.inf, np.inf]
    assert np.isfinite(planes.lower_bias).all()


def leaky(slope: float) -> Callable[[Fraction], Fraction]:
    return lambda x: x if x >= 0 else Fraction(slope) * x


def clip(minimum: float, maximum: float) -> Callable[[Fraction], Fraction]:
    def f(x: Fraction) -> Fraction:
        if x < minimum:
            x = Fraction(minimum)
        return Fraction(maximum) if x > maximum else x

    return f


def inside(low: float, high: float, seed: int) -> list[Fraction]:
    """Points of the interval: its ends, 0, kinks, even and random steps."""
    a, b = Fraction(float(low)), Fraction(float(high))
    generator = np.random.default_rng(seed)
    steps = [Fraction(k, 16) for k in range(17)] + [Fraction(int(k), 2**20) for k in generator.integers(0, 2**20, 16)]
    points = [a + t * (b - a) for t in steps]
    near = [Fraction(k, 8) for k in range(-40, 41)] + [Fraction(0.1)]
    return points + [x for x in near if a <= x <= b]


def assert_encloses(planes: Planes, f: Callable[[Fraction], Any], points: list[Fraction]) -> None:
    parts = [Fraction(float(part)) for part in planes]
    for x in points:
        below, value, above = parts[0] * x + parts[1], f(x), parts[2] * x + parts[3]
        if isinstance(value, Fraction):
            assert below <= value <= above
        else:
            assert not value < ball(below)
            assert not value > ball(above)


@pytest.fixture(autouse=True)
def precise() -> Any:
    before = flint.ctx.prec
    flint.ctx.prec = 400
    yield
    flint.ctx.prec = before


def both(a: float, b: float) -> tuple[Any, Any]:
    return np.array(min(a, b)), np.array(max(a, b))


@pytest.mark.parametrize("kind", ["tanh", "sigmoid"])
@given(ends, ends, st.integers(0, 99))
def test_s_shaped(kind: str, a: float, b: float, seed: int) -> None:
    low, high = both(a, b)
    assert_encloses(scalar_planes(kind, low, high), {"tanh": tanh, "sigmoid": sigmoid}[kind], inside(low, high, seed))


@given(ends, ends, st.sampled_from([1.0, 0.5, 3.0, 0.1, 100.0]), st.integers(0, 99))
def test_softplus(a: float, b: float, beta: float, seed: int) -> None:
    low, high = both(a, b)
    planes = scalar_planes("softplus", low, high, beta=beta)
    if high == HUGE:  # the value exceeds every float, so no finite line is known to lie above
        assert planes.upper_bias == np.inf
        planes = planes._replace(upper_slope=np.array(1.0), upper_bias=np.array(HUGE))
    assert_encloses(planes, softplus(beta), inside(low, high, seed))


@given(some_ends, some_ends, st.sampled_from([0.0, 0.01, 0.1, 1.0, -0.3, 1.7, 3.0]), st.floats(0, 1), st.booleans())
def test_leaky_relu(a: float, b: float, slope: float, alpha: float, given_alpha: bool) -> None:
    low, high = both(a, b)
    if slope > 1 and float(low) < -1e307:  # the value itself overflows
        return
    chosen = np.array(alpha) if given_alpha else None
    planes = scalar_planes("leaky_relu", low, high, slope=slope, alpha=chosen)
    assert_encloses(planes, leaky(slope), inside(low, high, 0))
    if slope == 0:
        again = scalar_planes("relu", low, high, alpha=chosen)
        assert [float(part) for part in again] == [float(part) for part in planes]


@given(some_ends, some_ends, st.sampled_from([(0.0, 6.0), (-1.0, 1.0), (0.1, 0.1), (2.0, -1.0), (-0.5, 3.5)]))
def test_clip(a: float, b: float, limits: tuple[float, float]) -> None:
    low, high = both(a, b)
    planes = scalar_planes("clip", low, high, minimum=limits[0], maximum=limits[1])
    assert_encloses(planes, clip(*limits), [*inside(low, high, 0), Fraction(float(high))])


@pytest.mark.parametrize(("minimum", "maximum"), [(0.0, np.inf), (-np.inf, 0.0), (-np.inf, np.inf)])
def test_one_sided_clip(minimum: float, maximum: float) -> None:
    low, high = np.array([-2.0, 1.0, -3.0]), np.array([3.0, 2.0, -1.0])
    planes = scalar_planes("clip", low, high, minimum=minimum, maximum=maximum)

    def f(x: Fraction) -> Fraction:
        x = max(x, Fraction(0)) if minimum == 0 else x
        return min(x, Fraction(0)) if maximum == 0 else x

    for index in range(3):
        assert_encloses(Planes(*(part[index] for part in planes)), f, inside(low[index], high[index], 0))


def test_exact_sides() -> None:
    for kind, slope in (("relu", 0.0), ("leaky_relu", 0.01)):
        planes = scalar_planes(kind, np.array([1.0, -2.0, 0.0]), np.array([2.0, -1.0, 0.0]))
        assert planes.lower_slope.tolist() == planes.upper_slope.tolist() == [1.0, slope, 1.0]
        assert not planes.lower_bias.any()
        assert not planes.upper_bias.any()


@pytest.mark.parametrize("kind", sorted(SCALAR_RELAXATIONS))
def test_points_are_tight(kind: str) -> None:
    """On an interval of one point the lines meet there, but for rounding."""
    at = np.linspace(-5, 5, 41)
    planes = scalar_planes(kind, at, at)
    below = planes.lower_slope * at + planes.lower_bias
    above = planes.upper_slope * at + planes.upper_bias
    np.testing.assert_allclose(below, above, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("kind", ["tanh", "sigmoid", "softplus"])
def test_lines_touch_the_function(kind: str) -> None:
    """Each line comes within 1e-9 of the function somewhere: no needless gap."""
    function = {"tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "softplus": lambda x: np.log1p(np.exp(x))}
    generator = np.random.default_rng(1)
    pairs = generator.uniform(-6, 6, size=(200, 2))
    low, high = pairs.min(axis=1), pairs.max(axis=1)
    planes = scalar_planes(kind, low, high)
    x = low + np.linspace(0, 1, 4001)[:, None] * (high - low)
    value = function[kind](x)
    assert (value - planes.lower_slope * x - planes.lower_bias).min(axis=0).max() < 1e-5
    assert (planes.upper_slope * x + planes.upper_bias - value).min(axis=0).max() < 1e-5
