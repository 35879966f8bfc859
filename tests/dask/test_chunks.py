"""The bits of a result do not depend on the chunks, for any operator, geometry and chunking."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
from tests.scaling import examples
from tests.strategies import assert_same_bits

DTYPES = ["float16", "float32", "float64"]


@st.composite
def chunked(draw: Any, shape: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Any chunks of a shape, empty ones too."""
    found = []
    for size in shape:
        ends = sorted(draw(st.lists(st.integers(0, size), max_size=4)))
        found.append(tuple(b - a for a, b in zip([0, *ends], [*ends, size], strict=True)))
    return tuple(found)


@st.composite
def windows(draw: Any, ndim: int, least: int = 1) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Arguments of a sliding window, and spatial sizes that it fits."""
    kernel = tuple(draw(st.integers(1, 4)) for _ in range(ndim))
    stride = tuple(draw(st.integers(1, 5)) for _ in range(ndim))
    dilation = tuple(draw(st.integers(1, 3)) for _ in range(ndim))
    pairs = tuple((draw(st.integers(0, 7)), draw(st.integers(0, 7))) for _ in range(ndim))
    padding = draw(st.sampled_from([0, pairs, pairs, "same", "same_lower"]))
    known = padding if isinstance(padding, tuple) else ((0, 0),) * ndim
    sizes = tuple(
        max(least, 0 if isinstance(padding, str) else d * (k - 1) + 1 - a - b) + draw(st.integers(0, 9))
        for k, d, (a, b) in zip(kernel, dilation, known, strict=True)
    )
    return {"kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation}, sizes


def values(seed: int, shape: tuple[int, ...], dtype: str) -> Any:
    """Numbers with ties, both zeros, and a few NaNs and infinities."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, shape).astype(dtype) * (1 + (rng.random(shape) < 0.3) * rng.random(shape)).astype(dtype)
    special = np.array([np.nan, np.inf, -np.inf, -0.0], dtype)
    where = rng.random(shape) < 0.03
    x[where] = special[rng.integers(0, 4, int(where.sum()))]
    return x


OPERATORS = {
    "max": lambda w, c: hu.MaxPool(**w, ceil_mode=c),
    "max ignoring NaN": lambda w, c: hu.MaxPool(**w, ceil_mode=c, ties="last", nan="ignore"),
    "min": lambda w, c: hu.MinPool(**w, ceil_mode=c),
    "mean": lambda w, c: hu.AvgPool(**w, ceil_mode=c),
    "mean of cells": lambda w, c: hu.AvgPool(**w, ceil_mode=c, count_include_pad=False),
    "sum": lambda w, c: hu.SumPool(**w, ceil_mode=c),
    "norm": lambda w, c: hu.LpPool(p=2, **w, ceil_mode=c),
    "mean of numbers": lambda w, c: hu.AvgPool(**w, ceil_mode=c, nan="ignore", dtype="float64"),
    "median": lambda w, c: hu.MedianPool(**w, ceil_mode=c),
    "mode": lambda w, c: hu.ModePool(**w, ceil_mode=c, nan="ignore"),
    "smooth": lambda w, c: hu.SmoothMaxPool(beta=1.5, **w, ceil_mode=c),
}


@pytest.mark.parametrize("name", OPERATORS)
@examples(16)
@given(st.data())
def test_windows(name: str, data: Any) -> None:
    ndim = data.draw(st.integers(1, 3))
    arguments, sizes = data.draw(windows(ndim))
    op = OPERATORS[name](arguments, data.draw(st.booleans()))
    shape = (*data.draw(st.sampled_from([(), (2,), (2, 3)])), *sizes)
    x = values(data.draw(st.integers(0, 1000)), shape, data.draw(st.sampled_from(DTYPES)))
    lazy = op(da.from_array(x, chunks=data.draw(chunked(shape))))
    expected = op(x)
    assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)
    assert_same_bits(lazy.compute(scheduler="sync"), expected)


@examples(30)
@given(st.data())
def test_indices(data: Any) -> None:
    ndim = data.draw(st.integers(1, 3))
    arguments, sizes = data.draw(windows(ndim))
    shape = (*data.draw(st.sampled_from([(), (2,)])), *sizes)
    x = values(data.draw(st.integers(0, 1000)), shape, "float32")
    found = hu.max_pool(da.from_array(x, chunks=data.draw(chunked(shape))), **arguments, return_indices=True)
    for lazy, expected in zip(found, hu.max_pool(x, **arguments, return_indices=True), strict=True):
        assert_same_bits(lazy.compute(scheduler="sync"), expected)


@examples(30)
@given(st.data())
def test_convolutions(data: Any) -> None:
    ndim, groups = data.draw(st.integers(1, 2)), data.draw(st.sampled_from([1, 2]))
    arguments, sizes = data.draw(windows(ndim))
    kernel = arguments.pop("kernel_size")
    op = hu.Conv(ndim, groups=groups, **arguments)
    shape = (*data.draw(st.sampled_from([(), (3,)])), 2 * groups, *sizes)
    assert_same_as_in_memory(data, op, shape, (2 * groups, 2, *kernel), 2 * groups)


