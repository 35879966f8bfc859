"""Hard max by bins: rows of every length at which the number of rows read at once changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import halfulp as hu
from halfulp import _core
from tests import strategies as draw

# Rows that are read where they lie are taken two at a time from 256 to 2047 bytes, eight at a time otherwise. Rows of
# float16 are converted first.
ROW_BYTES = (255, 256, 257, 264, 1000, 2040, 2047, 2048, 2056)
DTYPES = ("float32", "float64", "float16", "int8")
KINDS = ("ordinary", "ties", "zeros", "nan", "lowest")


def cells(dtype: str, shape: tuple[int, ...], kind: str, rng: np.random.Generator) -> Any:
    """Cells of one kind: few ties, many ties, zeros of both signs, some NaN, hardly any but the lowest."""
    if dtype == "int8":
        low, high = {"ordinary": (-128, 127), "ties": (-1, 1), "lowest": (-128, -128)}.get(kind, (-3, 3))
        return rng.integers(low, high, shape, np.int8, endpoint=True)
    x = rng.standard_normal(shape)
    if kind == "ties":
        x = np.rint(x)
    elif kind == "zeros":
        x = np.where(rng.random(shape) < 0.5, 0.0, -0.0)
    elif kind == "nan":
        x[rng.random(shape) < 0.002] = np.nan
    elif kind == "lowest":
        x = np.where(rng.random(shape) < 0.001, x, -np.inf)
    return x.astype(dtype)


def operators(height: int, width: int, rows: int, ties: str, nan: str) -> list[Any]:
    """Adaptive windows and sliding ones that hardly overlap, `rows` rows each; either kind covers whole rows."""
    step = width // 2
    return [
        hu.AdaptiveMaxPool((height // rows, 3), ties=ties, nan=nan),
        hu.MaxPool((rows, width - step), stride=(rows, step), ties=ties, nan=nan),
    ]


def check(op: Any, x: Any, what: str) -> None:
    """Values and indices of every instruction set have the bits of the specification, and come from bins alone."""
    expected, expected_indices = hu.spec.forward(op, x), hu.spec.indices(op, x)
    for isa in _core.available_isas():
        _core.set_isa(isa)
        _core.reset_engine_counts()
        output = op(x)
        with_indices, indices = hu.kernels.forward_with_indices(op, x)
        assert {name for name, units in _core.engine_counts().items() if units > 0} == {"max_bins"}, what
        draw.assert_same_bits(output, expected, f"{what}, {isa}")
        draw.assert_same_bits(with_indices, expected, f"{what}, {isa}")
        assert np.array_equal(indices, expected_indices), f"indices of {what}, {isa}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("row_bytes", ROW_BYTES)
def test_rows_of_every_length_and_number(restore: None, row_bytes: int, dtype: str) -> None:
    rng = np.random.default_rng(row_bytes)
    width = row_bytes // np.dtype(dtype).itemsize
    for i, rows in enumerate((1, 2, 3, 7, 9)):
        kind = KINDS[(i + row_bytes) % len(KINDS)]
        ties, nan = ("first", "last")[i % 2], ("propagate", "ignore")[i // 2 % 2]
        x = cells(dtype, (2 * rows, width), kind, rng)
        for op in operators(2 * rows, width, rows, ties, nan):
            check(op, x, f"{op} on {kind} {dtype} {x.shape}")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_only_maximum_may_be_in_any_row(restore: None, kind: str, dtype: str) -> None:
    """Rows of 512 bytes, two at a time: no row of a window is left out, nor one of its neighbours read."""
    rng = np.random.default_rng(3)
    width = 512 // np.dtype(dtype).itemsize
    for rows in (3, 4, 5):
        for row in range(rows):
            x = cells(dtype, (3 * rows, width), kind, rng)
            x[rows + row, 5::11] = 100
            for op in operators(3 * rows, width, rows, "first", "ignore"):
                check(op, x, f"{op} on {kind} {dtype} {x.shape}, row {row}")


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_a_volume_and_of_a_view(restore: None, dtype: str) -> None:
    rng = np.random.default_rng(5)
    width = 512 // np.dtype(dtype).itemsize
    volume = cells(dtype, (2, 3, 5, width), "ties", rng)
    check(hu.AdaptiveMaxPool((2, 1, 3)), volume, f"volume of {dtype}")
    view = cells(dtype, (7, width + 9), "ties", rng)[::-1, 4:-5]
    check(hu.AdaptiveMaxPool((1, 2)), view, f"view of {dtype}")
