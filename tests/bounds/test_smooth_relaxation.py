"""Planes around a smooth maximum, against balls: vertices for the upper plane, points of the box for both."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import flint
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfulp.bounds._smooth_relaxation import smooth_max_planes

number = st.one_of(
    st.integers(-3, 3).map(float), st.floats(-4, 4), st.sampled_from([0.0, -0.0, 1e-300, 50.0, -80.0, 1e6])
)


def ball(x: Fraction) -> Any:
    return flint.arb(flint.fmpq(x.numerator, x.denominator))


def smooth(point: tuple[Fraction, ...], zeros: int, beta: float) -> Any:
    b = Fraction(beta)
    terms = [b * x for x in point] + [Fraction(0)] * zeros
    top = max(terms)
    return (ball(top) + sum(ball(t - top).exp() for t in terms).log()) / ball(b)


@st.composite
def boxes(draw: st.DrawFn) -> tuple[Any, Any, Any, int, float]:
    cells = draw(st.integers(1, 5))
    pairs = [sorted([draw(number), draw(number)]) for _ in range(cells)]
    real = draw(st.lists(st.integers(0, 5).map(bool), min_size=cells, max_size=cells))
    zeros, beta = draw(st.integers(0, 3)), draw(st.sampled_from([1.0, 0.1, 7.0, -1.0, -3.3]))
    low, high = np.array(pairs).T
    return np.array(low), np.array(high), np.array(real), zeros, beta


@given(boxes(), st.integers(0, 99))
def test_planes_hold(box: tuple[Any, Any, Any, int, float], seed: int) -> None:
    low, high, real, zeros, beta = box
    planes = smooth_max_planes(low, high, real, beta, np.array(zeros))
    if not real.any() and zeros == 0:
        assert not any(np.asarray(part).any() for part in planes)
        return
    a, b = [[Fraction(float(x)) for x in side[real]] for side in (low, high)]
    generator = np.random.default_rng(seed)
    points = [tuple(v) for v in itertools.product(*([x, y] for x, y in zip(a, b, strict=True)))]
    for steps in [np.full(len(a), 8), *generator.integers(0, 17, size=(8, len(a)))]:
        points.append(tuple(x + Fraction(int(t), 16) * (y - x) for x, y, t in zip(a, b, steps, strict=True)))
    slopes = [[Fraction(float(s)) for s in part[real]] for part in (planes.lower_slope, planes.upper_slope)]
    biases = [Fraction(float(planes.lower_bias)), Fraction(float(planes.upper_bias))]
    before, flint.ctx.prec = flint.ctx.prec, 300
    try:
        for point in points:
            value = smooth(point, zeros, beta)
            below, above = (
                sum((s * x for s, x in zip(slope, point, strict=True)), bias)
                for slope, bias in zip(slopes, biases, strict=True)
            )
            assert not value < ball(below)
            assert not value > ball(above)
    finally:
        flint.ctx.prec = before


@pytest.mark.parametrize("beta", [2.0, -2.0])
def test_points_are_tight(beta: float) -> None:
    generator = np.random.default_rng(0)
    at = generator.normal(size=(50, 4))
    planes = smooth_max_planes(at, at, np.ones((50, 4), dtype=bool), beta, np.full(50, 2))
    below = (planes.lower_slope * at).sum(axis=-1) + planes.lower_bias
    above = (planes.upper_slope * at).sum(axis=-1) + planes.upper_bias
    expected = np.log(np.exp(beta * at).sum(axis=-1) + 2) / beta
    np.testing.assert_allclose(below, expected, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(above, expected, rtol=1e-11, atol=1e-11)


def test_large_windows_have_a_constant_above() -> None:
    low, high = np.zeros((2, 100)), np.ones((2, 100))
    planes = smooth_max_planes(low, high, np.ones((2, 100), dtype=bool), 1.0)
    assert not planes.upper_slope.any()
    np.testing.assert_allclose(planes.upper_bias, 1 + np.log(100), rtol=1e-13)
