"""Smooth max pooling: its bounds over balls, and over floats the correctly rounded value, ties and infinities included.

The second implementation is mpmath at 300 digits. Where 300 digits do not tell which float is nearest, the exact value
is a tie or all but one; such cases are written out by hand below.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from flint import arb, fmpq
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
from tests import exact, miniature
from tests import strategies as draw
from tests.exact import Case, mapped, objects
from tests.miniature import nearest, term, total
from tests.scaling import examples
from tests.strategies import assert_same_bits

NAN, INF = math.nan, math.inf
DIGITS = 300
F32 = np.float32


def as_fraction(value: Any) -> Fraction:
    sign, mantissa, exponent, bits = value._mpf_
    if mantissa and exponent + bits < -5000:  # only its sign matters, and its digits would fill the memory
        mantissa, exponent = 1, -5000
    return Fraction((-1) ** sign * int(mantissa)) * Fraction(2) ** int(exponent)


def rounded(value: Any, scale: Any, dtype: Any) -> float | None:
    """The float nearest to a number known to DIGITS digits of ``scale``; None if that does not tell."""
    around = as_fraction(mpmath.mpf(scale)) / 10 ** (DIGITS - 20)
    exact_value = as_fraction(value)
    low, high = (str(nearest(v, dtype)) for v in (exact_value - around, exact_value + around))
    return float(low) if low == high else None


class MiniatureWindow:
    """One window, by the formula in the extended reals."""

    def __init__(self, beta: Any, values: list[float], padded: int) -> None:
        self.beta = Fraction(beta)
        self.values, self.padded = values, padded
        self.cells = values + [0.0] * padded
        self.exponents = [v if not math.isfinite(v) else self.beta * Fraction(v) for v in self.cells]
        if self.beta < 0:
            self.exponents = [-e if isinstance(e, float) else e for e in self.exponents]
        finite = [e for e in self.exponents if isinstance(e, Fraction)]
        self.top = max(finite, default=Fraction(0))
        self.infinite = INF in self.exponents
        self.empty = not finite and not self.infinite

    def scaled(self, exponent: Any) -> Any:
        """exp(exponent - top)"""
        if not isinstance(exponent, Fraction):
            return mpmath.mpf(0)
        difference = exponent - self.top
        return mpmath.exp(mpmath.mpf(difference.numerator) / difference.denominator)

    @property
    def sum(self) -> Any:
        return mpmath.fsum(self.scaled(e) for e in self.exponents)

    def value(self, dtype: Any) -> float | None:
        if len(self.cells) <= 1:
            return self.values[0] if self.values else 0.0
        if any(v != v for v in self.cells):
            return NAN
        sign = 1 if self.beta > 0 else -1
        if self.infinite or self.empty:
            return sign * (INF if self.infinite else -INF)
        others = [e for e in self.exponents if isinstance(e, Fraction)]
        others.remove(self.top)
        if not others:
            return nearest(self.top / self.beta, dtype) if self.top else 0.0
        excess = mpmath.log1p(mpmath.fsum(self.scaled(e) for e in others))
        value = (mpmath.mpf(self.top.numerator) / self.top.denominator + excess) / (
            mpmath.mpf(self.beta.numerator) / self.beta.denominator
        )
        return rounded(value, abs(value), dtype)

    def weight(self, index: int) -> Any:
        """NaN, 0.0, or a positive mpf."""
        if any(v != v for v in self.cells):
            return NAN
        if len(self.cells) == 1:
            return mpmath.mpf(1) if math.isfinite(self.values[0]) else NAN
        e = self.exponents[index]
        if self.infinite:
            return NAN if e == INF else 0.0
        if self.empty:
            return NAN
        return self.scaled(e) / self.sum if isinstance(e, Fraction) else 0.0


def weighted(weights: list[Any], factors: list[float], zeros: int, dtype: Any) -> float | None:
    """The rounded sum of weight * factor, ``zeros`` terms +0 among them; None where DIGITS do not tell."""
    classes = [w if isinstance(w, float) else 1.0 for w in weights]
    terms = [term(w, f) for w, f in zip(classes, factors, strict=True)] + [term(0.0)] * zeros
    if any(t.special is not None for t in terms) or all(t.value == 0 for t in terms):
        return total(terms, dtype)
    parts = [
        mpmath.mpf(0) if isinstance(w, float) else w * mpmath.mpf(f) for w, f in zip(weights, factors, strict=True)
    ]
    return rounded(mpmath.fsum(parts), mpmath.fsum(abs(p) for p in parts), dtype)


def agree(found: Any, expected: list[float | None], dtype: Any) -> None:
    """Bit for bit, wherever the second implementation knows."""
    flat = found.ravel()
    keep = [i for i, v in enumerate(expected) if v is not None]
    assert_same_bits(flat[keep], np.array([expected[i] for i in keep], np.float64).astype(dtype))


@examples(40)
@given(exact.smooth_pools, draw.float_dtypes, draw.seeds)
def test_floats_are_correctly_rounded(case: Case, dtype: Any, seed: int) -> None:
    rng, op, shape = np.random.default_rng(seed), case.op, case.shapes[0]
    assert shape is not None
    x, t, g = (draw.random_array(rng, s, dtype) for s in (shape, shape, case.output))
    count = math.prod(shape[: len(shape) - op.ndim])
    pool = miniature.Pool.of(op, shape[len(shape) - op.ndim :])
    output, jt = hu.spec.jvp(op, (x,), (t,))
    (pulled,) = hu.spec.vjp(op, (x,), g)
    xs, ts, gs = ([[float(v) for v in row] for row in a.reshape(count, -1)] if count else [] for a in (x, t, g))
    values: list[float | None] = []
    derivatives: list[float | None] = []
    back: list[float | None] = []
    with mpmath.workdps(DIGITS):
        for row, direction, cotangent in zip(xs, ts, gs, strict=True):
            parts: list[list[tuple[Any, float]]] = [[] for _ in row]
            for (cells, padded), c in zip(pool.windows, cotangent, strict=True):
                window = MiniatureWindow(op.beta, [row[i] for i in cells], padded)
                weights = [window.weight(k) for k in range(len(cells))]
                values.append(window.value(dtype))
                derivatives.append(weighted(weights, [direction[i] for i in cells], min(padded, len(cells)), dtype))
                for i, w in zip(cells, weights, strict=True):
                    parts[i].append((w, c))
            back += [weighted([w for w, _ in p], [c for _, c in p], 0, dtype) for p in parts]
    agree(output, values, dtype)
    agree(jt, derivatives, dtype)
    agree(pulled, back, dtype)


@examples(60)
@given(exact.smooth_pools, draw.seeds)
def test_between_the_maximum_and_the_maximum_plus_log_n_over_beta(case: Case, seed: int) -> None:
    """For beta > 0; for beta < 0 it is a smooth minimum, and the bounds are mirrored."""
    op, shape = case.op, case.shapes[0]
    assert shape is not None
    x = exact.rationals(np.random.default_rng(seed), shape)
    smooth = hu.spec.forward(op, mapped(arb, x)).ravel()
    beta = arb(fmpq(Fraction(op.beta).numerator, Fraction(op.beta).denominator))
    pool = miniature.Pool.of(op, shape[len(shape) - op.ndim :])
    count = math.prod(shape[: len(shape) - op.ndim])
    rows = x.reshape(count, -1) if count else []
    windows = [([row[i] for i in cells] + [fmpq(0)] * padded) for row in rows for cells, padded in pool.windows]
    for ball, cells in zip(smooth, windows, strict=True):
        if not cells:
            assert ball == 0
            continue
        edge = arb(max(cells) if beta > 0 else min(cells))
        reach = arb(len(cells)).log() / beta
        low, high = (edge, edge + reach) if beta > 0 else (edge + reach, edge)
        assert not ball < low
        assert not ball > high


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=9))
def test_it_tends_to_the_maximum_from_above(cells: list[int]) -> None:
    x = objects([arb(c) for c in cells], (len(cells),))
    before = None
    for exponent in range(0, 40, 4):
        beta = 2**exponent
        value = hu.spec.forward(hu.SmoothMaxPool((len(cells),), beta), x)[0]
        assert before is None or not value > before  # it falls as beta grows
        assert not value - max(cells) > arb(len(cells)).log() / beta
        before = value
    assert abs(before - max(cells)) < 1e-9


@examples(60)
@given(exact.smooth_pools, draw.seeds)
def test_adjointness_and_weights_over_balls(case: Case, seed: int) -> None:
    rng, op, shape = np.random.default_rng(seed), case.op, case.shapes[0]
    assert shape is not None
    x, t = (mapped(arb, exact.rationals(rng, shape)) for _ in range(2))
    g = mapped(arb, exact.rationals(rng, case.output))
    _, jt = hu.spec.jvp(op, (x,), (t,))
    (pulled,) = hu.spec.vjp(op, (x,), g)
    left = sum((a * b for a, b in zip(jt.ravel(), g.ravel(), strict=True)), arb(0))
    right = sum((a * b for a, b in zip(t.ravel(), pulled.ravel(), strict=True)), arb(0))
    assert left.overlaps(right)
    ones = mapped(lambda _: arb(1), x)
    # the weights of the real cells sum to 1 less the padding's share
    assert all(not p > 1 and not p < 0 for p in hu.spec.jvp(op, (x,), (ones,))[1].ravel())


@examples(60)
@given(exact.smooth_pools, draw.seeds)
def test_balls_agree_with_correctly_rounded_doubles(case: Case, seed: int) -> None:
    """Two programs: the formula over balls, and the enclosures that decide a rounding."""
    rng, op, shape = np.random.default_rng(seed), case.op, case.shapes[0]
    assert shape is not None
    x, t, g = (rng.integers(-20, 21, s) / 8 for s in (shape, shape, case.output))
    floats = (*hu.spec.jvp(op, (x,), (t,)), *hu.spec.vjp(op, (x,), g))
    bx, bt, bg = (mapped(arb, hu.exact(a)) for a in (x, t, g))
    enclosures = (*hu.spec.jvp(op, (bx,), (bt,)), *hu.spec.vjp(op, (bx,), bg))
    for rounded_values, outer in zip(floats, enclosures, strict=True):
        for v, ball in zip(rounded_values.ravel().tolist(), outer.ravel(), strict=True):
            assert ball.overlaps(arb(v, math.ulp(v) / 2))


def test_balls_enclose_what_their_points_give() -> None:
    rng = np.random.default_rng(5)
    op = hu.SmoothMaxPool((3,), 2.5, stride=1, padding=1)
    middle, tangent, cotangent = (rng.standard_normal(n) for n in (6, 6, 6))
    ball = objects([arb(m, 0.25) for m in middle], (6,))
    t, g = (objects([arb(v) for v in array], (6,)) for array in (tangent, cotangent))
    value, jt = hu.spec.jvp(op, (ball,), (t,))
    (pulled,) = hu.spec.vjp(op, (ball,), g)
    for _ in range(30):
        point = objects([arb(m + rng.uniform(-0.25, 0.25)) for m in middle], (6,))
        inside = (*hu.spec.jvp(op, (point,), (t,)), hu.spec.vjp(op, (point,), g)[0])
        for outer, inner in zip((value, jt, pulled), inside, strict=True):
            assert all(a.contains(b.mid()) for a, b in zip(outer, inner, strict=True))


def one(beta: Any, *cells: float, dtype: Any = F32) -> str:
    return str(hu.spec.forward(hu.SmoothMaxPool((len(cells),), beta), np.array(cells, dtype))[0])


@pytest.mark.parametrize(
    ("beta", "cells", "text"),
    [
        (1, (-0.0,), "-0.0"),
        (1, (NAN,), "nan"),
        (1, (-INF,), "-inf"),
        (1, (NAN, INF), "nan"),
        (1, (INF, -INF), "inf"),
        (1, (-INF, -INF), "-inf"),
        (1, (-INF, 0.1), "0.1"),  # a single term: that cell
        (-1, (INF, 0.1), "0.1"),
        (-1, (INF, INF), "inf"),
        (-1, (-INF, INF), "-inf"),
        (1, (3.4028235e38, 3.4028235e38), "3.4028235e+38"),
        (1e-38, (3.4028235e38, 3.4028235e38), "inf"),  # log(2) / beta carries it over
        (1, (0.0, -3e38), "0.0"),  # log(1 + exp(-3e38)) is positive and rounds to +0
        (-1, (0.0, 3e38), "-0.0"),
        (Fraction(1, 3), (0, 0), "2.0794415"),  # 3 * log(2)
    ],
)
def test_values_by_hand(beta: Any, cells: tuple[float, ...], text: str) -> None:
    assert one(beta, *cells) == text


def test_windows_in_the_padding() -> None:
    op = hu.SmoothMaxPool((1,), 1.0, padding=1)
    assert str(hu.spec.forward(op, np.array([-0.0]))) == "[ 0. -0.  0.]"
    assert hu.spec.jvp(op, (np.array([1.0]),), (np.array([5.0]),))[1].tolist() == [0, 5, 0]
    assert hu.spec.vjp(op, (np.array([1.0]),), np.array([7.0, 5.0, 7.0]))[0].tolist() == [5]
    two = hu.SmoothMaxPool((2,), 1.0, padding=2, stride=2)
    assert hu.spec.forward(two, np.array([0.0, 0.0])).tolist() == [math.log(2)] * 3
    empty = hu.SmoothMaxPool((2,), 1.0)
    assert hu.spec.forward(empty, np.zeros((0, 4))).shape == (0, 2)


def jvp_of(cells: list[float], tangents: list[float], beta: Any = 1) -> str:
    op = hu.SmoothMaxPool((len(cells),), beta)
    return str(hu.spec.jvp(op, (np.array(cells, F32),), (np.array(tangents, F32),))[1][0])


ULP = 2.0**-23


@pytest.mark.parametrize(
    ("cells", "tangents", "expected"),
    [
        ([3, 3], [1, 1 + ULP], 1.0),  # weights 1/2: an exact tie, to even
        ([3, 3], [1 + ULP, 1 + 2 * ULP], 1 + 2 * ULP),
        ([0, 0, 1, 1], [1, 1 + ULP, 1, 1 + ULP], 1.0),  # the same mean in every group of equal cells: rational
        ([0, 0, 1, 1], [1, 1 + ULP, 1, 1 + 2 * ULP], 1 + ULP),  # not rational, above the tie
        ([0, 0, 1], [1, -1, 0.0], 0.0),  # the terms cancel
        ([0, 1], [-0.0, -0.0], -0.0),
        ([0, -3e38], [0.0, -1.0], -0.0),  # exp(-3e38) * -1: negative, too small for a float
        ([0, -1000], [1, 0], 1.0),
        ([-INF, 0], [-1.0, -0.0], -0.0),  # weight +0
        ([-INF, 0], [INF, 1], NAN),  # 0 * inf
        ([INF, 0], [1, 1], NAN),  # inf / inf
        ([-INF, -INF], [1, 1], NAN),  # 0 / 0
        ([0, 1], [INF, 1], INF),
        ([0, 1], [INF, -INF], NAN),
    ],
)
def test_derivatives_by_hand(cells: list[float], tangents: list[float], expected: float) -> None:
    assert jvp_of(cells, tangents) == str(F32(expected))


def test_weights_that_add_up_to_a_rational() -> None:
    """The middle cell has the weights p and 1 - p in its two windows."""
    op, x = hu.SmoothMaxPool((2,), 1.0, stride=1), np.array([1, 0, -1], F32)
    for g in (1.0, 1 + ULP, 3e38, 2.0**-149):
        assert hu.spec.vjp(op, (x,), np.array([g, g], F32))[0][1] == F32(g)


@pytest.mark.parametrize(("first", "second", "expected"), [(1, ULP / 2, 1.0), (1 + ULP, ULP / 2, 1 + 2 * ULP)])
def test_an_even_tie_of_irrational_weights(first: float, second: float, expected: float) -> None:
    """Four windows meet in the middle with weights p, 1 - p, q, 1 - q: (p + 1 - p) * first + (q + 1 - q) * second."""
    op = hu.SmoothMaxPool((2, 2), 1.0, stride=1)
    x = np.array([[1, -INF, -1], [-INF, 0, -INF], [2, -INF, -2]], F32)
    g = np.array([[first, first], [second, second]], F32)
    assert hu.spec.vjp(op, (x,), g)[0][1, 1] == F32(expected)


@pytest.mark.parametrize("low", [-1000.0, -65000.0, -3e38])
def test_weights_that_fall_short_of_one_by_less_than_any_precision(low: float) -> None:
    """p = 1 - tiny for every window, so that the sum lies just below a tie, however far below."""
    op = hu.SmoothMaxPool((3, 3), 1.0, stride=1)
    x = np.linspace(1, 2, 25).reshape(5, 5) * low / 2
    x[2, 2] = 0
    g = np.full((3, 3), ULP / 16)
    g[0, 0] = 1 + ULP
    assert g.sum() == 1 + 1.5 * ULP  # a tie if every weight were 1: to even, upwards
    pulled = hu.spec.vjp(op, (x.astype(F32),), g.astype(F32))[0]
    assert pulled[2, 2] == F32(1 + ULP)
    down = hu.spec.vjp(op, (x.astype(F32),), -g.astype(F32))[0]
    assert down[2, 2] == -F32(1 + ULP)
