"""Means, means of numbers and medians of images beside a copy of the same bytes and the tools of the field.

python -m benchmarks downsampling [--size 16384] [--rounds 5]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import halfulp as hu
from benchmarks.timing import best_times
from halfulp import kernels

Contenders = dict[str, Callable[[], Any]]
THREADS = 2


def copy_of(bytes_moved: int) -> Callable[[], Any]:
    """A copy on as many threads that reads and writes this many bytes together."""
    source = np.ones(bytes_moved // 2, np.uint8)
    target = np.empty_like(source)
    half = len(source) // THREADS
    parts = [slice(i * half, (i + 1) * half) for i in range(THREADS)]
    pool = ThreadPoolExecutor(THREADS)
    return lambda: list(pool.map(lambda part: np.copyto(target[part], source[part]), parts))


def image(size: int, dtype: str) -> Any:
    return np.random.default_rng(0).integers(0, np.iinfo(dtype).max, (size, size), dtype=dtype, endpoint=True)


def mean(size: int, dtype: str) -> Contenders:
    """2x2 mean into the same type."""
    x = image(size, dtype)
    found: Contenders = {
        "halfulp": lambda: hu.avg_pool2d(x, 2, dtype="same"),
        "copy": copy_of(x.nbytes * 5 // 4),
    }
    return found | _peers_of_the_mean(x)


def _peers_of_the_mean(x: Any) -> Contenders:
    found: Contenders = {}
    try:
        import cv2

        cv2.setNumThreads(THREADS)
        half = (x.shape[1] // 2, x.shape[0] // 2)
        found["OpenCV INTER_AREA"] = lambda: cv2.resize(x, half, interpolation=cv2.INTER_AREA)
    except ImportError:
        pass
    try:
        from skimage.measure import block_reduce

        found["skimage block_reduce"] = lambda: block_reduce(x, (2, 2), np.mean)
    except ImportError:
        pass
    try:
        import xarray

        data = xarray.DataArray(x, dims=("y", "x"))
        found["xarray coarsen"] = lambda: data.coarsen(y=2, x=2).mean()
    except ImportError:
        pass
    return found | _tensorstore(x, [2, 2], "mean")


def _tensorstore(x: Any, factors: list[int], method: str) -> Contenders:
    try:
        import tensorstore as ts
    except ImportError:
        return {}
    context = ts.Context({"data_copy_concurrency": {"limit": THREADS}})
    store = ts.downsample(ts.array(x, context=context), factors, method)
    return {"tensorstore": lambda: store.read().result()}


def nan_mean(size: int, share: float) -> Contenders:
    """2x2 mean of float32 over the numbers, of which a share is missing."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((size, size), dtype=np.float32)
    x[rng.random((size, size), dtype=np.float32) < share] = np.nan
    blocks = x.reshape(size // 2, 2, size // 2, 2)
    return {
        "halfulp": lambda: hu.avg_pool2d(x, 2, nan="ignore"),
        "copy": copy_of(x.nbytes * 5 // 4),
        "NumPy nansum over counts": lambda: np.nansum(blocks, axis=(1, 3)) / (blocks == blocks).sum(axis=(1, 3)),
    }


def median(size: int) -> Contenders:
    """2x2x2 median of a uint16 volume."""
    x = np.random.default_rng(0).integers(0, 2**16, (size, size, size)).astype(np.uint16)
    found: Contenders = {"halfulp": lambda: hu.median_pool3d(x, 2), "copy": copy_of(x.nbytes * 9 // 8)}
    try:
        from scipy import ndimage

        found["SciPy median_filter, every second"] = lambda: ndimage.median_filter(x, 2)[::2, ::2, ::2]
    except ImportError:
        pass
    blocks = x.reshape(size // 2, 2, size // 2, 2, size // 2, 2)
    found["NumPy median of blocks"] = lambda: np.median(blocks, axis=(1, 3, 5))
    return found | _tensorstore(x, [2, 2, 2], "median")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks downsampling", description=__doc__)
    parser.add_argument("--size", type=int, default=16384)
    parser.add_argument("--volume", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    kernels.set_num_threads(THREADS)
    rows: list[tuple[str, Callable[[], Contenders]]] = [
        (f"mean 2x2, {options.size}^2 {dtype}", partial(mean, options.size, dtype)) for dtype in ("uint8", "uint16")
    ]
    for share in (0.0, 0.01, 0.2):
        work = f"mean of numbers 2x2, float32, {share:.0%} NaN"
        rows.append((work, partial(nan_mean, options.size // 2, share)))
    rows.append((f"median 2x2x2, {options.volume}^3 uint16", partial(median, options.volume)))
    table = Table(
        "work", "contender", "ms", "halfulp is faster by", title=f"{THREADS} threads, best of {options.rounds}"
    )
    for work, contenders in rows:
        times = best_times(contenders(), options.rounds)
        for name, seconds in times.items():
            table.add_row(work, name, f"{seconds * 1e3:.1f}", f"{seconds / times['halfulp']:.2f}")
        table.add_section()
    Console(width=120).print(table)
