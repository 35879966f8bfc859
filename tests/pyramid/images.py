"""Small images, and their pyramids by brute force over Python's integers and fractions."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import zarr

METHODS = ("mean", "max", "min", "median", "mode", "sum")


def noise(shape: tuple[int, ...], dtype: str = "uint16", seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return rng.normal(size=shape).astype(dtype)
    return rng.integers(0, 200, shape).astype(dtype)


def reduced(cells: Any, method: str) -> Any:
    """One block of cells, exactly; the caller's dtype rounds a fraction once."""
    numbers = [Fraction(v) for v in np.asarray(cells).ravel().tolist()]
    if method == "mean":
        return sum(numbers) / len(numbers)
    if method == "mode":
        counts = Counter(numbers)
        return min(v for v in counts if counts[v] == max(counts.values()))
    return {"max": max, "min": min, "sum": sum, "median": median}[method](numbers)


def pooled(x: Any, factor: tuple[int, ...], method: str, dtype: Any) -> Any:
    """A level, block by block."""
    shape = tuple(-(-n // f) for n, f in zip(x.shape, factor, strict=True))
    out = np.empty(shape, dtype)
    for index in product(*map(range, shape)):
        block = x[tuple(slice(i * f, (i + 1) * f) for i, f in zip(index, factor, strict=True))]
        value = reduced(block, method)
        out[index] = round(value) if np.dtype(dtype).kind in "iu" else float(value)
    return out


def assert_is_pyramid_of(target: Path, x: Any, plan: Any) -> None:
    """Every level of a written pyramid is the pooling of the base."""
    group = zarr.open_group(str(target), mode="r")
    assert sorted(group.array_keys()) == [str(i) for i in range(len(plan.levels))]
    assert np.array_equal(group["0"][:], x)
    for number, level in enumerate(plan.levels):
        found = group[str(number)]
        assert found.shape == level.shape
        assert np.array_equal(found[:], pooled(x, level.factor, plan.method, plan.stored)), (number, level)


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, by its name."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
