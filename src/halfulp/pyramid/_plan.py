"""The shapes of a pyramid, and the tiles of the base that it is made from.

Every level is pooled from the base itself. So that the base is read once, a tile holds whole windows of the coarsest
level: all levels are made from it while it is in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from math import lcm, prod
from typing import Any

import numpy as np

from halfulp.errors import PyramidError

__all__ = ["METHODS", "Level", "Plan", "Tile", "make_plan"]

METHODS = ("mean", "max", "min", "median", "mode", "sum")
BASELINE = 256 << 20
"""Memory of the process before any tile: Python, NumPy, Zarr and their threads."""
COPIES = 5
"""Bytes per byte of a tile that are alive at once: as read, in the base's order, levels, chunks, a codec's buffer."""
COMFORTABLE = 32 << 20
"""A tile of more bytes than this gains nothing."""


@dataclass(frozen=True)
class Level:
    """One level: its factor and size along every axis."""

    factor: tuple[int, ...]
    shape: tuple[int, ...]

    def of(self, region: tuple[slice, ...]) -> tuple[slice, ...]:
        """The cells whose windows begin in a region of the base."""
        return tuple(slice(s.start // f, -(-s.stop // f)) for s, f in zip(region, self.factor, strict=True))


@dataclass(frozen=True)
class Tile:
    """A region of the base, by its number."""

    number: int
    region: tuple[slice, ...]


@dataclass(frozen=True)
class Plan:
    """Everything that decides the bytes of a pyramid."""

    source: str
    fingerprint: str
    axes: str
    order: str
    shape: tuple[int, ...]
    dtype: str
    stored: str
    method: str
    nan: str
    levels: tuple[Level, ...]
    chunks: tuple[int, ...]
    tile: tuple[int, ...]
    compressor: str
    version: str
    scale: tuple[float, ...]
    unit: tuple[str, ...]
    name: str

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of tiles along every axis."""
        return tuple(-(-n // t) for n, t in zip(self.shape, self.tile, strict=True))

    def tiles(self) -> Iterator[Tile]:
        """Every tile, in the order in which they are worked on."""
        for number, index in enumerate(product(*map(range, self.counts))):
            yield Tile(number, self.region(index))

    def region(self, index: tuple[int, ...]) -> tuple[slice, ...]:
        """The cells of a tile."""
        steps = zip(index, self.tile, self.shape, strict=True)
        return tuple(slice(i * t, min((i + 1) * t, n)) for i, t, n in steps)

    def owns(self, level: int) -> bool:
        """Whether a chunk of this level lies in one tile alone."""
        factors = self.levels[level].factor
        parts = zip(self.tile, factors, self.chunks_of(level), self.shape, strict=True)
        return all(t >= n or (t // f) % c == 0 for t, f, c, n in parts)

    def chunks_of(self, level: int) -> tuple[int, ...]:
        """The chunks of a level, not larger than the level."""
        return tuple(min(c, n) for c, n in zip(self.chunks, self.levels[level].shape, strict=True))

    def grid(self, level: int) -> tuple[int, ...]:
        """The number of chunks along every axis of a level."""
        return tuple(-(-n // c) for n, c in zip(self.levels[level].shape, self.chunks_of(level), strict=True))

    def to_json(self) -> str:
        """The plan as text; the same text means the same bytes."""
        return json.dumps(asdict(self), indent=1)

    @staticmethod
    def from_json(text: str) -> Plan:
        """The plan that a text describes."""
        data = json.loads(text)
        levels = tuple(Level(tuple(level["factor"]), tuple(level["shape"])) for level in data.pop("levels"))
        fixed: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        return Plan(levels=levels, **fixed)


def make_plan(
    source: Any,
    *,
    method: str = "mean",
    factor: int | dict[str, int] = 2,
    levels: int | None = None,
    chunks: Any = None,
    compressor: str = "blosc",
    version: str = "0.5",
    nan: str = "propagate",
    dtype: str | None = None,
    memory: int = 10**9,
    jobs: int = 1,
    scale: dict[str, float] | None = None,
    unit: dict[str, str] | None = None,
    name: str = "image",
) -> Plan:
    """Decide shapes, chunks and tiles for a source; options without a meaning are refused."""
    if method not in METHODS:
        raise PyramidError("pyramid", f"method={method!r}", f"must be one of {', '.join(METHODS)}", "Y6")
    least = BASELINE + jobs * COPIES * (1 << 10)
    if memory < least:
        raise PyramidError("pyramid", f"memory={memory}", f"must be at least {least} bytes", "Y6")
    axes, shape = source.axes, source.shape
    factors = _factors(axes, factor)
    if 0 in shape:
        raise PyramidError("pyramid", f"{source.path} of shape {shape}", "has no cell", "Y3")
    chosen = _chunks(axes, shape, chunks, source.chunks)
    stored = _stored(source.dtype, method, dtype)
    room = (memory - BASELINE) // max(1, jobs) // COPIES
    size = max(source.dtype.itemsize, stored.itemsize)
    found = _levels(shape, factors, levels, chosen, room // size, memory)
    tile = _tile(shape, found[-1].factor, chosen, source.chunks, room // size, min(room, COMFORTABLE) // size)
    scales, units = {**source.scale, **(scale or {})}, {**source.unit, **(unit or {})}
    order = "".join(axes[source.order.index(i)] for i in range(len(axes)))
    return Plan(
        source.path, source.fingerprint, axes, order, shape, source.dtype.name, stored.name, method, nan, found, chosen,
        tile, compressor, version, tuple(scales.get(a, 1.0) for a in axes), tuple(units.get(a, "") for a in axes), name,
    )  # fmt: skip


def _stored(given: np.dtype[Any], method: str, wanted: str | None) -> np.dtype[Any]:
    """The element type of all levels: the source's, but for sums of integers, which need more room."""
    if wanted is not None and wanted != "same":
        try:
            found = np.dtype(wanted)
        except TypeError as error:
            raise PyramidError("pyramid", f"dtype={wanted!r}", "must be 'same' or the name of a dtype", "Y6") from error
        if not np.can_cast(given, found, "safe") or found.kind not in "biuf":
            raise PyramidError("pyramid", f"dtype={wanted!r}", f"must hold every {given}", "Y6")
        return found
    if wanted is None and method == "sum" and given.kind in "biu":
        return np.dtype("int64" if given.kind == "i" else "uint64")
    return given


def _factors(axes: str, factor: int | dict[str, int]) -> tuple[int, ...]:
    named = factor if isinstance(factor, dict) else {a: factor for a in axes if a in "zyx"}
    for axis, value in named.items():
        if axis not in axes:
            raise PyramidError("pyramid", f"factor {axis}={value}", f"must name one of the axes {axes}", "Y6")
        if value < 1:
            raise PyramidError("pyramid", f"factor {axis}={value}", "must be an integer >= 1", "Y6")
    if max(named.values(), default=1) < 2:
        raise PyramidError("pyramid", f"factor={factor}", "must be at least 2 along one axis", "Y6")
    return tuple(named.get(a, 1) for a in axes)


def _chunks(axes: str, shape: tuple[int, ...], wanted: Any, stored: tuple[int, ...]) -> tuple[int, ...]:
    """The target's chunks: as asked for, as the source has them if of a usual size, else about a million cells."""
    plain = {"t": 1, "c": 1, "z": 1, "y": 1024, "x": 1024}
    if wanted is None:
        kept = 2**16 <= prod(stored) <= 2**23 and stored != shape
        return stored if kept else tuple(min(plain[a], n) for a, n in zip(axes, shape, strict=True))
    if isinstance(wanted, int):
        wanted = {a: wanted for a in axes if a in "zyx"}
    elif not isinstance(wanted, dict):
        if len(wanted) != len(axes):
            raise PyramidError("pyramid", f"chunks={tuple(wanted)}", f"must be one per axis of {axes}", "Y6")
        wanted = dict(zip(axes, wanted, strict=True))
    for axis, value in wanted.items():
        if axis not in axes or value < 1:
            raise PyramidError("pyramid", f"chunks {axis}={value}", f"must be >= 1 along one of the axes {axes}", "Y6")
    return tuple(min(wanted.get(a, plain[a]), n) for a, n in zip(axes, shape, strict=True))


def _level(shape: tuple[int, ...], factors: tuple[int, ...], number: int) -> Level:
    """Level ``number``: an axis is pooled until it has one cell."""
    found = []
    for size, factor in zip(shape, factors, strict=True):
        whole = 1
        for _ in range(number):
            whole = whole if whole >= size else whole * factor
        found.append(whole)
    return Level(tuple(found), tuple(-(-n // f) for n, f in zip(shape, found, strict=True)))


def _levels(
    shape: tuple[int, ...],
    factors: tuple[int, ...],
    count: int | None,
    chunks: tuple[int, ...],
    cells: int,
    memory: int,
) -> tuple[Level, ...]:
    """The base and the levels above it; without a count, until every pooled axis fits in a chunk."""
    found = [_level(shape, factors, 0)]
    while count is None or len(found) <= count:
        last = found[-1]
        sizes = [(n, c) for n, c, f in zip(last.shape, chunks, factors, strict=True) if f > 1]
        if all(n <= 1 for n, _ in sizes) or (count is None and all(n <= max(c, 64) for n, c in sizes)):
            break
        level = _level(shape, factors, len(found))
        if prod(min(f, n) for f, n in zip(level.factor, shape, strict=True)) > cells:
            if count is None and len(found) > 1:
                break
            text = f"has windows of {level.factor} cells, which do not fit in {memory} bytes of memory; more or fewer"
            raise PyramidError("pyramid", f"level {len(found)}", text, "Y6")
        found.append(level)
    return tuple(found)


def _tile(
    shape: tuple[int, ...],
    window: tuple[int, ...],
    chunks: tuple[int, ...],
    stored: tuple[int, ...],
    most: int,
    comfortable: int,
) -> tuple[int, ...]:
    """Whole windows of the coarsest level; whole chunks of the target and of the source as far as memory goes."""
    tile = [min(w, n) for w, n in zip(window, shape, strict=True)]
    for wish in (chunks, stored):
        for axis in reversed(range(len(shape))):
            grown = min(lcm(tile[axis], wish[axis]), -(-shape[axis] // window[axis]) * window[axis])
            if grown != tile[axis] and prod(tile) // tile[axis] * min(grown, shape[axis]) <= most:
                tile[axis] = grown
    while prod(min(t, n) for t, n in zip(tile, shape, strict=True)) * 2 <= comfortable:
        smaller = [i for i in range(len(shape)) if tile[i] < shape[i]]
        if not smaller:
            break
        # The axis with the fewest windows of the coarsest level in a tile, the last of them: chunks become whole early.
        axis = min(reversed(smaller), key=lambda i: tile[i] / (window[i] * chunks[i]))
        tile[axis] *= 2
    return tuple(tile)
