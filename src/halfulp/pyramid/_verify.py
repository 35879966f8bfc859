"""Whether the levels of a pyramid are the pooling of its base, for pyramids of any tool."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from halfulp.errors import PyramidError
from halfulp.pyramid._levels import pool
from halfulp.pyramid._plan import BASELINE, COMFORTABLE, COPIES, METHODS, _tile
from halfulp.pyramid._sources import Source, missing, open_source

__all__ = ["LevelReport", "check"]


@dataclass
class LevelReport:
    """What was found in a level: how many cells are wrong, by how much, and where the first wrong chunk is."""

    path: str
    factor: tuple[int, ...]
    shape: tuple[int, ...]
    cells: int = 0
    wrong: int = 0
    largest: float = 0.0
    bias: float = 0.0
    chunk: tuple[int, ...] | None = None
    position: tuple[int, ...] | None = None
    found: Any = None
    right: Any = None


@dataclass
class _Level:
    array: Any
    report: LevelReport

    def compare(self, base: Any, region: tuple[slice, ...], method: str, nan: str) -> None:
        """Compare the cells whose windows begin in a region of the base."""
        factor, report = self.report.factor, self.report
        parts = zip(region, factor, report.shape, strict=True)
        own = tuple(slice(s.start // f, min(-(-s.stop // f), n)) for s, f, n in parts)
        if any(s.stop <= s.start for s in own):
            return
        cut = tuple(slice(0, (s.stop - s.start) * f) for s, f in zip(own, factor, strict=True))
        right = pool(base[cut], factor, method, self.array.dtype, nan)
        found = np.asarray(self.array[own])
        different = found != right
        if found.dtype.kind == "f":
            different &= ~(np.isnan(found) & np.isnan(right))
        report.cells += found.size
        if not different.any():
            return
        report.wrong += int(different.sum())
        gap = found[different].astype(np.longdouble) - right[different].astype(np.longdouble)
        with np.errstate(invalid="ignore"):
            report.largest = max(report.largest, float(np.abs(gap).max()))
        report.bias += float(gap.sum())
        first = tuple(int(i) for i in np.argwhere(different)[0])
        place = tuple(i + s.start for i, s in zip(first, own, strict=True))
        chunk = tuple(i // c for i, c in zip(place, self.array.chunks, strict=True))
        if report.chunk is None or chunk < report.chunk:
            report.chunk, report.position = chunk, place
            report.found, report.right = found[first].item(), right[first].item()


def check(target: str, method: str | None, nan: str, memory: int, progress: Any) -> tuple[str, list[LevelReport]]:
    """(method, a report for every level above the base)."""
    base, levels, known = _opened(target)
    chosen = method or known or "mean"
    if chosen not in METHODS:
        raise PyramidError("pyramid", f"method={chosen!r}", f"must be one of {', '.join(METHODS)}", "Y6")
    size = base.dtype.itemsize
    room = (memory - BASELINE) // COPIES // size
    coarsest = tuple(max(level.report.factor[i] for level in levels) for i in range(len(base.shape)))
    if prod(min(f, n) for f, n in zip(coarsest, base.shape, strict=True)) > room:
        text = f"windows of {coarsest} cells do not fit in {memory} bytes of memory"
        raise PyramidError("pyramid", target, text, "Y6")
    whole = tuple(int(np.lcm.reduce([level.report.factor[i] for level in levels])) for i in range(len(base.shape)))
    tile = _tile(base.shape, whole, base.chunks, base.chunks, room, min(room, COMFORTABLE // size))
    counts = tuple(-(-n // t) for n, t in zip(base.shape, tile, strict=True))
    for done, index in enumerate(np.ndindex(*counts)):
        progress(done, prod(counts))
        region = tuple(slice(i * t, min((i + 1) * t, n)) for i, t, n in zip(index, tile, base.shape, strict=True))
        cells = base.read(region)
        for level in levels:
            level.compare(cells, region, chosen, nan)
    progress(prod(counts), prod(counts))
    for level in levels:
        level.report.bias /= max(1, level.report.cells)
    return chosen, [level.report for level in levels]


def _opened(target: str) -> tuple[Source, list[_Level], str | None]:
    """The base, the levels and the method that the metadata names."""
    try:
        import zarr
    except ImportError as error:
        raise missing(target, error) from error
    if not Path(target).is_dir():
        raise PyramidError("pyramid", target, "there is no such folder", "Y7")
    try:
        group: Any = zarr.open_group(target, mode="r")
        attributes = dict(group.attrs)
        image = attributes.get("ome", attributes)["multiscales"][0]
        paths = [dataset["path"] for dataset in image["datasets"]]
        arrays = [group[path] for path in paths]
    except Exception as error:
        text = f"is not an OME-Zarr image: {str(error) or type(error).__name__}"
        raise PyramidError("pyramid", target, text, "Y7") from error
    if len(arrays) < 2:
        raise PyramidError("pyramid", target, "has no level above its base", "Y7")
    names = [a["name"] if isinstance(a, dict) else a for a in image.get("axes", ())]
    base = open_source(str(Path(target) / paths[0]), "".join(names) or None)
    scales = [_scale(dataset) for dataset in image["datasets"]]
    levels = [
        _level(target, base, path, array, _ratios(scale, scales[0], len(base.shape)))
        for path, array, scale in zip(paths[1:], arrays[1:], scales[1:], strict=True)
    ]
    word = image.get("type")
    return base, levels, word if word in METHODS else None


def _scale(dataset: Any) -> Any:
    """The cell sizes that the metadata of a level gives; None without them."""
    transformations = dataset.get("coordinateTransformations", ()) if isinstance(dataset, dict) else ()
    return next((t.get("scale") for t in transformations if isinstance(t, dict) and t.get("type") == "scale"), None)


def _ratios(scale: Any, base: Any, ndim: int) -> tuple[int, ...]:
    """How many cells of the base a cell has by the metadata, 0 where that is no whole number."""
    try:
        ratios = [float(s) / float(b) for s, b in zip(scale, base, strict=True)]
        found = tuple(round(r) if r >= 1 and abs(r - round(r)) < 1e-6 * r else 0 for r in ratios)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        found = ()
    return found if len(found) == ndim else (0,) * ndim


def _level(target: str, base: Source, path: str, array: Any, ratios: tuple[int, ...]) -> _Level:
    """A level with its factors: those of the metadata where they fit the shape, rounded up or down.

    Otherwise whole numbers that the shape can come from. The shape alone does not tell: one cell for twelve may be
    the mean of all, with a factor of 16, or that of the first eight.
    """
    factor = []
    for size, cells, ratio in zip(base.shape, array.shape, ratios, strict=True):
        up = -(-size // cells)
        nearest = round(size / cells)
        fitting = [
            f for f in {nearest, up, size // cells, *_powers(nearest)} if f and cells in (-(-size // f), size // f)
        ]
        if ratio and cells in (-(-size // ratio), size // ratio):
            fitting = [ratio]
        if not fitting:
            text = f"level {path} has {cells} cells for {size} of the base, which is not an integer factor"
            raise PyramidError("pyramid", target, text, "Y7")
        best = min(fitting, key=lambda f: (f & (f - 1) != 0, abs(f - size / cells)))
        factor.append(best)
    return _Level(array, LevelReport(path, tuple(factor), tuple(array.shape)))


def _powers(near: int) -> tuple[int, ...]:
    """The powers of two beside a number."""
    power = 1 << max(0, near.bit_length() - 1)
    return power, 2 * power
