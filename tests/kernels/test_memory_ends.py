"""Kernels beside memory that may not be touched: arrays that begin or end at a protected page."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import halfulp as hu
from halfulp import _core
from tests.strategies import assert_same_bits

PAGE = mmap.PAGESIZE
ROOM = 32 * PAGE
WIDTHS = (*range(2, 20), 31, 32, 33, 63, 64, 65, 66, 127, 130, 259)
FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)


class Guarded:
    """Arrays in memory between two protected pages, each of them until eight more have been made."""

    def __init__(self, at_end: bool) -> None:
        self.at_end = at_end
        self.regions = [mmap.mmap(-1, ROOM + 2 * PAGE) for _ in range(8)]
        self.rng = np.random.default_rng(3)
        protect = ctypes.CDLL(None).mprotect
        for region in self.regions:
            base = ctypes.addressof(ctypes.c_char.from_buffer(region))
            for page in (base, base + PAGE + ROOM):
                assert protect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), 0) == 0

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        self.regions.append(self.regions.pop(0))
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        offset = PAGE + (ROOM - size if self.at_end else 0)
        return np.frombuffer(self.regions[-1], np.uint8, size, offset).view(dtype).reshape(shape)

    def integers(self, shape: tuple[int, ...], dtype: Any) -> Any:
        x, info = self.empty(shape, dtype), np.iinfo(dtype)
        x[...] = self.rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
        return x

    def floats(self, shape: tuple[int, ...], dtype: Any) -> Any:
        x = self.empty(shape, dtype)
        x[...] = self.rng.standard_normal(shape).astype(dtype)
        return x


@pytest.fixture(params=[True, False], ids=["end", "begin"])
def guarded(request: Any) -> Guarded:
    return Guarded(request.param)


@pytest.fixture(params=_core.available_isas())
def isa(request: Any) -> Iterator[str]:
    chosen = _core.get_isa()
    _core.set_isa(request.param)
    yield request.param
    _core.set_isa(chosen)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_means_of_pairs_of_integers(guarded: Guarded, isa: str, dtype: str) -> None:
    for width in WIDTHS:
        for kernel in ((2, 2), (1, 2), (4, 2)):
            x = guarded.integers((5, width), dtype)
            expected = hu.avg_pool(x.copy(), kernel, dtype="same")
            out = guarded.empty(expected.shape, dtype)
            hu.avg_pool(x, kernel, dtype="same", out=out)
            assert_same_bits(out, expected)


def test_means_of_the_numbers(guarded: Guarded, isa: str) -> None:
    for width in WIDTHS:
        for kernel in ((2, 2), (1, 2), (4, 2)):
            x = guarded.floats((5, width), np.float32)
            x[guarded.rng.random(x.shape) < 0.2] = np.nan
            expected = hu.avg_pool(x.copy(), kernel, nan="ignore")
            out = guarded.empty(expected.shape, np.float32)
            hu.avg_pool(x, kernel, nan="ignore", out=out)
            assert_same_bits(out, expected)


@pytest.mark.parametrize(
    "op",
    [
        hu.AvgPool((3, 3), stride=2, padding=1),
        hu.AvgPool((2, 2)),
        hu.AvgPool((3, 3), padding=1),
        hu.AvgPool((3,), stride=2, padding=1, count_include_pad=False),
        hu.AvgPool((1, 9), padding=(0, 4)),
        hu.AvgPool((3, 3), stride=2, padding=1, divisor_override=49),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: np.dtype(dtype).name)
def test_averages_and_their_transposes(guarded: Guarded, isa: str, op: Any, dtype: Any) -> None:
    for width in WIDTHS[::3]:
        for channels_last in (False, True):
            x = guarded.floats((2, 7, width, 3) if channels_last else (2, 3, 7, width), dtype)
            x = np.moveaxis(x, -1, 1) if channels_last else x
            output, pullback = op.vjp(x)
            expected, expected_pullback = op.vjp(x.copy())
            cotangent = guarded.floats(output.shape, dtype)
            assert_same_bits(output, expected)
            assert_same_bits(pullback(cotangent)[0], expected_pullback(cotangent.copy())[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_windows_with_given_starts_and_largest_magnitudes(guarded: Guarded, isa: str, dtype: Any) -> None:
    samples = np.full((2, 3, 2), 0.4, dtype=dtype)
    for width in WIDTHS[::3]:
        x = guarded.floats((2, 3, 7, width), dtype)
        fractional = hu.FractionalMaxPool((2, min(2, width)), output_size=(3, max(1, width // 2)))
        largest = hu.LpPool((3, 3), float("inf"), stride=(2, 1), padding=1)
        cases: list[tuple[Any, tuple[Any, ...]]] = [(fractional, (samples,)), (largest, ())]
        for op, more in cases:
            t = guarded.floats(x.shape, dtype)
            nothing = (None,) * len(more)
            expected = op.jvp((x.copy(), *more), (t.copy(), *nothing))
            for ours, right in zip(op.jvp((x, *more), (t, *nothing)), expected, strict=True):
                assert_same_bits(ours, right)
            output, pullback = op.vjp(x, *more)
            cotangent = guarded.floats(output.shape, dtype)
            assert_same_bits(pullback(cotangent)[0], op.vjp(x.copy(), *more)[1](cotangent.copy())[0])
