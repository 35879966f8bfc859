"""Kernels round to nearest with gradual underflow, whatever mode the caller's thread is in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import halfulp as hu
from tests.strategies import assert_same_bits

TINY = np.float32(2.0**-140)


@pytest.fixture
def flushing() -> Iterator[None]:
    if not torch.set_flush_denormal(True):
        raise AssertionError("this processor cannot flush subnormal numbers, so the test shows nothing")
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def results() -> list[Any]:
    x = np.full((2, 8, 64, 64), TINY, dtype=np.float32)
    weight = np.full((4, 8, 3, 3), np.float32(0.5))
    pools = [hu.MaxPool((3, 3), 2, 1), hu.AvgPool((3, 3), 2, 1), hu.GlobalAvgPool(2), hu.AdaptiveMaxPool((5, 5))]
    out = [op(x) for op in pools] + [op.vjp(x)[1](np.full(op.output_shape(x.shape), TINY))[0] for op in pools]
    output, pullback = hu.Conv(2, padding=1).vjp(x, weight, None)
    smooth = hu.SmoothMaxPool((2, 2), beta=1.0)(x[:1, :1, :4, :4])
    return [*out, output, *pullback(output)[:2], smooth]


@pytest.mark.parametrize("threads", [1, 2])
def test_flushed_subnormals_do_not_change_a_bit(threads: int, request: pytest.FixtureRequest) -> None:
    hu.set_num_threads(threads)
    try:
        before = results()
        request.getfixturevalue("flushing")
        assert np.float32(TINY) * np.float32(1.0) == 0  # the thread does flush
        after = results()
    finally:
        hu.set_num_threads(0)
    torch.set_flush_denormal(False)
    assert np.all(before[0] != 0)
    for a, b in zip(after, before, strict=True):
        assert_same_bits(a, b)
