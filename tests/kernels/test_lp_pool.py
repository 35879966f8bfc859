"""Power-mean pooling kernels against the specification, bit for bit, and both against numbers computed elsewhere."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
from halfulp import _core
from tests import strategies as draw
from tests.kernels.test_sum_pool import check_case

exponents = st.sampled_from([1, 2, 3, 4, 7, 1.5, 2.5, 1.0000001, Fraction(7, 3), 30, math.inf])


@given(
    draw.windows(max_ndim=3, max_outputs=3), draw.leading_axes, exponents, draw.float_dtypes, draw.layouts, draw.seeds
)
def test_sliding_windows_match_the_specification(
    window: draw.Window, leading: tuple[int, ...], p: Any, dtype: np.dtype[Any], layout: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    arguments = dict(window.arguments)
    op = hu.LpPool(arguments.pop("kernel_size"), p, **arguments)
    x = draw.random_array(rng, (*leading[:1], *window.spatial), dtype)
    if x.size <= 60:
        check_case(op, x, layout, rng)
    else:
        draw.assert_same_bits(op(draw.in_layout(x, layout)), hu.spec.forward(op, x))


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=3),
    draw.leading_axes,
    st.booleans(),
    exponents,
    draw.float_dtypes,
    draw.layouts,
    draw.seeds,
)
def test_global_windows_match_the_specification(
    spatial: list[int], leading: tuple[int, ...], keepdims: bool, p: Any, dtype: np.dtype[Any], layout: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    op = hu.GlobalLpPool(len(spatial), p, keepdims=keepdims)
    check_case(op, draw.random_array(rng, (*leading[:1], *spatial), dtype), layout, rng)


@given(st.sampled_from([2, 3, 5]), draw.float_dtypes, st.integers(1, 6), draw.seeds)
def test_values_lie_between_the_midpoints_around_them(p: int, dtype: np.dtype[Any], cells: int, seed: int) -> None:
    """y is right if the p-th powers of the middles between it and its neighbours enclose the sum, exactly."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(cells).astype(dtype)
    if seed % 3 == 0:
        x = rng.integers(-9, 10, cells).astype(dtype)  # sums that are powers, and ties
    (y,) = hu.LpPool((cells,), p)(x)
    total = sum(abs(Fraction(float(value))) ** p for value in x)
    up, down = (Fraction(float(np.nextafter(y, np.array(end, dtype)))) for end in (np.inf, -np.inf))
    middle = Fraction(float(y))
    assert max(Fraction(0), (middle + down) / 2) ** p <= total <= ((middle + up) / 2) ** p


