"""The pullback of hard max where its paths part: cotangents of a wide range, and results larger than the caches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import halfulp as hu
from halfulp import _core
from tests import strategies as draw
from tests.kernels.test_hard_max_same_bits import isa, threads

OPERATORS = [
    hu.MaxPool((3, 3), stride=2, padding=1),
    hu.MaxPool((3, 3), stride=1, padding=1),
    hu.MaxPool((5, 5), stride=3, padding=2),
    hu.MaxPool((6, 9), stride=(2, 4), padding=(1, 4)),
    hu.MaxPool((3, 4), stride=(1, 2), dilation=(1, 2)),
    hu.MaxPool((6, 4), stride=(1, 2), padding=2, dilation=(1, 2)),
    hu.MaxPool((3, 3, 3), stride=(1, 2, 2), padding=1),
]


def cotangents(rng: np.random.Generator, shape: tuple[int, ...], binades: int) -> Any:
    """Numbers over so many binades, a third of them in pairs that cancel but for their last bits."""
    signs, exponents = rng.choice([-1.0, 1.0], shape), rng.integers(-(binades // 2), binades // 2 + 1, shape)
    close = rng.choice([1.0, 1.0 + 2.0**-7, 1.5, 1.0 + 2.0**-23], shape)
    extreme = rng.random(shape) < 0.3
    return np.where(extreme, signs * close * 2.0 ** (binades // 2), np.ldexp(rng.uniform(-2, 2, shape), exponents))


@pytest.mark.parametrize("binades", [8, 24, 30, 50, 70, 90])
@pytest.mark.parametrize("dtype", draw.FLOATS, ids=str)
@pytest.mark.parametrize("op", OPERATORS, ids=str)
def test_sums_over_a_wide_range_are_rounded_once(op: Any, dtype: Any, binades: int) -> None:
    rng = np.random.default_rng(binades)
    x = rng.permutation(5 * 12 * 19).reshape(1, 5, 12, 19).astype(dtype)
    output, pullback = op.vjp(x)
    with np.errstate(over="ignore"):
        g = cotangents(rng, output.shape, binades).astype(dtype)
    expected = hu.spec.vjp(op, (x,), g)[0]
    for name in _core.available_isas():
        with isa(name):
            draw.assert_same_bits(pullback(g)[0], expected, f"{op}, {dtype}, {binades} binades, {name}")


TYPES_AND_SETS: list[tuple[Any, str]] = [(np.dtype("float32"), name) for name in _core.available_isas()]
TYPES_AND_SETS += [(dtype, _core.get_isa()) for dtype in draw.FLOATS if dtype != np.float32]


@pytest.mark.parametrize(("dtype", "name"), TYPES_AND_SETS, ids=str)
@pytest.mark.parametrize(("channels", "width", "channels_last"), [(5, 1024, False), (5, 1037, False), (20, 1037, True)])
def test_large_results_have_the_bits_of_small_ones(
    channels: int, width: int, channels_last: bool, dtype: Any, name: str
) -> None:
    op = hu.MaxPool((3, 3), stride=(2, 2 if channels_last else 3), padding=1)
    rng = np.random.default_rng(8)
    rows = (1 << 25) // (channels * width * np.dtype(dtype).itemsize) + 1  # 32 MiB and a little more
    x = rng.integers(-50, 50, (1, channels, rows, width)).astype(dtype)
    if channels_last:
        x = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    with isa(name), threads(2):
        output, pullback = op.vjp(x)
        g = rng.standard_normal(output.shape).astype(dtype)
        large = pullback(g)[0]
        for channel in range(channels):
            part = slice(channel, channel + 1)
            small = op.vjp(np.ascontiguousarray(x[:, part]))[1](np.ascontiguousarray(g[:, part]))[0]
            draw.assert_same_bits(large[:, part], small, f"channel {channel}")
