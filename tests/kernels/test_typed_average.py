"""Averages and sums into any element type, and over the cells that are numbers: kernels, specification, enumeration."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import halfulp as hu
from halfulp import _core, kernels
from tests import strategies as draw
from tests.scaling import examples
from tests.windows import attempt, enumerated, nearest

TARGETS = st.sampled_from(["same", "same", "same", *(d.name for d in (*draw.FLOATS, *draw.INTEGERS))])
EXTREMES = st.booleans()


def integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Integers of a type; every other array is made of its smallest and largest ones."""
    x = draw.random_array(rng, shape, dtype)
    if dtype.kind == "b" or rng.random() < 0.5:
        return x
    info = np.iinfo(dtype)
    ends = np.array([info.min, info.min + 1, info.max - 1, info.max], dtype)
    return np.where(rng.random(shape) < 0.9, rng.choice(ends, shape), x)


@st.composite
def averages(draw_: st.DrawFn, **more: Any) -> tuple[Any, tuple[int, ...]]:
    """An average or a sum with a dtype or a policy, and spatial sizes that fit it."""
    window = draw_(draw.windows(max_ndim=5, max_outputs=3, long_rows=False))
    ndim = len(window.spatial)
    kind = draw_(st.sampled_from(["avg", "avg", "sum", "adaptive", "global"]))
    if kind == "adaptive":
        sizes = draw_(st.lists(st.one_of(st.none(), st.integers(1, 4)), min_size=ndim, max_size=ndim))
        return hu.AdaptiveAvgPool(tuple(sizes), **more), window.spatial
    if kind == "global":
        return hu.GlobalAvgPool(ndim, keepdims=draw_(st.booleans()), **more), window.spatial
    if kind == "sum":
        return hu.SumPool(**window.arguments, **more), window.spatial
    divisor = draw_(st.sampled_from([None, None, None, 3, -2, 7, 2**40 + 1]))
    include = draw_(st.booleans())
    return hu.AvgPool(**window.arguments, count_include_pad=include, divisor_override=divisor, **more), window.spatial


