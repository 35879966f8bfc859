"""The smooth max kernels against the specification, bit for bit: values, JVP and VJP."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
from halfulp import _core
from halfulp.numbers import _fractions, flint
from tests import strategies as draw
from tests.scaling import examples

CASES = 3


def ordinary(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    return rng.normal(0, rng.choice([1e-3, 1, 30]), shape).astype(dtype)


def few_values(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Many equal cells: sums of exponentials with rational weights, and results on boundaries."""
    return rng.choice([-1.0, 0.0, -0.0, 1.0, 3.0], shape).astype(dtype)


def steep(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Cells so far apart that their exponentials differ by all the exponents there are."""
    return rng.choice([0.0, -709.0, -710.0, -744.5, -1e4, -1e4 - 1], shape).astype(dtype)


def extremes(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """The largest numbers of either sign: what is left when they cancel is small beside them."""
    return (float(draw.ml_dtypes.finfo(dtype).max) * rng.choice([1, -1, 0.5, -0.5], shape)).astype(dtype)


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    fills = (ordinary, ordinary, few_values, draw.random_array, steep, extremes)
    return fills[rng.integers(len(fills))](rng, shape, dtype)


def check_case(op: Any, x: Any, t: Any, rng: np.random.Generator) -> None:
    layout = str(rng.choice(draw.LAYOUTS))
    what = f"{op} on {x.dtype} {x.shape} in {layout}"
    given_x = draw.in_layout(x, layout)
    expected = hu.spec.forward(op, x)
    draw.assert_same_bits(op(given_x), expected, what)
    output, out_tangent = op.jvp((given_x,), (t,))
    draw.assert_same_bits(output, expected, f"jvp output of {what}")
    draw.assert_same_bits(out_tangent, hu.spec.jvp(op, (x,), (t,))[1], f"jvp of {what}")
    output, pullback = op.vjp(given_x)
    draw.assert_same_bits(output, expected, f"vjp output of {what}")
    g = values(rng, expected.shape, x.dtype)
    (dx,) = pullback(draw.in_layout(g, str(rng.choice(draw.LAYOUTS))))
    draw.assert_same_bits(dx, hu.spec.vjp(op, (x,), g)[0], f"vjp of {what}")


betas = st.one_of(
    st.sampled_from([1.0, -1.0, 0.5, 10.0, -3.0, 1e-3, 100.0, 1e-200, 1e200, 3, Fraction(1, 3), Fraction(-7, 5)]),
    st.floats(-20, 20).filter(lambda beta: abs(beta) > 1e-3),
)


@given(draw.windows(max_ndim=2, max_outputs=3), st.sampled_from([(), (2,), (1, 2)]), betas, draw.seeds)
def test_windows_match_the_specification(window: draw.Window, leading: tuple[int, ...], beta: Any, seed: int) -> None:
    op = hu.SmoothMaxPool(beta=beta, **window.arguments)
    rng = np.random.default_rng(seed)
    for _ in range(CASES):
        dtype = rng.choice(np.array(draw.FLOATS, dtype=object))
        shape = leading + window.spatial
        check_case(op, values(rng, shape, dtype), values(rng, shape, dtype), rng)


@st.composite
def cancelling_pullbacks(rnd: st.DrawFn) -> tuple[Any, Any, Any]:
    """Many overlapping windows under one high cell or a ramp, cotangents that add up to nothing: nothing is left of the
    leading terms, or of the terms after them."""
    rng = np.random.default_rng(rnd(draw.seeds))
    dtype = rnd(draw.float_dtypes)
    kernel = rnd(st.integers(2, 11))
    x = rng.standard_normal(2 * kernel - 1) if rnd(st.booleans()) else rng.integers(-2, 3, 2 * kernel - 1) * 1.0
    shape = rnd(st.sampled_from(["peak", "ramp", "plain"]))
    x[kernel - 1] = 5 if shape == "peak" else x[kernel - 1]
    x = np.arange(2 * kernel - 1) * 0.5 if shape == "ramp" else x
    beta = rnd(st.sampled_from([1.0, 10.0, 100.0, -100.0, 1e3, 1e4, -1e4]))
    op = hu.SmoothMaxPool((kernel,), beta, stride=1, padding=rnd(st.sampled_from([0, kernel // 2])))
    outputs = op.output_shape(x.shape)
    signs = np.resize([1.0, -1.0], outputs) if rnd(st.booleans()) else rng.choice([1.0, -1.0, 2.0, 0.0], outputs)
    return op, x.astype(dtype), signs.astype(dtype)


@examples(100)
@given(cancelling_pullbacks())
def test_pullbacks_that_cancel_match_the_specification(case: tuple[Any, Any, Any]) -> None:
    op, x, g = case
    draw.assert_same_bits(op.vjp(x)[1](g)[0], hu.spec.vjp(op, (x,), g)[0], f"{op} at {x} of {g}")


@pytest.mark.parametrize("seed", range(4))
def test_ten_windows_that_cancel_need_no_products_of_all_denominators(seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal(19, dtype="f4")
    x[9] = 5
    op, g = hu.SmoothMaxPool((10,), 1e3, stride=1), np.array([1, -1] * 5, "f4")
    draw.assert_same_bits(op.vjp(x)[1](g)[0], hu.spec.vjp(op, (x,), g)[0])


@examples(100)
@given(draw.seeds)
def test_the_side_of_a_sum_of_fractions_is_that_of_its_numerator(seed: int) -> None:
    rng = np.random.default_rng(seed)
    terms = {}
    for _ in range(int(rng.integers(1, 5))):
        exponents = sorted({flint.fmpq(int(n), 2) for n in rng.integers(-4, 5, int(rng.integers(1, 4)))})
        key = tuple((a, flint.fmpq(int(rng.integers(1, 3)))) for a in exponents)
        terms[key] = flint.fmpq(int(rng.choice([-2, -1, 1, 2])))
    boundary = flint.fmpq(int(rng.integers(-2, 3)), 2)

    expected = _sign_of_numerator(terms, boundary)
    assert _fractions.sign(list(terms.items()), boundary) == expected
    assert _fractions.is_zero(list(terms.items()), boundary) == (expected == 0)
    if expected:
        division = _fractions._Division(list(terms.items()), boundary)
        division.advance(50)
        with flint.ctx.workprec(512):
            ball = division.ball()
        assert (1 if ball > 0 else -1 if ball < 0 else 0) == expected


def _sign_of_numerator(terms: dict[Any, Any], boundary: Any) -> int:
    """The sign of sum(g / D) - boundary: of its product with all D, a polynomial in exp(1/2), by its coefficients."""
    denominators, factors = list(terms), list(terms.values())
    numerator: Counter[Any] = Counter()
    for left_out, factor in [*enumerate(factors), (None, -boundary)]:
        chosen = [key for i, key in enumerate(denominators) if i != left_out]
        for picked in product(*chosen):
            numerator[sum((a for a, _ in picked), flint.fmpq(0))] += factor * prod((c for _, c in picked), start=1)
    coefficients = {a: c for a, c in numerator.items() if c != 0}
    if not coefficients:  # exp(1/2) is transcendental
        return 0
    with flint.ctx.workprec(2000):
        value = sum((flint.arb(a).exp() * flint.arb(c) for a, c in coefficients.items()), flint.arb(0))
    assert value > 0 or value < 0
    return 1 if value > 0 else -1


@pytest.mark.parametrize(("low", "lower"), [(-709.0, -710.0), (-709.0, -709.5), (-700.0, -709.0), (-744.0, -746.0)])
@pytest.mark.parametrize("large", [1e308, 1e300, 1.7e308])
def test_large_numbers_that_nearly_cancel(low: float, lower: float, large: float) -> None:
    """The two weights of the middle cell differ by less than 2**-1000, and the cotangents are that large."""
    x, opposite = np.array([low, 0.0, lower]), np.array([large, -large])
    op = hu.SmoothMaxPool((2,), beta=1.0, stride=1)
    (dx,) = op.vjp(x)[1](opposite)
    draw.assert_same_bits(dx, hu.spec.vjp(op, (x,), opposite)[0])
    assert -large * 1e-300 < dx[1] < 0
    cells, t = np.array([low, 0.0, lower, 0.0]), np.array([large, large, -large, -large])
    both = hu.SmoothMaxPool((4,), beta=1.0)
    draw.assert_same_bits(both.jvp((cells,), (t,))[1], hu.spec.jvp(both, (cells,), (t,))[1])


@pytest.mark.parametrize("cotangent", [(-1, 1), (1, -1), (3, -3), (1, 1)])
def test_weights_that_no_precision_tells_apart(cotangent: tuple[int, int]) -> None:
    """Both are about exp(-2e28), and their difference exp(-4e28): which sign it has decides the sign of zero."""
    x = np.array([1e-15, 6e28, 1.35e-38], np.float32)
    op = hu.SmoothMaxPool((4,), beta=Fraction(1, 3), stride=2, padding=1, ceil_mode=True)
    g = np.array(cotangent, np.float32)
    (dx,) = op.vjp(x)[1](g)
    draw.assert_same_bits(dx, hu.spec.vjp(op, (x,), g)[0])
    assert np.signbit(dx[2]) == (cotangent[1] < 0)


@pytest.mark.parametrize("dtype", draw.FLOATS, ids=str)
@pytest.mark.parametrize("beta", [1.0, -2.5, 40.0])
def test_batches_of_windows_match_the_specification(dtype: Any, beta: float) -> None:
    rng = np.random.default_rng(7)
    op = hu.SmoothMaxPool((3, 3), beta, stride=1, padding=1)
    check_case(op, ordinary(rng, (2, 6, 7), dtype), ordinary(rng, (2, 6, 7), dtype), rng)


@pytest.mark.parametrize("dtype", draw.FLOATS, ids=str)
def test_nearly_all_outputs_are_decided_without_balls(dtype: Any) -> None:
    rng = np.random.default_rng(3)
    x, t = rng.normal(size=(2, 1, 60, 60)).astype(dtype)
    op = hu.kernels.smooth_max_pool.compiled(hu.SmoothMaxPool((3, 3), 2.0, stride=1))
    g = rng.normal(size=(1, 58, 58)).astype(dtype)
    for out, undecided in (*op.core.jvp(x, t), op.core.vjp(x, g)):
        assert undecided.size <= out.size // 500


@pytest.mark.parametrize("dtype", draw.FLOATS, ids=str)
def test_threads_and_instruction_sets_change_no_bit(dtype: Any) -> None:
    rng = np.random.default_rng(11)
    x = ordinary(rng, (3, 12, 20), dtype)
    op = hu.SmoothMaxPool((3, 3), 1.5, stride=2, padding=1)
    output, pullback = op.vjp(x)
    g = ordinary(rng, output.shape, dtype)
    (dx,) = pullback(g)
    chosen = _core.get_isa()
    try:
        for isa in _core.available_isas():
            _core.set_isa(isa)
            for threads in (1, 2, 8):
                hu.set_num_threads(threads)
                draw.assert_same_bits(op(x), output, f"{isa} {threads}")
                draw.assert_same_bits(pullback(g)[0], dx, f"{isa} {threads}")
    finally:
        hu.set_num_threads(0)
        _core.set_isa(chosen)


@pytest.mark.parametrize("dtype", draw.FLOATS, ids=str)
@pytest.mark.parametrize(("beta", "fill"), [(1.0, ordinary), (-2.0, draw.random_array)])
def test_a_large_plane_gives_the_bits_of_its_parts(dtype: Any, beta: float, fill: Any) -> None:
    """Cells share their exponentials, relative to the largest one of a band: no bit depends on what is in the band."""
    op = hu.SmoothMaxPool((3, 2), beta, stride=(1, 2))
    for seed in range(2):
        rng = np.random.default_rng(seed)
        x, t = fill(rng, (2, 102, 50), dtype)
        output, tangent = op.jvp((x,), (t,))
        draw.assert_same_bits(op(x), output)
        for start in range(0, 100, 20):
            part, along = op.jvp((x[start : start + 22],), (t[start : start + 22],))
            draw.assert_same_bits(part, output[start : start + 20])
            draw.assert_same_bits(along, tangent[start : start + 20])
        apart = hu.SmoothMaxPool((2, 2), beta)  # windows that do not overlap: planes come apart in the pullback as well
        g = fill(rng, (51, 25), dtype)
        (dx,) = apart.vjp(x)[1](g)
        for start in range(0, 102, 34):
            (rows,) = apart.vjp(x[start : start + 34])[1](g[start // 2 : start // 2 + 17])
            draw.assert_same_bits(rows, dx[start : start + 34])


@pytest.mark.parametrize("dtype", draw.FLOATS, ids=str)
@pytest.mark.parametrize(
    ("arguments", "shape"),
    [
        ({"kernel_size": (2, 2), "padding": 9, "stride": 7}, (2, 4)),  # mostly padding
        ({"kernel_size": (2, 2), "stride": 6}, (14, 9)),  # mostly gaps
        ({"kernel_size": (3, 3), "stride": 2, "padding": 1, "ceil_mode": True}, (6, 8)),  # cells beyond the padding
        ({"kernel_size": (2, 2, 2), "padding": 1, "dilation": 2}, (4, 3, 5)),
        ({"kernel_size": (5,), "stride": 3}, (40,)),
    ],
)
def test_shapes_of_blocks(dtype: Any, arguments: Any, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    op = hu.SmoothMaxPool(beta=1.25, **arguments)
    check_case(op, ordinary(rng, shape, dtype), ordinary(rng, shape, dtype), rng)


@pytest.mark.parametrize("dtype", draw.FLOATS, ids=str)
def test_masks_and_equal_cells_need_no_balls(dtype: Any) -> None:
    rng = np.random.default_rng(5)
    op = hu.SmoothMaxPool((2, 2), 1.0, stride=1)
    core = hu.kernels.smooth_max_pool.compiled(op).core
    g = rng.normal(size=(29, 29)).astype(dtype)
    equal = np.full((30, 30), 1.5, dtype)  # a quarter of the means of four cotangents lies on boundaries
    masked = np.where(np.arange(30) % 3 == 0, -np.inf, rng.normal(size=(30, 30))).astype(dtype)
    for x in (equal, masked):
        assert core.vjp(x, g)[1].size == 0
        (part,) = op.vjp(x[:6, :9])[1](g[:5, :8])
        draw.assert_same_bits(part, hu.spec.vjp(op, (x[:6, :9],), g[:5, :8])[0])


@pytest.mark.parametrize("dtype", draw.FLOATS, ids=str)
def test_cells_without_weight(dtype: Any) -> None:
    """Cells of -inf, and such that are too far below the others for any exponential, next to ordinary ones."""
    rng = np.random.default_rng(2)
    x = np.where(rng.random((7, 12)) < 0.4, rng.choice([-np.inf, -900.0, -350.0], (7, 12)), rng.normal(size=(7, 12)))
    op = hu.SmoothMaxPool((2, 3), 2.0, stride=1)
    check_case(op, x.astype(dtype), ordinary(rng, (7, 12), dtype), rng)


def test_weights_that_add_up_to_one_are_exact() -> None:
    # 1 / (1 + e^a) + 1 / (1 + e^-a) = 1: the middle cell of a ramp gets the mean of its windows' cotangents, exactly.
    x = np.array([0.0, 1.0, 2.0], np.float32)
    (dx,) = hu.SmoothMaxPool((2,), 1.0, stride=1).vjp(x)[1](np.array([3.0, 3.0], np.float32))
    assert dx[1] == 3.0


def test_a_result_on_a_boundary_goes_to_the_even_neighbour() -> None:
    x = np.zeros(2, np.float32)
    t = np.array([1.0, 1.0 + 2.0**-23], np.float32)
    assert hu.SmoothMaxPool((2,), 1.0).jvp((x,), (t,))[1].tolist() == [1.0]


def test_a_ball_for_beta_is_refused_for_floats_I2() -> None:
    with pytest.raises(hu.DTypeError, match=r"\[I2\]"):
        hu.SmoothMaxPool((2,), arb(1, 0.1))(np.zeros(2))