@given(st.sampled_from([2, 3, 1.5, 4.25]), st.sampled_from(["f4", "f8"]), draw.seeds)
def test_derivatives_agree_with_mpmath(p: Any, dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, t, g = (rng.standard_normal(n).astype(dtype) for n in (5, 5, 3))
    op = hu.LpPool((3,), p, stride=1)
    with mpmath.workprec(400):
        xs, ts, gs = ([mpmath.mpf(float(v)) for v in a] for a in (x, t, g))
        norms = [sum(abs(v) ** mpmath.mpf(p) for v in xs[o : o + 3]) ** (1 / mpmath.mpf(p)) for o in range(3)]

        def weight(i: int, o: int) -> Any:
            return mpmath.sign(xs[i]) * (abs(xs[i]) / norms[o]) ** (mpmath.mpf(p) - 1)

        along = [sum(weight(i, o) * ts[i] for i in range(o, o + 3)) for o in range(3)]
        back = [sum(weight(i, o) * gs[o] for o in range(3) if o <= i < o + 3) for i in range(5)]
        expected = [hu.rounded([_fraction(v) for v in values], dtype) for values in (norms, along, back)]
    output, tangent = op.jvp((x,), (t,))
    draw.assert_same_bits(output, expected[0])
    draw.assert_same_bits(tangent, expected[1])
    draw.assert_same_bits(op.vjp(x)[1](g)[0], expected[2])


def _fraction(value: Any) -> Fraction:
    sign, mantissa, exponent, _ = value._mpf_
    return (-1) ** sign * int(mantissa) * Fraction(2) ** exponent


def test_numbers_on_a_boundary_of_rounding_are_decided() -> None:
    assert hu.LpPool((2,), 2)(np.array([3.0, 4.0])).tolist() == [5.0]
    assert hu.LpPool((3,), 3)(np.array([3.0, -4.0, 5.0])).tolist() == [6.0]
    assert hu.LpPool((8,), 1.5)(np.ones(8)).tolist() == [4.0]
    # 2^24 + 1 is half-way between two float32 numbers, and ties go to even
    triple = np.array([2 * 4096, 2**24 - 1], np.float32)
    assert Fraction(float(triple[0])) ** 2 + Fraction(float(triple[1])) ** 2 == (2**24 + 1) ** 2
    assert hu.LpPool((2,), 2)(triple).tolist() == [2.0**24]
    # the derivative is 3/5 + 4/5 * 2 + 0
    assert hu.LpPool((2,), 2).jvp((np.array([3.0, 4.0]),), (np.array([5.0, 10.0]),))[1].tolist() == [11.0]
    # two windows whose shares cancel exactly
    dx = hu.LpPool((2,), 2, stride=1).vjp(np.array([1.0, 2.0, 1.0]))[1](np.array([1.0, -1.0]))[0]
    assert dx[1] == 0
    assert not np.signbit(dx[1])


@pytest.mark.parametrize("dtype", draw.FLOATS, ids=str)
def test_powers_neither_overflow_nor_underflow(dtype: np.dtype[Any]) -> None:
    info = np.finfo(dtype) if dtype != draw.BFLOAT16 else __import__("ml_dtypes").finfo(dtype)
    for size in (info.max, info.smallest_subnormal):
        x = np.array([size, 0, -0.0], dtype)
        for p in (1, 2, 3, 2.5, 64, math.inf):
            assert hu.LpPool((3,), p)(x).tolist() == [float(size)]
    assert hu.LpPool((2,), 2)(np.array([info.max, info.max], dtype)).tolist() == [math.inf]


@pytest.mark.parametrize("p", [1, 2, 2.5, math.inf])
def test_infinities_and_nan(p: Any) -> None:
    op = hu.LpPool((2,), p)
    x = np.array([np.inf, 1.0, -np.inf, np.inf, np.nan, np.inf])
    assert np.array_equal(op(x), [np.inf, np.inf, np.nan], equal_nan=True)
    draw.assert_same_bits(op.vjp(x)[1](np.ones(3))[0], hu.spec.vjp(op, (x,), np.ones(3))[0])


@pytest.mark.parametrize("p", [1, 2, 3.5, math.inf])
def test_the_derivative_of_a_window_of_zeros_is_0(p: Any) -> None:
    output, pullback = hu.LpPool((2,), p).vjp(np.array([0.0, -0.0]))
    assert output.tolist() == [0.0]
    assert pullback(np.array([np.inf]))[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_do_not_change_the_result(threads: int) -> None:
    x = np.random.default_rng(3).standard_normal((3, 5, 60, 70)).astype(np.float32)
    op = hu.LpPool((3, 3), 2, stride=2, padding=1)
    hu.set_num_threads(threads)
    try:
        draw.assert_same_bits(op(x)[1:2, 1:2], hu.spec.forward(op, x[1:2, 1:2]))
    finally:
        hu.set_num_threads(0)


@pytest.mark.parametrize("isa", _core.available_isas())
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_sums_of_magnitudes_are_those_of_the_absolute_array(restore: None, isa: str, dtype: str) -> None:
    _core.set_isa(isa)
    rng = np.random.default_rng(7)
    cases: list[tuple[tuple[int, ...], tuple[int, ...], Any]] = [
        ((3, 2, 90, 70), (3, 3), 2),
        ((2, 1, 200, 40), (2, 5), 1),
        ((1, 20, 5000), (3, 2), 1),  # rows in several parts
        ((40, 300), (4,), 3),
        ((2, 6, 7), (6, 7), 1),  # whole planes
        ((2, 9, 10, 11), (2, 3, 2), 2),
    ]
    for shape, kernel, stride in cases:
        x = (rng.standard_normal(shape) * 2.0 ** rng.integers(-9, 9, shape)).astype(dtype)
        x.flat[::11] = -0.0
        ours = hu.LpPool(kernel, 1, stride=stride)(x)
        sums = hu.SumPool(kernel, stride=stride)(np.abs(x))
        assert ours.tobytes() == sums.tobytes()
        x.flat[x.size // 2] = -np.inf
        assert np.array_equal(hu.LpPool(kernel, 1, stride=stride)(x), hu.SumPool(kernel, stride=stride)(np.abs(x)))


@pytest.mark.parametrize("isa", _core.available_isas())
def test_small_windows_of_magnitudes_are_those_of_the_absolute_array(restore: None, isa: str) -> None:
    _core.set_isa(isa)
    x = np.random.default_rng(8).standard_normal((2, 1, 61, 83), dtype=np.float32)
    x[0, 0, ::7, ::5] = -0.0
    x[1, 0, 30, 40:42] = [-np.inf, -np.nan]  # a NaN ends the short way
    for kernel, stride, padding in [(3, 2, 1), (2, 2, 0), (3, 1, 1), (2, 1, 1)]:
        largest = hu.LpPool((kernel, kernel), math.inf, stride=stride, padding=padding)(x)
        assert largest.tobytes() == hu.MaxPool((kernel, kernel), stride=stride, padding=padding)(np.abs(x)).tobytes()
        negated = -hu.MaxPool((kernel, kernel), stride=stride, padding=padding)(-x)
        smallest = hu.MinPool((kernel, kernel), stride=stride, padding=padding)(x)
        assert np.array_equal(smallest, negated, equal_nan=True)
        assert np.array_equal(np.signbit(smallest), np.signbit(np.where(np.isnan(negated), 0, negated)))


@pytest.mark.parametrize("isa", _core.available_isas())
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_derivatives_of_the_largest_magnitude_plane_by_plane(restore: None, isa: str, dtype: Any) -> None:
    """Planes with one winner in every window are done at once; those with ties or NaN beside them are not."""
    _core.set_isa(isa)
    rng = np.random.default_rng(12)
    for kernel, options in [
        ((3, 3), {"stride": 2, "padding": 1}),
        ((2, 3), {"stride": 1, "dilation": (3, 2)}),
        ((4,), {"stride": 3, "padding": ((5, 7),)}),  # windows in the padding alone
        ((2, 2), {"ceil_mode": True}),
    ]:
        op = hu.LpPool(kernel, math.inf, **options)
        x = rng.standard_normal((6, 13, 21)).astype(dtype)
        x[1] = np.where(rng.random(x[1].shape) < 0.6, -0.0, x[1])  # zeros win nothing
        x[2, 3, 4:6] = [-9, 9]
        x[3, 5, 5] = np.nan
        x[4, 2, 2] = -np.inf
        t, g = (rng.standard_normal(op.output_shape(x.shape) if out else x.shape).astype(dtype) for out in (0, 1))
        t[:, ::2] = -0.0
        for scale in (np.zeros(g.shape), np.ones(g.shape), 2.0 ** rng.integers(-60, 60, g.shape)):
            cotangent = (g * scale).astype(dtype)  # zeros of both signs; sums that no double holds
            _core.reset_engine_counts()
            output, pullback = op.vjp(x)
            assert _core.engine_counts()["max_given"] >= 4
            draw.assert_same_bits(output, hu.spec.forward(op, x))
            draw.assert_same_bits(pullback(cotangent)[0], hu.spec.vjp(op, (x,), cotangent)[0])
        _core.reset_engine_counts()
        for ours, right in zip(op.jvp((x,), (t,)), hu.spec.jvp(op, (x,), (t,)), strict=True):
            draw.assert_same_bits(ours, right)
        assert _core.engine_counts()["max_given"] >= 4


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "keepdims"), [((8, 1), True), ((8, 5, 7), False), ((2, 4, 51, 83), True)])
def test_derivatives_of_the_largest_magnitude_of_whole_planes(
    restore: None, dtype: Any, shape: tuple[int, ...], keepdims: bool
) -> None:
    """As above; planes of more than one block, and ties within a block and between two."""
    rng = np.random.default_rng(13)
    op = hu.GlobalLpPool(min(2, len(shape) - 1), math.inf, keepdims=keepdims)
    x = rng.standard_normal(shape).astype(dtype)
    planes = x.reshape(8, -1)
    planes[1] = -0.0
    planes[2, -1] = -np.inf
    planes[3, [0, -1]] = [9, -9]
    planes[4, -3:] = 9
    planes[5, 0] = np.nan
    t, g = (rng.standard_normal(op.output_shape(shape) if out else shape).astype(dtype) for out in (0, 1))
    t.reshape(8, -1)[::2] = -0.0
    factors = (0.0, 1.0, np.inf) if x.size < 1000 else (1.0,)
    cotangents = [(g * factor).astype(dtype) for factor in factors]
    # The specification is slow: once for all instruction sets.
    value, tangent = hu.spec.jvp(op, (x,), (t,))
    pulled = [hu.spec.vjp(op, (x,), cotangent)[0] for cotangent in cotangents]
    draw.assert_same_bits(value, hu.spec.forward(op, x))
    for isa in _core.available_isas():
        _core.set_isa(isa)
        for cotangent, right in zip(cotangents, pulled, strict=True):
            _core.reset_engine_counts()
            output, pullback = op.vjp(x)
            assert _core.engine_counts()["max_given"] >= 4, isa
            draw.assert_same_bits(output, value)
            draw.assert_same_bits(pullback(cotangent)[0], right)
        for ours, right in zip(op.jvp((x,), (t,)), (value, tangent), strict=True):
            draw.assert_same_bits(ours, right)


def test_p_below_1_is_refused_l1() -> None:
    for p in (0.5, 0, -1, math.nan, True, "2", None):
        with pytest.raises(hu.PolicyError, match=r"^lp_pool1d: p=.*: must be a real number >= 1, or infinity \[L1\]$"):
            hu.LpPool((2,), p)


def test_an_irrational_norm_of_rationals_is_refused_l2() -> None:
    x = np.array([Fraction(3), Fraction(-4), Fraction(1), Fraction(1)], dtype=object)
    assert hu.LpPool((2,), 2)(x[:2]).tolist() == [5]
    text = r"^lp_pool1d: p=2 on scalars of kind Fraction: the result is not rational; give .* \[L2\]$"
    with pytest.raises(hu.DTypeError, match=text):
        hu.LpPool((2,), 2)(x)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_planes_without_cells_have_the_norm_zero(p: int, dtype: type) -> None:
    op, x = hu.GlobalLpPool(2, p), np.zeros((3, 4, 0), dtype)
    zeros = np.zeros((3, 1, 1), dtype)
    output, pullback = op.vjp(x)
    for found in (op(x), *op.jvp((x,), (x,)), output):
        draw.assert_same_bits(found, zeros)
    assert pullback(zeros)[0].shape == x.shape


@pytest.mark.parametrize("isa", _core.available_isas())
def test_negative_zero_cotangents_of_the_smallest_floats(restore: None, isa: str) -> None:
    """A product of a bound with the smallest float must not vanish: the sign of a zero would be taken for certain."""
    _core.set_isa(isa)
    op = hu.LpPool((2, 2), 2)
    x = np.array([[1, 2, -3, 0], [5, -1, 2, 4], [1, 0, 0, 0], [0, -1, 0, 0]], np.float32)[None, None]
    x *= np.float32(2.0**-149)
    g = np.full((1, 1, 2, 2), -0.0, np.float32)
    (pulled,) = op.vjp(x)[1](g)
    (expected,) = hu.spec.vjp(op, (x,), g)
    draw.assert_same_bits(pulled, expected)
