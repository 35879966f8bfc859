"""Means, means of numbers and medians of images beside a copy of the same bytes and the tools of the field.

python -m benchmarks downsampling [--size 16384] [--rounds 5] [--threads 1 --processor-time] [--isa avx2]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import halfulp as hu
from benchmarks.timing import best_times
from halfulp import _core, kernels

Contenders = dict[str, Callable[[], Any]]


def copy_of(bytes_moved: int, threads: int) -> Callable[[], Any]:
    """A copy on as many threads that reads and writes this many bytes together."""
    source = np.ones(bytes_moved // 2, np.uint8)
    target = np.empty_like(source)
    if threads == 1:
        return lambda: np.copyto(target, source)
    step = -(-len(source) // threads)
    parts = [slice(i * step, (i + 1) * step) for i in range(threads)]
    pool = ThreadPoolExecutor(threads)
    return lambda: list(pool.map(lambda part: np.copyto(target[part], source[part]), parts))


def image(size: int, dtype: str) -> Any:
    return np.random.default_rng(0).integers(0, np.iinfo(dtype).max, (size, size), dtype=dtype, endpoint=True)


def mean(size: int, dtype: str, threads: int) -> Contenders:
    """2x2 mean into the same type."""
    x = image(size, dtype)
    found: Contenders = {
        "halfulp": lambda: hu.avg_pool2d(x, 2, dtype="same"),
        "copy": copy_of(x.nbytes * 5 // 4, threads),
    }
    for peers in (_opencv, _skimage, _xarray, _dask, _ome_zarr):
        try:
            found |= peers(x, threads)
        except ImportError as error:
            print(f"left out: {error}")
    return found | _tensorstore(x, [2, 2], "mean", threads)


def _opencv(x: Any, threads: int) -> Contenders:
    import cv2

    cv2.setNumThreads(threads)
    half = (x.shape[1] // 2, x.shape[0] // 2)
    return {"OpenCV INTER_AREA": lambda: cv2.resize(x, half, interpolation=cv2.INTER_AREA)}


def _skimage(x: Any, threads: int) -> Contenders:
    from skimage.measure import block_reduce
    from skimage.transform import downscale_local_mean

    return {
        "skimage block_reduce": lambda: block_reduce(x, (2, 2), np.mean),
        "skimage downscale_local_mean": lambda: downscale_local_mean(x, (2, 2)),
    }


def _xarray(x: Any, threads: int) -> Contenders:
    import xarray

    data = xarray.DataArray(x, dims=("y", "x"))
    return {"xarray coarsen": lambda: data.coarsen(y=2, x=2).mean()}


def _dask(x: Any, threads: int) -> Contenders:
    import dask.array

    chunked = dask.array.from_array(x, chunks=(2048, 2048))
    kind = {"scheduler": "threads", "num_workers": threads} if threads > 1 else {"scheduler": "synchronous"}
    return {
        "dask.array.coarsen": lambda: dask.array.coarsen(np.mean, chunked, {0: 2, 1: 2}).compute(**kind),
        "halfulp on the Dask array": lambda: hu.avg_pool2d(chunked, 2, dtype="same").compute(**kind),
    }


def _ome_zarr(x: Any, threads: int) -> Contenders:
    from ome_zarr.scale import Scaler

    scaler = Scaler(max_layer=1)
    return {"ome-zarr Scaler.local_mean": lambda: scaler.local_mean(x)}


def _tensorstore(x: Any, factors: list[int], method: str, threads: int) -> Contenders:
    try:
        import tensorstore as ts
    except ImportError as error:
        print(f"left out: {error}")
        return {}
    context = ts.Context({"data_copy_concurrency": {"limit": threads}})
    store = ts.downsample(ts.array(x, context=context), factors, method)
    return {"tensorstore": lambda: store.read().result()}


def nan_mean(size: int, share: float, threads: int) -> Contenders:
    """2x2 mean of float32 over the numbers, of which a share is missing."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((size, size), dtype=np.float32)
    x[rng.random((size, size), dtype=np.float32) < share] = np.nan
    blocks = x.reshape(size // 2, 2, size // 2, 2)
    return {
        "halfulp": lambda: hu.avg_pool2d(x, 2, nan="ignore"),
        "copy": copy_of(x.nbytes * 5 // 4, threads),
        "NumPy nansum over counts": lambda: np.nansum(blocks, axis=(1, 3)) / (blocks == blocks).sum(axis=(1, 3)),
        **_xarray(x, threads),
    }


def median(size: int, threads: int) -> Contenders:
    """2x2x2 median of a uint16 volume."""
    x = np.random.default_rng(0).integers(0, 2**16, (size, size, size)).astype(np.uint16)
    found: Contenders = {"halfulp": lambda: hu.median_pool3d(x, 2), "copy": copy_of(x.nbytes * 9 // 8, threads)}
    try:
        from scipy import ndimage

        found["SciPy median_filter, every second"] = lambda: ndimage.median_filter(x, 2)[::2, ::2, ::2]
    except ImportError as error:
        print(f"left out: {error}")
    blocks = x.reshape(size // 2, 2, size // 2, 2, size // 2, 2)
    found["NumPy median of blocks"] = lambda: np.median(blocks, axis=(1, 3, 5))
    return found | _tensorstore(x, [2, 2, 2], "median", threads)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks downsampling", description=__doc__)
    parser.add_argument("--size", type=int, default=16384)
    parser.add_argument("--volume", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--processor-time", action="store_true", help="for a machine that is not idle")
    options = parser.parse_args(arguments)
    threads, clock = options.threads, time.process_time if options.processor_time else time.perf_counter
    kernels.set_num_threads(threads)
    rows: list[tuple[str, Callable[[], Contenders]]] = [
        (f"mean 2x2, {options.size}^2 {dtype}", partial(mean, options.size, dtype, threads))
        for dtype in ("uint8", "uint16")
    ]
    for share in (0.0, 0.01, 0.2):
        work = f"mean of numbers 2x2, float32, {share:.0%} NaN"
        rows.append((work, partial(nan_mean, options.size // 2, share, threads)))
    rows.append((f"median 2x2x2, {options.volume}^3 uint16", partial(median, options.volume, threads)))
    kind = "processor time" if options.processor_time else "wall time"
    title = f"{_core.get_isa()}, threads: {threads}, {kind}, best of {options.rounds}"
    table = Table("work", "contender", "ms", "halfulp is faster by", title=title)
    for work, contenders in rows:
        times = best_times(contenders(), options.rounds, clock=clock)
        for name, seconds in times.items():
            table.add_row(work, name, f"{seconds * 1e3:.1f}", f"{seconds / times['halfulp']:.2f}")
        table.add_section()
    Console(width=120).print(table)
