"""The same bits whatever the thread count, the batch split, the layout and the instruction set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
from halfulp import _core
from tests import strategies as draw

OPERATORS = [
    hu.MaxPool((3, 3), stride=2, padding=1),
    hu.MaxPool((2, 2)),
    hu.MaxPool((3, 3), stride=1, padding=1, ties="last"),
    hu.MaxPool((3, 5), stride=(3, 1), padding=((0, 2), (2, 0)), ceil_mode=True),
    hu.MaxPool((2, 3), stride=1, dilation=(3, 2), nan="ignore"),
    hu.MaxPool((13, 13), stride=1, padding=6),
    hu.MaxPool((17, 31), stride=(2, 3), padding=(8, 15)),
    hu.MaxPool((3, 3), stride=2, ties="all"),
    hu.MaxPool((3, 3), stride=2, ties="split"),
    hu.MaxPool((3,), stride=2, padding=1),
    hu.MaxPool((2, 3, 3), stride=2, padding=1),
    hu.AdaptiveMaxPool((5, 7)),
    hu.AdaptiveMaxPool((2, 3, 4)),
    hu.GlobalMaxPool(2),
    hu.GlobalMaxPool(1, ties="first"),
]
DTYPES = [np.dtype("float32"), np.dtype("float64"), np.dtype("float16"), draw.BFLOAT16, np.dtype("int8")]


@contextmanager
def isa(name: str) -> Iterator[None]:
    before = _core.get_isa()
    _core.set_isa(name)
    try:
        yield
    finally:
        _core.set_isa(before)


@contextmanager
def threads(count: int) -> Iterator[None]:
    hu.set_num_threads(count)
    try:
        yield
    finally:
        hu.set_num_threads(0)


def inputs(dtype: np.dtype[Any], shape: tuple[int, ...] = (2, 2, 3, 19, 37)) -> list[Any]:
    """One array per kind of values: ordinary, ties, zeros of both signs, wide, special, sprinkled with special ones."""
    if dtype.kind in "iub":
        return [draw.random_array(np.random.default_rng(seed), shape, dtype) for seed in range(2)]
    return [fill(np.random.default_rng(1), shape, dtype).astype(dtype) for fill in draw._FILLS]


def everything(op: Any, x: Any) -> list[Any]:
    """Value, indices, tangent and cotangent."""
    output, indices = hu.kernels.forward_with_indices(op, x)
    results = [op(x), output, indices]
    if x.dtype.kind in "iub":
        return results
    results += op.jvp((x,), (x[..., ::-1],))
    output, pullback = op.vjp(x)
    cotangent = draw.random_array(np.random.default_rng(2), output.shape, x.dtype)
    return [*results, output, *pullback(cotangent)]


def assert_all_same(actual: list[Any], expected: list[Any], what: str) -> None:
    assert len(actual) == len(expected)
    for number, (a, b) in enumerate(zip(actual, expected, strict=True)):
        draw.assert_same_bits(a, b, f"{what}, result {number}")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("op", OPERATORS, ids=str)
def test_instruction_sets_agree(op: Any, dtype: np.dtype[Any]) -> None:
    for x in inputs(dtype):
        with isa("baseline"):
            expected = everything(op, x)
        for name in _core.available_isas()[1:]:
            with isa(name):
                assert_all_same(everything(op, x), expected, f"{op} on {name}")


def test_all_compiled_instruction_sets_are_tried_here() -> None:
    assert _core.available_isas()[0] == "baseline"
    assert _core.get_isa() == _core.available_isas()[-1]
    with pytest.raises(ValueError, match="no such instruction set"):
        _core.set_isa("mmx")


@pytest.mark.parametrize("op", OPERATORS, ids=str)
def test_threads_agree(op: Any) -> None:
    for shape in ((1, 1, 1, 67, 301), (2, 3, 4, 21, 41)):
        for x in inputs(np.dtype("float32"), shape)[::3]:
            with threads(1):
                expected = everything(op, x)
            for count in (2, 8):
                with threads(count):
                    assert_all_same(everything(op, x), expected, f"{op} with {count} threads")


@pytest.mark.parametrize("op", OPERATORS, ids=str)
def test_a_batch_is_its_items(op: Any) -> None:
    x = inputs(np.dtype("float32"))[-1]
    whole = everything(op, x)
    for i in range(x.shape[0]):
        part = op(x[i])
        draw.assert_same_bits(part, whole[0][i], f"{op}, item {i}")
        draw.assert_same_bits(op.jvp((x[i],), (x[i, ..., ::-1],))[1], whole[4][i], f"{op}, tangent of item {i}")


@pytest.mark.parametrize("width", [97, 112])
@pytest.mark.parametrize("op", OPERATORS[:4], ids=str)
def test_an_array_larger_than_the_caches_is_its_items(op: Any, width: int) -> None:
    """Such arrays are written past the caches, a way of their own."""
    x = np.random.default_rng(3).choice(
        np.float32([-1, -0.0, 0.0, 2, 7.5]), ((1 << 25) // (97 * width * 4) + 1, 97, width)
    )
    assert x.nbytes >= 1 << 25
    output, pullback = op.vjp(x)
    draw.assert_same_bits(op(x), output, str(op))
    cotangent = np.random.default_rng(4).standard_normal(output.shape, np.float32)
    (dx,) = pullback(cotangent)
    tangent = x[::-1]
    pushed = op.jvp((x,), (tangent,))
    draw.assert_same_bits(pushed[0], output, f"{op}, beside a tangent")
    for begin in range(0, len(x), 100):
        part, pull_part = op.vjp(x[begin : begin + 100])
        draw.assert_same_bits(output[begin : begin + 100], part, f"{op} from item {begin}")
        pushed_part = op.jvp((x[begin : begin + 100],), (tangent[begin : begin + 100],))
        draw.assert_same_bits(pushed[1][begin : begin + 100], pushed_part[1], f"{op}, tangent from item {begin}")
        draw.assert_same_bits(
            dx[begin : begin + 100], pull_part(cotangent[begin : begin + 100])[0], f"{op}, cotangent from item {begin}"
        )


@pytest.mark.parametrize("name", _core.available_isas())
def test_large_views_whose_rows_are_one_or_reversed(name: str) -> None:
    """Rows of large arrays are asked for early, in the direction in which they lie."""
    op = hu.MaxPool((2, 2))
    plane = np.random.default_rng(5).standard_normal((360, 400), dtype=np.float32)
    with isa(name):
        same = op(np.broadcast_to(plane[0], (64, 360, 400)))
        assert np.array_equal(same, np.broadcast_to(op(plane[:1].repeat(2, axis=0)), same.shape))
        reversed_rows = op(np.broadcast_to(plane[::-1], (64, 360, 400)))
        assert np.array_equal(reversed_rows, np.broadcast_to(op(plane[::-1].copy()), reversed_rows.shape))


@pytest.mark.parametrize("layout", draw.LAYOUTS)
@pytest.mark.parametrize("op", OPERATORS, ids=str)
def test_layouts_agree(op: Any, layout: str) -> None:
    for x in inputs(np.dtype("float32"), (2, 20, 3, 17, 19))[::2]:
        expected = everything(op, x)
        assert_all_same(everything(op, draw.in_layout(x, layout)), expected, f"{op} in {layout}")


def test_outputs_keep_the_order_of_axes() -> None:
    x = draw.in_layout(inputs(np.dtype("float32"), (2, 20, 18, 19))[0], "channels_last")
    op = hu.MaxPool((3, 3), stride=2, padding=1)
    output, pullback = op.vjp(x)
    assert output.strides == (9 * 10 * 20 * 4, 4, 10 * 20 * 4, 20 * 4)
    (dx,) = pullback(output)
    assert dx.strides == x.strides
    assert op(x[:, ::2]).flags.c_contiguous
    assert not np.shares_memory(output, x)


@given(draw.windows(max_ndim=3), draw.ties, draw.nan_policies, st.sampled_from([16, 33, 64, 70]), draw.seeds)
def test_many_interleaved_channels_are_their_planes(
    window: draw.Window, ties: str, nan: str, channels: int, seed: int
) -> None:
    """Values of whole vectors of channels have a way of their own."""
    op = hu.MaxPool(**window.arguments, ties=ties, nan=nan)
    rng = np.random.default_rng(seed)
    for dtype in (*draw.FLOATS, *draw.INTEGERS):
        x = draw.random_array(rng, (2, channels, *window.spatial), dtype)
        interleaved = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
        draw.assert_same_bits(op(interleaved), op(x), f"{op} on {x.dtype} {x.shape}")


@pytest.mark.parametrize("name", _core.available_isas())
@pytest.mark.parametrize("channels", [16, 24, 64])
def test_rows_of_interleaved_channels_are_their_planes(name: str, channels: int) -> None:
    """Windows that share at most one row are read row by row, until a NaN comes."""
    rng = np.random.default_rng(channels)
    ops = [
        hu.MaxPool((3, 3), stride=2, padding=1),
        hu.MaxPool((3, 3), stride=2, padding=1, ceil_mode=True, nan="ignore"),
        hu.MaxPool((2, 2)),
        hu.MaxPool((3, 2), stride=(4, 1), padding=(1, 0), dilation=(1, 3)),
        hu.MaxPool((1, 3), stride=(1, 2), padding=(0, 1)),
        hu.MinPool((3, 3), stride=2, padding=1),
    ]
    with isa(name):
        for special in (-0.0, np.inf, -np.inf, np.nan):
            for op, shape in ((op, (2, channels, *size)) for op in ops for size in ((9, 12), (2, 8), (12, 7))):
                x = rng.integers(-1, 2, shape).astype(np.float32)
                x[rng.random(shape) < (0.002 if np.isnan(special) else 0.4)] = special
                if special == 0:
                    x = -np.abs(x)
                expected = op(x)
                interleaved = draw.in_layout(x, "channels_last")
                draw.assert_same_bits(op(interleaved), expected, f"{op} {shape} {special}")


@pytest.mark.parametrize("name", _core.available_isas())
def test_large_interleaved_planes_that_hold_a_nan(name: str) -> None:
    x = np.random.default_rng(1).standard_normal((12, 64, 112, 112), np.float32)
    x[1, 3, 50, 7] = x[7, 60, 111, 111] = np.nan
    op = hu.MaxPool((3, 3), stride=2, padding=1)
    with isa(name):
        draw.assert_same_bits(op(draw.in_layout(x, "channels_last")), op(x), str(op))
