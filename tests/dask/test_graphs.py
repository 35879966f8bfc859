"""What a graph is made of: lazy, as many blocks as the input, quickly built; and what is refused."""

from __future__ import annotations

import re
import time
from typing import Any

import dask.array as da
import numpy as np
import pytest

import halfulp as hu
from tests.strategies import assert_same_bits


def test_output_chunks_follow_input_chunks() -> None:
    x = da.zeros((3, 100, 90), chunks=(1, 20, 30), dtype="float32")
    assert hu.avg_pool2d(x, 2).chunks == ((1, 1, 1), (10,) * 5, (15,) * 3)
    assert hu.max_pool2d(x, 3, stride=1, padding=1).chunks == x.chunks
    assert hu.max_pool2d(x, 7, stride=7).chunks == ((1, 1, 1), (3, 3, 3, 2, 3), (4, 5, 3))
    assert hu.conv2d(x, np.zeros((5, 3, 3, 3), "float32"), padding="same").chunks == ((5,), (20,) * 5, (30,) * 3)
    assert hu.adaptive_avg_pool2d(x, (10, 9)).chunks == ((1, 1, 1), (2,) * 5, (3, 3, 3))


def test_aligned_windows_need_one_chunk_each() -> None:
    x = da.zeros((64, 64), chunks=16)
    y = hu.avg_pool2d(x, 2)
    (layer,) = [layer for name, layer in y.dask.layers.items() if name == y.name]
    assert len(layer) == 16


def test_a_halo_is_sent_and_not_the_chunk() -> None:
    x = da.from_array(np.arange(64.0), chunks=16)
    y = hu.max_pool1d(x, 3, stride=1, padding=1)
    pieces = {key: task for key, task in dict(y.dask).items() if "piece" in str(key[0])}
    assert sorted(key[2:] for key in pieces) == [(0, 1)] * 3 + [(15, 16)] * 3
    assert_same_bits(y.compute(), hu.max_pool1d(np.arange(64.0), 3, stride=1, padding=1))


def test_nothing_is_computed_early() -> None:
    def explode(block: Any) -> Any:
        raise AssertionError("computed")

    x = da.zeros((8, 8), chunks=4).map_blocks(explode, meta=np.zeros((0, 0)))
    assert hu.conv2d(x[None], np.ones((1, 1, 3, 3))).shape == (1, 6, 6)
    assert hu.max_pool2d(x, 2).shape == (4, 4)
    with pytest.raises(AssertionError, match="computed"):
        hu.avg_pool2d(x, 2).compute()


def test_the_graph_of_a_terabyte_is_built_at_once() -> None:
    x = da.zeros((16384, 8192, 8192), chunks=(512, 512, 512), dtype="uint8")
    assert x.nbytes == 2**40
    began = time.process_time()
    y = hu.max_pool3d(x, 3, stride=2, padding=1)
    assert y.shape == (8192, 4096, 4096)
    assert time.process_time() - began < 60  # seconds where nothing else runs; the bound only catches a wrong order


def test_a_nan_is_named_by_its_place_in_the_whole_array() -> None:
    x = np.zeros((6, 9))
    x[4, 7] = np.nan
    with pytest.raises(hu.PolicyError, match=re.escape("the input is NaN at (4, 7); it must have no NaN [P3]")):
        hu.max_pool2d(da.from_array(x, chunks=(2, 3)), 2, nan="raise").compute(scheduler="sync")


def test_arguments_are_checked_before_anything_is_computed() -> None:
    with pytest.raises(hu.ShapeError, match="W5"):
        hu.max_pool2d(da.zeros((3, 3), chunks=1), 4)
    with pytest.raises(hu.DTypeError, match="I1"):
        hu.conv2d(da.zeros((1, 4, 4), chunks=2, dtype="int8"), np.zeros((1, 1, 2, 2), "int8"))


def test_unknown_sizes_are_refused() -> None:
    x = da.from_array(np.arange(6.0), chunks=3)
    text = "max_pool1d: a Dask array of shape (nan,): sizes must be known: call compute_chunk_sizes() first [Y1]"
    with pytest.raises(hu.ShapeError, match=re.escape(text)):
        hu.max_pool1d(x[x > 1], 2)


def test_derivatives_are_refused() -> None:
    x = da.zeros(4, chunks=2)
    text = "avg_pool1d: a derivative of a Dask array: must be of arrays in memory; compute first [Y2]"
    with pytest.raises(hu.DTypeError, match=re.escape(text)):
        hu.AvgPool((2,)).vjp(x)
    with pytest.raises(hu.DTypeError, match=re.escape(text)):
        hu.AvgPool((2,)).jvp((x,), (x,))
    with pytest.raises(hu.DTypeError, match="this operator has no indices of a Dask array; compute first"):
        hu.fractional_max_pool2d(da.zeros((4, 4)), 2, 2, random_samples=np.zeros(2), return_indices=True)


def test_an_array_to_write_to_is_refused() -> None:
    with pytest.raises(hu.DTypeError, match="I6"):
        hu.avg_pool1d(da.zeros(4), 2, out=np.zeros(2))