@examples(30)
@given(st.data())
def test_transposed_convolutions(data: Any) -> None:
    ndim, groups = data.draw(st.integers(1, 2)), data.draw(st.sampled_from([1, 2]))
    kernel = tuple(data.draw(st.integers(1, 4)) for _ in range(ndim))
    stride, dilation = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 3))
    padding = tuple((data.draw(st.integers(0, 1)), data.draw(st.integers(0, 2))) for _ in range(ndim))
    extra = data.draw(st.integers(0, max(stride, dilation) - 1))
    op = hu.ConvTranspose(ndim, stride, padding, extra, dilation, groups)
    shape = (*data.draw(st.sampled_from([(), (3,)])), 2 * groups, *(data.draw(st.integers(3, 9)) for _ in range(ndim)))
    try:
        op.output_shape(shape, (2 * groups, 2, *kernel))
    except hu.ShapeError:
        return
    assert_same_as_in_memory(data, op, shape, (2 * groups, 2, *kernel), 2 * groups)


def assert_same_as_in_memory(data: Any, op: Any, shape: Any, weights: Any, channels: int) -> None:
    """A convolution of a chunked input with a weight and a bias in memory or chunked."""
    x, w = values(data.draw(st.integers(0, 1000)), shape, "float32"), values(7, weights, "float32")
    bias = data.draw(st.sampled_from([None, np.arange(1, channels + 1, dtype="float32")]))
    given_weight = data.draw(st.sampled_from([w, da.from_array(w, chunks=1)]))
    lazy = op(da.from_array(x, chunks=data.draw(chunked(shape))), given_weight, bias)
    expected = op(x, w, bias)
    assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)
    assert_same_bits(lazy.compute(scheduler="sync"), expected)


@examples(40)
@given(st.data())
def test_adaptive_and_global(data: Any) -> None:
    ndim = data.draw(st.integers(1, 2))
    shape = (*data.draw(st.sampled_from([(), (2,)])), *(data.draw(st.integers(1, 12)) for _ in range(ndim)))
    outputs = tuple(data.draw(st.sampled_from([1, 2, 3, 4, 6, None])) for _ in range(ndim))
    keep = data.draw(st.booleans())
    x = values(data.draw(st.integers(0, 1000)), shape, "float32")
    lazy = da.from_array(x, chunks=data.draw(chunked(shape)))
    for op in (
        hu.AdaptiveAvgPool(outputs),
        hu.AdaptiveMaxPool(outputs),
        hu.GlobalAvgPool(ndim, keep),
        hu.GlobalMaxPool(ndim, keep),
        hu.GlobalMinPool(ndim, keep),
        hu.GlobalLpPool(ndim, 2, keep),
    ):
        assert op(lazy).shape == op.output_shape(shape)
        assert_same_bits(op(lazy).compute(scheduler="sync"), op(x))


@examples(30)
@given(st.data())
def test_operators_that_need_whole_planes(data: Any) -> None:
    x = values(data.draw(st.integers(0, 1000)), (2, 3, 8, 6), "float32")
    lazy = da.from_array(x, chunks=data.draw(chunked(x.shape)))
    columns = hu.unfold(x, (2, 2))
    assert_same_bits(hu.unfold(lazy, (2, 2)).compute(scheduler="sync"), columns)
    folded = hu.fold(da.from_array(columns, chunks=data.draw(chunked(columns.shape))), (8, 6), (2, 2))
    assert_same_bits(folded.compute(scheduler="sync"), hu.fold(columns, (8, 6), (2, 2)))
    small, where = hu.max_pool2d(x, 2, return_indices=True)
    chunks = data.draw(chunked(small.shape))
    back = hu.max_unpool2d(da.from_array(small, chunks=chunks), where, 2)
    assert_same_bits(back.compute(scheduler="sync"), hu.max_unpool2d(small, where, 2))
    samples = np.random.default_rng(0).random((2, 3, 2))
    fractional = hu.fractional_max_pool2d(lazy, 2, 3, random_samples=samples)
    expected = hu.fractional_max_pool2d(x, 2, 3, random_samples=samples)
    assert_same_bits(fractional.compute(scheduler="sync"), expected)


def test_an_array_without_cells() -> None:
    x = np.zeros((0, 3, 4), "float32")
    assert_same_bits(hu.avg_pool2d(da.from_array(x, chunks=2), 2).compute(), hu.avg_pool2d(x, 2))
    x = np.zeros((2, 0), "float32")
    padded = hu.MaxPool((2,), padding=1)
    assert_same_bits(padded(da.from_array(x, chunks=(1, 1))).compute(), padded(x))


@examples(30)
@given(st.data())
def test_integers(data: Any) -> None:
    arguments, sizes = data.draw(windows(2))
    dtype = np.dtype(data.draw(st.sampled_from(["u1", "i2", "u8", "?"])))
    x = (
        np.random.default_rng(data.draw(st.integers(0, 99)))
        .integers(0, 2 if dtype.kind == "b" else 127, sizes)
        .astype(dtype)
    )
    lazy = da.from_array(x, chunks=data.draw(chunked(sizes)))
    for op in (
        hu.AvgPool(**arguments, dtype="same"),
        hu.AvgPool(**arguments, dtype="float32"),
        hu.SumPool(**arguments, dtype="int64"),
        hu.MaxPool(**arguments),
        hu.MedianPool(**arguments),
        hu.ModePool(**arguments),
    ):
        assert op(lazy).dtype == op(x).dtype
        assert_same_bits(op(lazy).compute(scheduler="sync"), op(x))
