"""Rational enclosures: they hold the exact values, as ball arithmetic has them, and are narrow."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flint import arb, ctx, fmpq

from halfulp.bounds import _enclosures as enclosures


def _rational(value: float) -> Any:
    return fmpq(*value.as_integer_ratio())


@pytest.fixture(autouse=True)
def _many_bits() -> Iterator[None]:
    before, ctx.prec = ctx.prec, 400
    yield
    ctx.prec = before


def assert_encloses(pair: tuple[Any, Any], value: Any, share: float) -> None:
    """A pair encloses a ball's number, no wider than a share of it."""
    low, high = pair
    assert low <= high
    assert not arb(low) > value
    assert not arb(high) < value
    assert high - low <= _rational(share) * max(abs(low), abs(high))


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], float]] = {
    "exp_of_minus": (lambda x: enclosures.exp_of_minus(abs(x)), lambda a: (-abs(a)).exp(), 2.0**-100),
    "log": (lambda x: enclosures.log(abs(x)), lambda a: abs(a).log(), 2.0**-80),
    "root": (lambda x: enclosures.root(abs(x)), lambda a: abs(a).sqrt(), 2.0**-100),
    "sigmoid": (enclosures.sigmoid, lambda a: 1 / (1 + (-a).exp()), 2.0**-100),
    "softplus": (enclosures.softplus, lambda a: (1 + a.exp()).log(), 2.0**-49),
    "tanh": (enclosures.tanh, lambda a: a.tanh(), 2.0**-60),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_enclosed(name: str) -> None:
    function, ball, share = FUNCTIONS[name]
    draw = random.Random(name)
    drawn = [draw.uniform(-1, 1) * 10 ** draw.uniform(-15, 2) for _ in range(40)]
    for value in (1.0, -1.0, 2.0, 0.75, 1.5, 2.0**-60, -(2.0**-49), 300.0, -500.0, *drawn):
        assert_encloses(function(_rational(value)), ball(arb(_rational(value))), share)


def test_exact_values_are_exact() -> None:
    assert enclosures.exp_of_minus(fmpq(0)) == (1, 1)
    assert enclosures.log(fmpq(1)) == (0, 0)
    assert enclosures.root(fmpq(9, 16)) == (fmpq(3, 4), fmpq(3, 4))
    assert enclosures.tanh(fmpq(0)) == (0, 0)
    assert enclosures.smooth_max([fmpq(7, 3)], 0, fmpq(5)) == (fmpq(7, 3), fmpq(7, 3))
    assert enclosures.norm([fmpq(3), fmpq(4)], fmpq(2)) == (5, 5)
    assert enclosures.smooth_max([], 0, fmpq(1)) == (0, 0)


def test_far_out_the_enclosures_stay_small_and_sound() -> None:
    low, high = enclosures.exp_of_minus(fmpq(10) ** 300)
    assert (low, high > 0, high < fmpq(1, 2**5000)) == (0, True, True)
    assert enclosures.sigmoid(fmpq(10) ** 300)[1] == 1
    assert enclosures.tanh(-(fmpq(10) ** 300))[0] == -1


@pytest.mark.parametrize("name", enclosures.BIASES)
def test_lines_enclose_the_function_and_are_next_to_the_best(name: str) -> None:
    """At many points of the interval; the best bias is reached up to the distance of these points."""
    draw = random.Random(name)
    value = FUNCTIONS[name][1]
    for _ in range(25):
        low = draw.uniform(-4, 4)
        width = draw.choice([0.0, 1e-9, 0.5, 3.0, 6.0])
        slopes = [draw.choice([0.0, 1.0, -0.25, 1.5, draw.uniform(0, 1), draw.uniform(0, 0.2)]) for _ in range(2)]
        ends = [_rational(low), _rational(low) + _rational(width)]
        least, most = enclosures.BIASES[name](*ends, *map(_rational, slopes))
        points = [ends[0] + (ends[1] - ends[0]) * fmpq(k, 60) for k in range(61)]
        below = [value(arb(x)) - arb(_rational(slopes[0]) * x) for x in points]
        above = [value(arb(x)) - arb(_rational(slopes[1]) * x) for x in points]
        assert not any(gap < arb(least) for gap in below)
        assert not any(gap > arb(most) for gap in above)
        near = (width / 60) ** 2 + 1e-20
        assert min(float(gap - arb(least)) for gap in below) <= near
        assert min(float(arb(most) - gap) for gap in above) <= near


def _corners(lows: list[Any], highs: list[Any]) -> list[list[Any]]:
    points: list[list[Any]] = [[]]
    for low, high in zip(lows, highs, strict=True):
        points = [[*p, x] for p in points for x in (low, (low + high) / 2, high)]
    return points


@pytest.mark.parametrize("function", ["smooth", "norm"])
def test_planes_enclose_smooth_maxima_and_norms(function: str) -> None:
    draw = random.Random(function)
    for _ in range(12):
        count = draw.randint(1, 3)
        lows = [_rational(draw.uniform(0, 2)) for _ in range(count)]
        highs = [low + _rational(draw.choice([0.0, 0.5, 2.0])) for low in lows]
        slopes = [_rational(draw.uniform(0, 1)) for _ in range(count)]
        parameter = fmpq(draw.choice([2, 3, 5]), draw.choice([1, 2]) if function == "smooth" else 1)
        if function == "smooth":
            zeros = draw.randint(0, 2)
            total = sum(slopes, fmpq(0)) * (2 if zeros else 1)
            weights = [s / total for s in slopes]
            least = enclosures.smooth_least(weights, zeros, parameter)

            def value(x: list[Any], zeros: int = zeros, parameter: Any = parameter) -> Any:
                return enclosures.smooth_max(x, zeros, parameter)

            assert enclosures.smooth_least([s * 3 for s in weights], zeros, parameter) is None
        else:
            weights = slopes
            least = enclosures.norm_least(weights, highs, parameter)

            def value(x: list[Any], parameter: Any = parameter) -> Any:  # type: ignore[misc]
                return enclosures.norm(x, parameter)

        most = enclosures.convex_most(lows, highs, slopes, value)
        for x in _corners(lows, highs):
            below, above = value(x)
            assert above >= least + sum((w * v for w, v in zip(weights, x, strict=True)), fmpq(0))
            assert below <= most + sum((s * v for s, v in zip(slopes, x, strict=True)), fmpq(0))


def test_numbers_are_shortened_outward() -> None:
    third = fmpq(1, 3)
    assert enclosures.down(third, 20) < third < enclosures.up(third, 20)
    assert enclosures.down(-third, 20) < -third < enclosures.up(-third, 20)
    assert enclosures.up(third, 20) - enclosures.down(third, 20) < fmpq(1, 2**20)
    assert enclosures.down(fmpq(2) ** 900 + third, 8) == fmpq(2) ** 900