@examples(settings.get_profile("default").max_examples // 2)
@given(averages(), TARGETS, draw.leading_axes, draw.integer_dtypes, draw.layouts, draw.seeds)
def test_integers_match_the_specification(
    average: Any, target: str, leading: tuple[int, ...], dtype: np.dtype[Any], layout: str, seed: int
) -> None:
    plain, spatial = average
    op = replace(plain, dtype=target)
    rng = np.random.default_rng(seed)
    x = integers(rng, leading[-2:] + spatial, dtype)
    expected, error = attempt(lambda: hu.spec.forward(op, x))
    if error is not None:
        assert error.label == "N2"
        with pytest.raises(hu.DTypeError, match=r"does not fit; give a dtype that holds it \[N2\]$"):
            op(draw.in_layout(x, layout))
        return
    draw.assert_same_bits(op(draw.in_layout(x, layout)), expected, f"{op} on {dtype} {x.shape} in {layout}")


@given(draw.windows(max_ndim=5, max_outputs=3), st.booleans(), draw.integer_dtypes, draw.seeds)
def test_means_are_those_of_python_s_integers(
    window: draw.Window, include: bool, dtype: np.dtype[Any], seed: int
) -> None:
    arguments = window.arguments | {"padding": 0 if isinstance(window.arguments["padding"], str) else 1}
    ops = [hu.AvgPool(**arguments, count_include_pad=include, dtype="same"), hu.SumPool(**arguments, dtype="int64")]
    x = integers(np.random.default_rng(seed), window.spatial, dtype)
    outputs, error = attempt(lambda: [ops[0](x), replace(ops[0], dtype="float64")(x)])
    if error is not None:
        assert error.label == "W5"
        return
    sums: list[int | None] = []
    for position, cells in enumerated(x, ops[0]):
        total = sum(int(value) for value in cells.values)
        n = len(cells.values) + (cells.padded if include else 0)
        mean = Fraction(total, n) if n else Fraction(0)
        assert outputs[0][position] == nearest(mean, dtype)
        assert outputs[1][position] == nearest(mean, np.dtype(float))
        sums.append(nearest(Fraction(total), np.dtype(np.int64)))
    if None in sums:
        with pytest.raises(hu.DTypeError, match=r"^sum_pool.*\[N2\]$"):
            ops[1](x)
    else:
        assert ops[1](x).ravel().tolist() == sums


@examples(settings.get_profile("default").max_examples // 2)
@given(averages(nan="ignore"), draw.leading_axes, draw.float_dtypes, draw.layouts, draw.seeds)
def test_averages_of_numbers_match_the_specification(
    average: Any, leading: tuple[int, ...], dtype: np.dtype[Any], layout: str, seed: int
) -> None:
    op, spatial = average
    rng = np.random.default_rng(seed)
    x = draw.random_array(rng, leading[-1:] + spatial, dtype)
    x = np.where(rng.random(x.shape) < rng.choice([0.0, 0.2, 0.8]), np.array(np.nan, dtype), x)
    t = draw.random_array(rng, x.shape, dtype)
    what = f"{op} on {dtype} {x.shape} in {layout}"
    given_x = draw.in_layout(x, layout)
    expected, tangent = hu.spec.jvp(op, (x,), (t,))
    draw.assert_same_bits(op(given_x), expected, what)
    for actual, wanted in zip(op.jvp((given_x,), (t,)), (expected, tangent), strict=True):
        draw.assert_same_bits(actual, wanted, f"jvp of {what}")
    g = draw.random_array(rng, expected.shape, dtype)
    output, pullback = op.vjp(given_x)
    draw.assert_same_bits(output, expected, what)
    draw.assert_same_bits(pullback(g)[0], hu.spec.vjp(op, (x,), g)[0], f"vjp of {what}")


@given(draw.windows(max_ndim=3, max_outputs=3), st.booleans(), draw.seeds)
def test_averages_of_numbers_are_those_of_fractions(window: draw.Window, include: bool, seed: int) -> None:
    arguments = window.arguments | {"padding": 0}
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(window.spatial)
    x[rng.random(x.shape) < 0.4] = np.nan
    op = hu.AvgPool(**arguments, count_include_pad=include, nan="ignore")
    outputs, error = attempt(lambda: (op(x), hu.SumPool(**arguments, nan="ignore")(x)))
    if error is not None:
        assert error.label == "W5"
        return
    for position, cells in enumerated(x, op):
        numbers = [Fraction(value) for value in cells.values if value == value]
        if cells.values and not numbers:
            assert np.isnan(outputs[0][position])
            assert np.isnan(outputs[1][position])
        else:
            total = sum(numbers, Fraction(0))
            assert outputs[0][position] == nearest(total / max(1, len(numbers)), np.dtype(float))
            assert outputs[1][position] == nearest(total, np.dtype(float))


@given(averages(), st.sampled_from(["propagate", "ignore"]), TARGETS, draw.float_dtypes, draw.seeds)
def test_floats_into_other_types_match_the_specification(
    average: Any, nan: str, target: str, dtype: np.dtype[Any], seed: int
) -> None:
    plain, spatial = average
    op = replace(plain, dtype=target, nan=nan)
    rng = np.random.default_rng(seed)
    x = draw.random_array(rng, spatial, dtype)
    if rng.random() < 0.5:  # halves, which round to even
        x = (rng.integers(-9, 9, spatial) / 4).astype(dtype)
    expected, error = attempt(lambda: hu.spec.forward(op, x))
    if error is not None:
        with pytest.raises(hu.DTypeError) as caught:
            op(x)
        assert str(caught.value) == str(error)
        return
    draw.assert_same_bits(op(x), expected, f"{op} on {dtype} {x.shape}")


@pytest.mark.usefixtures("restore")
@pytest.mark.parametrize("isa", _core.available_isas())
@pytest.mark.parametrize("dtype", draw.INTEGERS, ids=str)
def test_long_rows_on_every_instruction_set(isa: str, dtype: np.dtype[Any]) -> None:
    _core.set_isa(isa)
    rng = np.random.default_rng(5)
    x = integers(rng, (3, 6, 301), dtype)
    wide = x.astype(object)
    for kernel in ((2, 2), (1, 2), (2, 2, 2), (3, 3), (1, 5), (2, 1)):
        op = hu.AvgPool(kernel, dtype="same")
        cut = wide[..., : x.shape[-1] // kernel[-1] * kernel[-1]]
        sums = sum(
            cut[tuple(slice(i, None, k) for i, k in zip((0,) * (3 - len(kernel)) + offset, steps, strict=True))]
            for steps in [(1,) * (3 - len(kernel)) + kernel]
            for offset in np.ndindex(*kernel)
            if all(n % k == 0 for n, k in zip(cut.shape, steps, strict=True))
        )
        n = int(np.prod(kernel))
        if isinstance(sums, int):
            expected = hu.spec.forward(op, x)
        else:
            expected = np.array([round(Fraction(int(s), n)) for s in sums.ravel()], object).reshape(sums.shape)
            expected = expected.astype(dtype)
        for threads in (1, 3):
            kernels.set_num_threads(threads)
            draw.assert_same_bits(op(x), expected, f"{op} of {dtype} with {isa}")


@pytest.mark.parametrize("channels", [1, 3, 65])
def test_channels_that_are_not_pooled_lie_side_by_side(channels: int) -> None:
    x = np.random.default_rng(1).integers(0, 256, (6, 10, channels)).astype(np.uint8)
    last = hu.avg_pool(x, (2, 2, 1), dtype="same")
    draw.assert_same_bits(last, np.moveaxis(hu.avg_pool2d(np.moveaxis(x, 2, 0), 2, dtype="same"), 0, 2))
    draw.assert_same_bits(last, hu.spec.forward(hu.AvgPool((2, 2, 1), dtype="same"), x))


def test_examples_of_rounding() -> None:
    assert hu.avg_pool1d(np.array([0, 1, 1, 2, 2, 3], np.uint8), 2, dtype="same").tolist() == [0, 2, 2]
    assert hu.avg_pool1d(np.array([-1, 0, -2, -1], np.int8), 2, dtype="same").tolist() == [0, -2]
    assert hu.avg_pool1d(np.array([True, True, False]), 3, dtype="same").tolist() == [True]
    top = np.full(4, 2**64 - 1, np.uint64)
    assert hu.avg_pool1d(top, 4, dtype="same").tolist() == [2**64 - 1]
    assert hu.avg_pool1d(top - np.uint64(1), 2, dtype="same").tolist() == [2**64 - 2] * 2
    assert hu.global_avg_pool1d(np.array([1, 2], np.uint8), dtype="float32").tolist() == [1.5]
    assert hu.sum_pool2d(np.full((2, 2), 255, np.uint8), 2, dtype=np.uint16).tolist() == [[1020]]


def test_a_value_that_does_not_fit_n2() -> None:
    x = np.array([100, 27, 100, 28], np.int16)
    text = r"^sum_pool1d: dtype='int8': the value at \(1,\) does not fit; give a dtype that holds it \[N2\]$"
    for run in (hu.SumPool((2,), dtype="int8"), lambda x: hu.spec.forward(hu.SumPool((2,), dtype="int8"), x)):
        with pytest.raises(hu.DTypeError, match=text):
            run(x)
    with pytest.raises(hu.DTypeError, match=r"avg_pool1d: dtype='uint8': the value at \(0,\) does not fit.*\[N2\]"):
        hu.avg_pool1d(np.array([np.nan, 1.0]), 2, dtype="uint8")


def test_integers_without_a_dtype_are_told_of_it_i1() -> None:
    for op in (hu.AvgPool((2,)), hu.SumPool((2,)), hu.AdaptiveAvgPool((2,)), hu.GlobalAvgPool(1)):
        for run in (op, lambda x, op=op: hu.spec.forward(op, x)):
            with pytest.raises(hu.DTypeError, match=r"input dtype=uint8: .*astype, or give dtype='same'.* \[I1\]$"):
                run(np.zeros(4, np.uint8))


@pytest.mark.parametrize("dtype", ["complex64", "U3", "object", "(2", 7.5, "nothing"], ids=str)
def test_a_dtype_is_a_number_type_n1(dtype: Any) -> None:
    with pytest.raises(hu.DTypeError, match=r"^avg_pool1d: dtype=.*: must be None, 'same', or an integer.* \[N1\]$"):
        hu.AvgPool((2,), dtype=dtype)


def test_a_policy_is_one_of_three_p2() -> None:
    with pytest.raises(hu.PolicyError, match=r"^sum_pool1d: nan='skip': must be one of .* \[P2\]$"):
        hu.SumPool((2,), nan="skip")


def test_nan_is_named_under_raise_p3() -> None:
    x = np.array([1.0, np.nan, 2.0, 3.0], np.float32)
    op = hu.AvgPool((2,), nan="raise")
    text = r"^avg_pool1d: nan='raise': the input is NaN at \(1,\); it must have no NaN \[P3\]$"
    for run in (op, op.vjp, lambda x: op.jvp((x,), (x,)), lambda x: hu.spec.forward(op, x)):
        with pytest.raises(hu.PolicyError, match=text):
            run(x)
    assert op(x[2:]).tolist() == [2.5]


def test_derivatives_keep_the_element_type_n3() -> None:
    x = np.ones(4, np.float32)
    op = hu.AvgPool((2,), dtype="float64")
    assert op(x).dtype == np.float64
    text = r"^avg_pool1d: dtype='float64': a derivative has the element type of its input, float32; .* \[N3\]$"
    for run in (op.vjp, lambda x: op.jvp((x,), (x,)), lambda x: hu.spec.vjp(op, (x,), np.ones(2, np.float32))):
        with pytest.raises(hu.DTypeError, match=text):
            run(x)
    same = hu.AvgPool((2,), dtype="same")
    assert same.vjp(x)[1](np.ones(2, np.float32))[0].tolist() == [0.5] * 4
    with pytest.raises(hu.DTypeError, match=r"integers have no derivative.* \[I1\]"):
        same.vjp(np.ones(4, np.uint8))


def test_exact_numbers_are_rounded_into_a_dtype_n1() -> None:
    x = np.array([Fraction(1), Fraction(2), Fraction(4), Fraction(7)])
    assert hu.AvgPool((2,), dtype="same")(x).tolist() == [Fraction(3, 2), Fraction(11, 2)]
    draw.assert_same_bits(hu.AvgPool((2,), dtype="uint8")(x), np.array([2, 6], np.uint8))
    draw.assert_same_bits(hu.AvgPool((2,), dtype="float32")(x), np.array([1.5, 5.5], np.float32))
    with pytest.raises(hu.DTypeError, match=r"avg_pool1d: dtype='uint8': only rationals are rounded .* \[N1\]"):
        hu.AvgPool((2,), dtype="uint8")(np.array([0.5, 1.0], object))


def test_out_has_the_dtype_of_the_result() -> None:
    x = np.arange(16, dtype=np.uint8).reshape(4, 4)
    out = np.empty((2, 2), np.float32)
    assert hu.avg_pool2d(x, 2, dtype="float32", out=out) is out
    assert out.tolist() == [[2.5, 4.5], [10.5, 12.5]]
    with pytest.raises(hu.DTypeError, match=r"\[I6\]"):
        hu.avg_pool2d(x, 2, dtype="same", out=out)


def test_padding_counts_as_zeros_beside_nan() -> None:
    x = np.array([np.nan, np.nan])
    assert hu.avg_pool1d(x, 2, padding=1, nan="ignore").tolist() == [0.0, 0.0]
    assert np.isnan(hu.avg_pool1d(x, 2, padding=1, count_include_pad=False, nan="ignore")).all()
    assert hu.sum_pool1d(x, 2, padding=1, nan="ignore").tolist() == [0.0, 0.0]
    assert np.isnan(hu.sum_pool1d(x, 2, nan="ignore")).all()


def test_the_tape_follows_the_policy() -> None:
    x = np.array([1.0, np.nan, 3.0, 5.0])
    gradient = hu.grad(lambda x: hu.ops.sum(hu.avg_pool1d(x, 2, nan="ignore")))(x)
    assert gradient.tolist() == [1.0, 0.0, 0.5, 0.5]


@pytest.mark.usefixtures("restore")
@pytest.mark.parametrize("isa", _core.available_isas())
def test_pairs_of_floats_on_every_instruction_set(isa: str) -> None:
    _core.set_isa(isa)
    rng = np.random.default_rng(7)
    for record in (hu.AvgPool, hu.SumPool):
        for kernel in ((2,), (2, 2), (2, 2, 2), (4, 2)):
            for _ in range(4):
                x = draw.random_array(rng, (2, 4, 45), np.dtype(np.float32))
                x = np.where(rng.random(x.shape) < rng.choice([0.0, 0.1, 0.6]), np.float32(np.nan), x)
                op = record(kernel, nan="ignore")
                draw.assert_same_bits(op(x), hu.spec.forward(op, x), f"{op} with {isa}")


def test_a_mean_next_to_a_midpoint_of_bfloat16_is_rounded_once() -> None:
    """A double goes to bfloat16 by way of float32 in a plain cast, which would lose the last 2e-8 of this mean."""
    x = np.array([5.960464477539063e-08, 31520.0, 61600.0], np.float16)  # the mean is 31040 + 1/3 * 2**-24
    op = hu.AvgPool((3,), dtype="bfloat16")
    assert float(op(x)[0]) == 31104.0 == float(hu.spec.forward(op, x)[0])
    assert float(op(-x)[0]) == -31104.0
