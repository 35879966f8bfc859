"""The average kernels against the specification, bit for bit: values, JVP and VJP.

An example draws a structure and tries it on a batch of element types, layouts and values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
from halfulp import _core
from tests import strategies as draw


def near_ties(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Small multiples of neighbouring numbers: many windows have a mean on or next to a rounding boundary."""
    step = float(np.asarray(1, dtype)) * 2.0 ** -int(draw.ml_dtypes.finfo(dtype).nmant)
    values = 1 + step * rng.integers(-2, 3, shape)
    return (values * 2.0 ** rng.integers(-2, 2)).astype(dtype)


def near_limits(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Numbers at one end of the exponent range: sums overflow at the last addition, quotients become subnormal."""
    info = draw.ml_dtypes.finfo(dtype)
    if rng.random() < 0.5:
        return (float(info.max) * rng.choice([1, 1, -1, 0.5], shape)).astype(dtype)
    return (float(info.smallest_subnormal) * rng.integers(-40, 41, shape)).astype(dtype)


def cancelling(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Large numbers of both signs among small ones."""
    large = float(np.asarray(2.0 ** rng.integers(4, 15), dtype))
    return np.where(rng.random(shape) < 0.5, rng.choice([large, -large], shape), rng.normal(0, 1e-3, shape)).astype(
        dtype
    )


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Ordinary and special values, or some that are hard for sums."""
    fills = (near_ties, near_limits, cancelling)
    if rng.random() < 0.5:
        return draw.random_array(rng, shape, dtype)
    return fills[rng.integers(len(fills))](rng, shape, dtype)


def check(op: Any, shape: tuple[int, ...], seed: int, cases: int = 12) -> None:
    """A batch of inputs of this shape, every dtype and layout in turn."""
    rng = np.random.default_rng(seed)
    for _ in range(cases):
        dtype = rng.choice(np.array(draw.FLOATS, dtype=object))
        check_case(op, values(rng, shape, dtype), rng)


def check_case(op: Any, x: Any, rng: np.random.Generator) -> None:
    layout, tangent_layout, cotangent_layout = (str(rng.choice(draw.LAYOUTS)) for _ in range(3))
    what = f"{op} on {x.dtype} {x.shape} in {layout}"
    given_x = draw.in_layout(x, layout)
    expected = hu.spec.forward(op, x)
    draw.assert_same_bits(op(given_x), expected, what)
    tangent = values(rng, x.shape, x.dtype)
    output, out_tangent = op.jvp((given_x,), (draw.in_layout(tangent, tangent_layout),))
    draw.assert_same_bits(output, expected, f"jvp output of {what}")
    draw.assert_same_bits(out_tangent, hu.spec.jvp(op, (x,), (tangent,))[1], f"jvp of {what}")
    output, pullback = op.vjp(given_x)
    draw.assert_same_bits(output, expected, f"vjp output of {what}")
    cotangent = values(rng, expected.shape, x.dtype)
    (dx,) = pullback(draw.in_layout(cotangent, cotangent_layout))
    draw.assert_same_bits(dx, hu.spec.vjp(op, (x,), cotangent)[0], f"vjp of {what} in {cotangent_layout}")


divisors = st.one_of(st.none(), st.integers(-12, 12).filter(bool), st.sampled_from([2**53 + 1, -(2**62) - 3, 2**50]))


@given(draw.windows(max_ndim=5), draw.leading_axes, st.booleans(), divisors, draw.seeds)
def test_sliding_windows_match_the_specification(
    window: draw.Window, leading: tuple[int, ...], include: bool, divisor: int | None, seed: int
) -> None:
    op = hu.AvgPool(**window.arguments, count_include_pad=include, divisor_override=divisor)
    check(op, leading + window.spatial, seed, cases=24)


@given(draw.windows(max_ndim=2, max_outputs=3, long_rows=True), st.booleans(), divisors, draw.seeds)
def test_long_rows_match_the_specification(window: draw.Window, include: bool, divisor: int | None, seed: int) -> None:
    op = hu.AvgPool(**window.arguments, count_include_pad=include, divisor_override=divisor)
    check(op, (1, *window.spatial), seed, cases=6)


@given(
    st.lists(st.tuples(st.integers(0, 8), st.one_of(st.none(), st.integers(1, 9))), min_size=1, max_size=3),
    draw.leading_axes,
    draw.seeds,
)
def test_adaptive_bins_match_the_specification(
    axes: list[tuple[int, int | None]], leading: tuple[int, ...], seed: int
) -> None:
    check(hu.AdaptiveAvgPool(tuple(size for _, size in axes)), leading + tuple(size for size, _ in axes), seed)


@given(st.lists(st.integers(0, 7), min_size=1, max_size=3), draw.leading_axes, st.booleans(), draw.seeds)
def test_global_windows_match_the_specification(
    spatial: list[int], leading: tuple[int, ...], keepdims: bool, seed: int
) -> None:
    check(hu.GlobalAvgPool(len(spatial), keepdims=keepdims), leading + tuple(spatial), seed)


@given(
    st.tuples(st.integers(4, 120), st.integers(8, 90), st.integers(0, 50), st.integers(0, 50)),
    st.booleans(),
    st.sampled_from(draw.FLOATS),
    draw.seeds,
)
def test_wide_windows_match_the_specification(
    axis: tuple[int, int, int, int], include: bool, dtype: Any, seed: int
) -> None:
    """One apart: these are made from sums of eight neighbours, and of as many of those."""
    size, kernel, before, after = axis
    kernel = min(kernel, size + before + after)
    op = hu.AvgPool((1, kernel), stride=1, padding=((0, 0), (before, after)), count_include_pad=include)
    rng = np.random.default_rng(seed)
    fill = draw.random_array if rng.random() < 0.5 else near_ties
    check_case(op, fill(rng, (3, size), dtype), rng)


def uneven(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Ordinary numbers and a few far smaller ones: not every sum is a float64, but most can be rounded all the same."""
    return (rng.normal(size=shape) * np.where(rng.random(shape) < 0.01, 2.0**-28, 1)).astype(dtype)


@given(
    st.tuples(st.integers(3, 14), st.integers(-1, 4), st.integers(1, 3), st.integers(0, 2)),
    st.tuples(st.integers(1, 40), st.integers(1, 30), st.integers(14, 250), st.integers(0, 3)),
    st.booleans(),
    st.booleans(),
    draw.seeds,
)
def test_windows_of_many_rows_match_the_specification(
    rows: tuple[int, int, int, int], columns: tuple[int, int, int, int], adaptive: bool, include: bool, seed: int
) -> None:
    """Windows that share few rows or none: these are added in registers, with one look at each row."""
    kernel, shared, lines, above = rows
    wide, step, width, before = columns
    wide = min(wide, width)
    stride = max(1, kernel - shared)
    height = kernel + (lines - 1) * stride
    op: Any = hu.AdaptiveAvgPool((lines, max(1, width // step)))
    if not adaptive:
        padding = (min(above, kernel // 2), min(before, wide // 2))
        op = hu.AvgPool((kernel, wide), stride=(stride, step), padding=padding, count_include_pad=include)
    rng = np.random.default_rng(seed)
    fill = (uneven, draw.random_array, near_ties, cancelling)[rng.integers(4)]
    dtype = np.dtype(np.float32) if rng.random() < 0.7 else rng.choice(np.array(draw.FLOATS, dtype=object))
    check_case(op, fill(rng, (height, width), dtype), rng)


def zeros(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Zeros of both signs, mostly negative ones, and a few other numbers that cancel."""
    return rng.choice([-0.0, -0.0, -0.0, -0.0, -0.0, 0.0, 1.0, -1.0], shape, p=[0.18] * 5 + [0.06, 0.02, 0.02]).astype(
        dtype
    )


@given(
    st.tuples(st.integers(1, 3), st.integers(2, 3), st.integers(1, 3), st.integers(1, 9), st.integers(2, 90)),
    st.tuples(st.integers(0, 1), st.integers(0, 1)),
    st.booleans(),
    draw.seeds,
)
def test_small_windows_two_apart_match_the_specification(
    sizes: tuple[int, int, int, int, int], padding: tuple[int, int], include: bool, seed: int
) -> None:
    """These come straight from the source, those of float64 in sums that start at a large number."""
    tall, wide, down, height, width = sizes
    tall, wide = min(tall, height), min(wide, width)
    padding = (min(padding[0], tall // 2), min(padding[1], wide // 2))
    op = hu.AvgPool((tall, wide), stride=(down, 2), padding=padding, count_include_pad=include)
    rng = np.random.default_rng(seed)
    for dtype in (np.dtype(np.float64), rng.choice(np.array(draw.FLOATS, dtype=object))):
        fill = (zeros, uneven, draw.random_array, near_ties, near_limits, cancelling)[rng.integers(6)]
        check_case(op, fill(rng, (height, width), dtype), rng)


def beside_midpoints(rng: np.random.Generator, rows: int, columns: int) -> Any:
    """Windows of 500 planes: a midpoint between two floats times their cells, give or take the last bit of a double."""
    x = np.zeros((500, rows, columns), np.float32)
    cells = rows * columns
    midpoint = 2 * rng.integers(2**23, 2**24, 500) + 1
    step = 2 ** (int(cells * 2**25).bit_length() - 23)
    high = cells * midpoint // step * step
    exponent = np.floor(np.log2(float(cells) * midpoint))
    x[:, 0, 0], x[:, 1, 1] = high, cells * midpoint - high
    x[:, rows - 1, columns - 1] = np.where(rng.random(500) < 0.5, -1.0, 1.0) * 2.0 ** (exponent - 52)
    return x


def test_sums_of_53_bits_beside_a_midpoint() -> None:
    """These are exact, with no bit to spare for the quotient."""
    rng = np.random.default_rng(5)
    x = beside_midpoints(rng, 3, 3)
    check_case(hu.AvgPool((3, 3), stride=2), x, rng)
    check_case(hu.AvgPool((3, 3), stride=1), np.tile(x, 7), rng)
    for rows, columns in ((3, 8), (9, 16), (3, 24)):
        check_case(hu.AdaptiveAvgPool((1, 3)), np.tile(beside_midpoints(rng, rows, columns), 3), rng)
    check_case(hu.GlobalAvgPool(2), beside_midpoints(rng, 24, 24), rng)


@given(st.integers(1, 5), st.sampled_from([4, 8, 16, 24, 40]), st.integers(1, 3), st.booleans(), draw.seeds)
def test_windows_that_share_nothing_match_the_specification(
    tall: int, wide: int, windows: int, padded: bool, seed: int
) -> None:
    """Whole vectors of neighbours in each window, some after padding; also one window over a plane."""
    rng = np.random.default_rng(seed)
    shape = (2 * tall, windows * wide + (8 if padded else 0))
    op = hu.AvgPool((tall, wide), stride=(tall, wide + 8 * int(rng.integers(2))), padding=(tall // 2 * int(padded), 0))
    plane = (int(rng.integers(1, 40)), int(rng.integers(30, 60)))
    for _ in range(2):
        fill = (zeros, uneven, draw.random_array, near_ties, near_limits, cancelling)[rng.integers(6)]
        check_case(op, fill(rng, shape, np.dtype(np.float32)), rng)
        check_case(hu.GlobalAvgPool(2), fill(rng, plane, np.dtype(np.float32)), rng)


@given(
    st.integers(2, 3),
    st.integers(4, 11),
    st.integers(6, 40),
    st.sampled_from([1, 1, 1, 2, 3]),
    st.integers(1, 2),
    st.tuples(st.integers(0, 2), st.integers(0, 1)),
    st.booleans(),
    st.sampled_from([None, 1, 7]),
    draw.seeds,
)
def test_square_windows_one_apart_match_the_specification(
    side: int,
    height: int,
    width: int,
    down: int,
    dilation: int,
    padding: tuple[int, int],
    include: bool,
    divisor: int | None,
    seed: int,
) -> None:
    """Rows of sums serve all lines that they belong to, which are one row apart, or more."""
    dilations = (dilation if height > dilation * (side - 1) else 1, 1)
    op = hu.AvgPool(
        (side, side),
        stride=(down, 1),
        padding=padding,
        dilation=dilations,
        count_include_pad=include,
        divisor_override=divisor,
    )
    rng = np.random.default_rng(seed)
    fill = (zeros, uneven, draw.random_array, near_ties, near_limits, cancelling)[rng.integers(6)]
    check_case(op, fill(rng, (height, width), np.dtype(np.float32)), rng)


LARGE = [
    (hu.AvgPool((3, 3), stride=2, padding=1), (2, 11, 70)),
    (hu.AvgPool((9, 17), stride=1, padding=4), (1, 17, 43)),
    (hu.AvgPool((2, 2)), (2, 8, 64)),
    (hu.AvgPool((3, 3), stride=(1, 3), padding=1, count_include_pad=False), (2, 9, 60)),
    (hu.AvgPool((11,), stride=2, padding=5, dilation=2), (2, 150)),
    (hu.AvgPool((5, 3, 5), stride=(1, 2, 1), padding=2, count_include_pad=False), (7, 6, 20)),
    (hu.AvgPool((3,), stride=2, padding=1), (3, 2, 45)),
    (hu.AvgPool((13, 11), stride=1, padding=5), (1, 16, 33)),
    (hu.AvgPool((3, 2, 3), stride=2, padding=1), (5, 4, 35)),
    (hu.AdaptiveAvgPool((5, 7)), (2, 11, 45)),
    (hu.AdaptiveAvgPool((4, 4)), (4, 16, 16)),
    (hu.AdaptiveAvgPool((3, 5)), (2, 9, 80)),
    (hu.AvgPool((3, 3), stride=1, padding=1), (2, 9, 60)),
    (hu.AvgPool((2, 2), stride=1), (2, 5, 45)),
    (hu.GlobalAvgPool(2), (3, 21, 51)),
    (hu.GlobalAvgPool(2), (2, 5, 40)),
]


@pytest.mark.parametrize(("op", "shape"), LARGE, ids=lambda value: str(value))
@pytest.mark.parametrize("dtype", draw.FLOATS, ids=str)
def test_rows_long_enough_for_vectors_match_the_specification(op: Any, shape: tuple[int, ...], dtype: Any) -> None:
    rng = np.random.default_rng(len(shape) + shape[-1])
    for fill in (near_ties, cancelling, near_limits, draw._sprinkled):
        check_case(op, fill(rng, shape, dtype), rng)


@pytest.fixture
def any_isa() -> Iterator[list[str]]:
    chosen = _core.get_isa()
    yield _core.available_isas()
    _core.set_isa(chosen)


@pytest.mark.parametrize(("op", "shape"), LARGE, ids=lambda value: str(value))
@pytest.mark.parametrize("dtype", draw.FLOATS, ids=str)
def test_threads_instruction_sets_batches_and_layouts_change_no_bit(
    op: Any, shape: tuple[int, ...], dtype: Any, any_isa: list[str]
) -> None:
    rng = np.random.default_rng(shape[-1])
    x = draw._sprinkled(rng, (2, *shape), dtype)
    output, pullback = op.vjp(x)
    g = draw._sprinkled(rng, output.shape, dtype)
    (dx,) = pullback(g)
    for isa in any_isa:
        _core.set_isa(isa)
        for threads in (1, 2, 8):
            hu.set_num_threads(threads)
            draw.assert_same_bits(op(x), output, f"{isa} {threads}")
            draw.assert_same_bits(pullback(g)[0], dx, f"{isa} {threads}")
        hu.set_num_threads(0)
        draw.assert_same_bits(op(draw.in_layout(x, "fortran")), output, isa)
        draw.assert_same_bits(np.stack([op(x[0]), op(x[1])]), output, isa)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("dtype", draw.FLOATS, ids=str)
def test_outputs_past_the_caches_have_the_same_bits(dtype: Any, channels_last: bool, any_isa: list[str]) -> None:
    """Large outputs are written another way: one call on a large batch against calls on its parts."""
    rng = np.random.default_rng(11)
    shape = (6, 440 // np.dtype(dtype).itemsize, 131, 99)
    x = rng.standard_normal((1, 5, *shape[2:]), dtype=np.float32).astype(dtype)
    x[0, 1, 60, 40] = 1e30 if np.dtype(dtype).itemsize > 2 else 6e4
    x[0, 2, 3] = np.where(rng.random(99) < 0.5, -0.0, 0.0).astype(dtype)
    x = np.tile(x, (shape[0], shape[1] // 5, 1, 1))
    if channels_last:
        x = np.ascontiguousarray(np.moveaxis(x, 1, -1)).transpose(0, 3, 1, 2)
    for op in (hu.AvgPool((3, 3), stride=1, padding=1), hu.AvgPool((2, 3), stride=(1, 2), padding=1)):
        for isa in any_isa:
            _core.set_isa(isa)
            output, pullback = op.vjp(x)
            (dx,) = pullback(output)
            for n in range(0, shape[0], 2):
                part, part_pullback = op.vjp(x[n : n + 1])
                draw.assert_same_bits(output[n : n + 1], part, isa)
                draw.assert_same_bits(dx[n : n + 1], part_pullback(part)[0], isa)


def test_windows_with_too_many_sizes_for_a_common_denominator_are_exact() -> None:
    op = hu.AvgPool((41,), stride=1, padding=20, count_include_pad=False)
    rng = np.random.default_rng(5)
    for dtype in draw.FLOATS:
        x = rng.standard_normal((2, 50)).astype(dtype)
        for g in (rng.standard_normal((2, 50)), rng.choice([0.0, -0.0, 1.0, -1.0], (2, 50)), np.full((2, 50), np.inf)):
            cotangent = g.astype(dtype)
            draw.assert_same_bits(op.vjp(x)[1](cotangent)[0], hu.spec.vjp(op, (x,), cotangent)[0])


def test_the_exact_pullback_of_swapped_bytes_is_native() -> None:
    op = hu.AvgPool((1, 38), padding=((0, 0), (0, 15)), stride=1, count_include_pad=False)
    x = np.arange(39, dtype=np.float16).reshape(1, 39)
    output, pullback = op.vjp(x)
    (dx,) = pullback(output.astype(">f2"))
    draw.assert_same_bits(dx, hu.spec.vjp(op, (x,), output)[0], "swapped bytes")


def test_an_average_keeps_the_sign_of_negative_zeros_only_if_all_are() -> None:
    x = np.array([-0.0, -0.0, 0.0, -0.0], np.float32)
    assert np.signbit(hu.AvgPool((2,), stride=1)(x)).tolist() == [True, False, False]
    assert not np.signbit(hu.AvgPool((2,), stride=2, padding=1)(-np.zeros(2, np.float32))).any()


def test_padding_is_counted_where_the_last_windows_reach_beyond_it() -> None:
    # The windows' cells are -2 1, 0 3, 2 5 and 4 7: of the last two, one meets the padding and one reaches over it.
    op = hu.AvgPool((2,), stride=2, padding=2, dilation=3, ceil_mode=True)
    assert np.signbit(op(-np.zeros(5, np.float32))).tolist() == [False, True, False, True]


def test_integers_are_refused_by_name_of_astype_I1() -> None:
    with pytest.raises(hu.DTypeError, match=r"avg_pool1d: input dtype=int64: .*astype.* \[I1\]"):
        hu.AvgPool((2,))(np.arange(4))


def test_a_tangent_of_another_type_is_refused_I4() -> None:
    x = np.zeros(4)
    with pytest.raises(hu.DTypeError, match=r"\[I4\]"):
        hu.AvgPool((2,)).jvp((x,), (x.astype(np.float32),))


def test_a_cotangent_of_another_shape_is_refused_I5() -> None:
    _, pullback = hu.AvgPool((2,)).vjp(np.zeros(4))
    with pytest.raises(hu.ShapeError, match=r"\[I5\]"):
        pullback(np.zeros(3))


@pytest.mark.parametrize(
    ("shape", "kernel", "padding"),
    [((3, 16, 160, 1280), (3, 3, 3), (1, 1, 1)), ((5, 16, 100, 1100), (2, 2, 2), (0, 0, 0))],
)
def test_streamed_lines_that_share_slabs(
    shape: tuple[int, ...], kernel: tuple[int, ...], padding: tuple[int, ...]
) -> None:
    # 32 MB and more: outputs go past the caches, a few indices of the first axis at a time. Sums of integers are exact
    # in any order.
    x = np.random.default_rng(3).integers(-99, 100, shape).astype(np.float32)
    padded = np.pad(x.astype(np.float64), [(0, 0), *((p, p) for p in padding)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel, axis=(1, 2, 3))[:, ::2, ::2, ::2]
    before = _core.engine_counts()
    output = hu.AvgPool(kernel, stride=2, padding=padding)(x)
    after = _core.engine_counts()
    assert after["average_fast"] > before["average_fast"]
    assert after["average_careful"] == before["average_careful"]
    draw.assert_same_bits(output, (windows.sum((4, 5, 6)) / np.prod(kernel)).astype(np.float32), "streamed")
