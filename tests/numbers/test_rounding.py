"""Lifting and rounding against a second definition: the nearest of all floats, found by bisection over their bits."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import flint
import ml_dtypes
import numpy as np
import pytest
from flint import arb, fmpq
from hypothesis import example, given
from hypothesis import strategies as st

import halfulp as hu
from halfulp import numbers
from tests import strategies as draw

HALF_TYPES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
FINITE = "only finite numbers have an exact rational value [X1]"
FOUR = "must be float16, bfloat16, float32 or float64 [X2]"
BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def from_bits(bits: int, dtype: Any) -> float:
    return float(np.array([bits], BITS[dtype.itemsize]).view(dtype)[0])


def bits_of(value: Any, dtype: Any) -> int:
    return int(np.array([value], dtype).view(BITS[dtype.itemsize])[0])


def nearest(value: Fraction, dtype: Any) -> tuple[int, bool]:
    """(bits of the magnitude, negative): positive floats are ordered as their bits are, up to infinity."""
    magnitude, infinity = abs(value), bits_of(math.inf, dtype)

    def number(bits: int) -> Fraction:
        """The float; for infinity, the number that would follow the largest float."""
        if bits < infinity:
            return Fraction(from_bits(bits, dtype))
        largest, before = Fraction(from_bits(infinity - 1, dtype)), Fraction(from_bits(infinity - 2, dtype))
        return 2 * largest - before

    low, high = 0, infinity
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if number(middle) <= magnitude else (low, middle)
    twice = number(low) + number(high)
    up = 2 * magnitude > twice or (2 * magnitude == twice and low % 2 == 1)
    return (high if up else low), value < 0


def check(value: Fraction, dtype: Any) -> None:
    (found,) = hu.rounded([value], dtype)
    magnitude, negative = nearest(value, dtype)
    sign = 1 << (8 * dtype.itemsize - 1)
    assert bits_of(found, dtype) == magnitude + sign * negative, f"{value} to {dtype}: {found}"


def scaled(mantissa: int, exponent: int) -> Fraction:
    return Fraction(mantissa) * (Fraction(2) ** exponent)


@given(st.sampled_from(draw.FLOATS), st.integers(-(2**80), 2**80), st.integers(-1300, 1000), st.integers(1, 10**6))
@example(np.dtype(np.float32), -1, -151, 1)
@example(np.dtype(np.float32), 1, -150, 1)
@example(np.dtype(np.float32), 3, -150, 1)
@example(np.dtype(np.float64), 2**53 - 1, 971, 1)
@example(np.dtype(np.float64), 2**54 - 1, 970, 1)
@example(np.dtype(np.float16), 65520, 0, 1)
@example(np.dtype(np.float16), 65519, 0, 1)
def test_rounding_of_any_rational(dtype: Any, mantissa: int, exponent: int, denominator: int) -> None:
    check(scaled(mantissa, exponent) / denominator, dtype)


@given(st.sampled_from(draw.FLOATS), st.data())
def test_rounding_at_and_beside_every_kind_of_tie(dtype: Any, data: Any) -> None:
    bits = data.draw(st.integers(0, bits_of(math.inf, dtype) - 2))
    middle = (Fraction(from_bits(bits, dtype)) + Fraction(from_bits(bits + 1, dtype))) / 2
    for value in (middle, middle + scaled(1, -1400), middle - scaled(1, -1400)):
        check(value, dtype)
        check(-value, dtype)


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_every_half_is_a_fixed_point(dtype: Any) -> None:
    every = np.arange(2**16, dtype=np.uint16).view(dtype)
    doubles = numbers.as_doubles(every)
    finite = every[np.isfinite(doubles)]
    back = hu.rounded(hu.exact(finite), dtype)
    keep = finite != 0  # rationals have one zero
    assert np.array_equal(back[keep].view(np.uint16), finite[keep].view(np.uint16))
    lifted, is_nan = hu.rounded(numbers.lift(every), dtype), np.isnan(doubles)
    assert np.array_equal(lifted[~is_nan].view(np.uint16), every[~is_nan].view(np.uint16))
    assert np.isnan(numbers.as_doubles(lifted[is_nan])).all()


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_exact_lifts_without_loss(value: float) -> None:
    (lifted,) = hu.exact([value])
    assert (int(lifted.p), int(lifted.q)) == value.as_integer_ratio()
    assert float(hu.rounded([lifted], np.float64)[0]) == value


@given(st.sampled_from(draw.FLOATS), draw.seeds)
def test_exact_of_every_dtype_and_layout(dtype: Any, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((2, 3)).astype(dtype)
    for layout in draw.LAYOUTS:
        lifted = hu.exact(draw.in_layout(x, layout))
        assert lifted.shape == x.shape
        assert [Fraction(int(v.p), int(v.q)) for v in lifted.ravel()] == [Fraction(float(v)) for v in x.ravel()]


def test_exact_of_integers_and_objects() -> None:
    assert hu.exact(np.array([2**63], np.uint64))[0] == fmpq(2**63)
    assert hu.exact([Fraction(1, 3), 2, fmpq(1, 7), np.int8(-3), 0.5, flint.fmpz(9)]).tolist() == [
        fmpq(1, 3),
        fmpq(2),
        fmpq(1, 7),
        fmpq(-3),
        fmpq(1, 2),
        fmpq(9),
    ]
    assert hu.exact(np.zeros((2, 0))).shape == (2, 0)
    assert hu.exact(3.5)[()] == fmpq(7, 2)


def test_rounded_of_every_kind() -> None:
    third = hu.rounded([Fraction(1, 3), fmpq(1, 3), arb(fmpq(1, 3))], np.float32)
    assert third.tolist() == [float(np.float32(1 / 3))] * 3
    special = hu.rounded([math.inf, -math.inf, -0.0, math.nan, np.float32(-0.0)], "bfloat16")
    assert str(special.tolist()) == "[inf, -inf, -0.0, nan, -0.0]"
    assert hu.rounded(fmpq(1, 2), "float16").shape == ()
    assert hu.rounded([[1, 2], [3, 4]], ">f4").dtype == np.dtype(np.float32)
    extended = [numbers.Extended.of(v) for v in (-0.0, math.inf, 0.25)]
    assert str(hu.rounded(extended, np.float64).tolist()) == "[-0.0, inf, 0.25]"


@given(st.sampled_from(draw.FLOATS), st.fractions(), st.integers(2, 400))
def test_a_ball_rounds_as_all_its_numbers_do_or_not_at_all(dtype: Any, value: Fraction, bits: int) -> None:
    target = numbers.float_format(dtype)
    radius = Fraction(1, 2**bits)
    before = flint.ctx.prec
    try:
        flint.ctx.prec = 2000
        ball = arb(fmpq(value.numerator, value.denominator), arb(2) ** -bits)
    finally:
        flint.ctx.prec = before
    result = numbers.round_ball(ball, target)
    ends = {str(hu.rounded([v], dtype)[0]) for v in (value - radius, value, value + radius)}
    if result is not None:
        assert ends == {str(np.array(result).astype(dtype))}
    elif len(ends) == 1:  # undecided only where an end is too near a boundary for the working precision
        assert not ball.is_exact()


def test_an_exact_ball_is_rounded_whatever_the_working_precision() -> None:
    before = flint.ctx.prec
    try:
        flint.ctx.prec = 200
        tie = 1 + arb(2) ** -53  # halfway between 1 and the float that follows
        above = tie + arb(2) ** -150
    finally:
        flint.ctx.prec = before
    assert hu.rounded([tie, above], np.float64).tolist() == [1.0, 1 + 2**-52]


def test_a_ball_across_zero_is_not_decided() -> None:
    target = numbers.float_format("float32")
    assert numbers.round_ball(arb(0, arb(2) ** -300), target) is None
    assert numbers.round_ball(arb("nan"), target) is None
    assert math.copysign(1, numbers.round_ball(-(arb(2) ** -300), target) or 1) == 1
    assert str(numbers.round_ball(-(arb(2) ** -300), target)) == "-0.0"
    assert numbers.round_ball(arb(2) ** (10**9), target) == math.inf


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: hu.exact(np.array([1.0, np.inf])),
            f"exact: value inf at (1,): {FINITE}",
        ),
        (
            lambda: hu.exact(np.array([[np.nan]])),
            f"exact: value nan at (0, 0): {FINITE}",
        ),
        (lambda: hu.exact([1, "a"]), "exact: dtype=<U21: must be a float or integer array [I1]"),
        (
            lambda: hu.exact(np.array([arb(1)])),
            f"exact: value=1.00000000000000: {FINITE}",
        ),
        (lambda: hu.exact(np.array([True])), "exact: dtype=bool: must be a float or integer array [I1]"),
        (lambda: hu.exact(np.array([1j])), "exact: dtype=complex128: must be a float or integer array [I1]"),
        (lambda: hu.rounded([1], "int8"), f"rounded: dtype='int8': {FOUR}"),
        (
            lambda: hu.rounded([1], "float128x"),
            f"rounded: dtype='float128x': {FOUR}",
        ),
        (
            lambda: hu.rounded([arb(1, 0.5)], np.float32),
            f"rounded: value={arb(1, 0.5)}: the ball is too wide to decide the rounding; raise flint.ctx.prec [X3]",
        ),
    ],
)
def test_refusals(call: Any, text: str) -> None:
    with pytest.raises(hu.DTypeError) as caught:
        call()
    assert str(caught.value) == text


def test_formats() -> None:
    for name, format in numbers.FORMATS.items():
        info = ml_dtypes.finfo(format.dtype)
        assert numbers.float_format(name) is numbers.float_format(format.dtype) is format
        assert (format.precision, format.emin, format.emax) == (info.nmant + 1, info.minexp, info.maxexp - 1)
        assert 2.0**format.quantum == float(info.smallest_subnormal)
        assert numbers.is_float(format.dtype)
    assert numbers.is_float(np.dtype(">f8"))
    assert not numbers.is_float(np.dtype("int32"))
