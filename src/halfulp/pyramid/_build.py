"""Making a pyramid: tiles in threads or on a cluster, a journal of those that are done, a folder moved into place last.

Until it is whole, a pyramid lies beside its target under the name TARGET.partial. The journal has a line for every tile
whose chunks are all written; a line counts only if it is whole itself.
"""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from halfulp.errors import PyramidError
from halfulp.pyramid._levels import levels_of
from halfulp.pyramid._plan import Plan, Tile
from halfulp.pyramid._sources import Source, open_source
from halfulp.pyramid._store import STATE, Chunks, create, describe

__all__ = ["Loose", "build", "partial_of", "work"]

Loose = list[tuple[int, tuple[slice, ...], Any]]
"""(level, region, cells) of a tile that are parts of chunks; the chunks lie in several tiles."""
Progress = Callable[[int, int], None]


def partial_of(target: Path) -> Path:
    """Where an unfinished pyramid lies."""
    return target.with_name(target.name + ".partial")


def work(plan: Plan, source: Source, chunks: Chunks, tile: Tile) -> Loose:
    """Read a tile, make its levels, and write every chunk that lies in it; the rest is returned."""
    base = source.read(tile.region)
    loose: Loose = []
    made = levels_of(base, [level.factor for level in plan.levels], plan.method, plan.stored, plan.nan)
    for number, cells in enumerate(made):
        region = plan.levels[number].of(tile.region)
        if plan.owns(number):
            _write(chunks, number, region, cells)
        else:
            loose.append((number, region, cells))
    return loose


def _write(chunks: Chunks, level: int, region: tuple[slice, ...], cells: Any) -> None:
    """Write the chunks of a region that begins and ends with whole chunks, or at the end of the array."""
    sizes = chunks.plan.chunks_of(level)
    spans = [range(s.start // c, -(-s.stop // c)) for s, c in zip(region, sizes, strict=True)]
    for index in product(*spans):
        own = tuple(slice(i * c - s.start, (i + 1) * c - s.start) for i, c, s in zip(index, sizes, region, strict=True))
        chunks.write(level, index, cells[own])


def _merge(chunks: Chunks, loose: Loose) -> None:
    """Put parts of chunks into their chunks. One thread of one process does this."""
    for level, region, cells in loose:
        sizes = chunks.plan.chunks_of(level)
        spans = [range(s.start // c, -(-s.stop // c)) for s, c in zip(region, sizes, strict=True)]
        for index in product(*spans):
            whole = chunks.read(level, index)
            inside, outside = [], []
            for i, c, s in zip(index, sizes, region, strict=True):
                start, stop = max(s.start, i * c), min(s.stop, (i + 1) * c)
                inside.append(slice(start - i * c, stop - i * c))
                outside.append(slice(start - s.start, stop - s.start))
            whole[tuple(inside)] = cells[tuple(outside)]
            chunks.write(level, index, whole)


class Journal:
    """The tiles that are done, one line each, on a file that only one process has open."""

    def __init__(self, path: Path) -> None:
        self.done = {number for line in _lines(path) if (number := _number(line)) is not None}
        self._file = path.open("ab")
        try:
            _lock(self._file, path)
        except PyramidError:
            self._file.close()
            raise
        if path.stat().st_size and not path.read_bytes().endswith(b"\n"):
            self._file.write(b"\n")

    def add(self, number: int) -> None:
        """Note that a tile is done."""
        text = str(number)
        self._file.write(f"{text} {zlib.crc32(text.encode()):08x}\n".encode())
        self._file.flush()
        self.done.add(number)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="ascii", errors="replace").splitlines() if path.exists() else []


def _number(line: str) -> int | None:
    """The tile of a whole line."""
    text, _, check = line.partition(" ")
    return int(text) if text.isdigit() and check == f"{zlib.crc32(text.encode()):08x}" else None


def _lock(file: Any, path: Path) -> None:
    """Make this the only process that writes here; the system lets go when the process ends, however it ends."""
    try:
        import fcntl
    except ImportError:  # Windows refuses to open a file twice for writing by itself
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        text = "another process is writing this pyramid"
        raise PyramidError("pyramid", str(path.parent.parent), text, "Y5") from error


def build(
    plan: Plan,
    source: Source,
    target: Path,
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    overwrite: bool = False,
    progress: Progress = lambda done, total: None,
) -> Plan:
    """Make the pyramid, or go on with it; the result is the plan that it has."""
    folder = partial_of(target)
    _refuse_targets(Path(source.path), target)
    if target.exists() and not overwrite:
        if (target / STATE).exists():  # killed between its last two steps
            shutil.rmtree(target / STATE)
            return plan
        raise PyramidError("pyramid", str(target), "exists already; --overwrite replaces it", "Y5")
    plan = _begin(plan, folder, overwrite)
    journal = Journal(folder / STATE / "done")
    chunks = Chunks(folder, plan)
    try:
        total = int(np.prod(plan.counts))
        progress(len(journal.done), total)
        tiles = (tile for tile in plan.tiles() if tile.number not in journal.done)
        run = (
            _threads(plan, source, chunks, tiles, jobs)
            if scheduler is None
            else _cluster(plan, folder, tiles, scheduler)
        )
        for number, loose in run:
            _merge(chunks, loose)
            journal.add(number)
            progress(len(journal.done), total)
        for level in range(len(plan.levels)):
            gap = chunks.absent(level)
            if gap is not None:
                raise PyramidError("pyramid", str(chunks.path(level, gap)), "is gone; --overwrite starts again", "Y5")
        describe(folder, plan)
    finally:
        journal.close()
    if target.exists():
        shutil.rmtree(target)
    folder.rename(target)
    shutil.rmtree(target / STATE)
    return plan


def _refuse_targets(source: Path, target: Path) -> None:
    """Nothing is replaced but Zarr data and empty folders, and never the source."""
    here, there = target.resolve(), source.resolve()
    if here == there or here in there.parents or there in here.parents:
        raise PyramidError("pyramid", str(target), f"is, holds or lies in the source {source}", "Y5")
    marks = ("zarr.json", ".zgroup", ".zarray", ".zattrs", STATE)
    if target.exists() and not target.is_dir():
        raise PyramidError("pyramid", str(target), "is a file; a pyramid is a folder", "Y5")
    if target.exists() and any(target.iterdir()) and not any((target / mark).exists() for mark in marks):
        raise PyramidError("pyramid", str(target), "is a folder of other files, which is never replaced", "Y5")


def _begin(plan: Plan, folder: Path, overwrite: bool) -> Plan:
    """Make the folder, or find the one of an earlier run; its plan counts, which may have other tiles."""
    state = folder / STATE / "plan.json"
    if folder.exists() and state.exists():
        found = Plan.from_json(state.read_text(encoding="utf-8"))
        if replace(found, tile=plan.tile) == plan:
            return found
        if not overwrite:
            names = [k for k in vars(plan) if k != "tile" and getattr(plan, k) != getattr(found, k)]
            text = f"is an unfinished pyramid with another {', '.join(names)}; --overwrite starts again"
            raise PyramidError("pyramid", str(folder), text, "Y5")
    elif folder.exists() and any(folder.iterdir()) and not (folder / STATE).exists():
        raise PyramidError("pyramid", str(folder), "is in the way: no pyramid that was begun here", "Y5")
    if folder.exists():
        shutil.rmtree(folder)
    (folder / STATE).mkdir(parents=True)
    create(folder, plan)
    written = state.with_suffix(".new")
    written.write_text(plan.to_json(), encoding="utf-8")
    written.replace(state)
    return plan


def _threads(
    plan: Plan, source: Source, chunks: Chunks, tiles: Iterator[Tile], jobs: int
) -> Iterator[tuple[int, Loose]]:
    """Tiles in threads, no more of them at a time than memory was counted for."""
    with ThreadPoolExecutor(jobs) as pool:
        waiting: dict[Future[Loose], int] = {}
        try:
            for tile in tiles:
                waiting[pool.submit(work, plan, source, chunks, tile)] = tile.number
                if len(waiting) >= jobs:
                    yield from _finished(waiting)
            while waiting:
                yield from _finished(waiting)
        finally:
            for future in waiting:
                future.cancel()


def _finished(waiting: dict[Future[Loose], int]) -> Iterator[tuple[int, Loose]]:
    done, _ = wait(waiting, return_when=FIRST_COMPLETED)
    for future in done:
        number = waiting.pop(future)
        yield number, future.result()


def _remote(text: str, folder: str, number: int) -> Loose:
    """Runs on a worker of a cluster, which sees the same files."""
    plan = Plan.from_json(text)
    with open_source(plan.source, plan.order) as source:
        if source.fingerprint != plan.fingerprint:
            raise PyramidError("pyramid", plan.source, "is another file on this worker", "Y3")
        index = tuple(int(i) for i in np.unravel_index(number, plan.counts))
        return work(plan, source, Chunks(Path(folder), plan), Tile(number, plan.region(index)))


def _cluster(plan: Plan, folder: Path, tiles: Iterator[Tile], address: str) -> Iterator[tuple[int, Loose]]:
    """Tiles on the workers of a Dask scheduler, two at a time for each of their threads."""
    try:
        import distributed
    except ImportError as error:
        text = "needs a package: pip install 'halfulp[arrays]'"
        raise PyramidError("pyramid", f"scheduler={address!r}", text, "Y6") from error
    make: Any = distributed.Client
    try:
        client = make(address, timeout=10, set_as_default=False)  # the caller may have a client of their own
    except (OSError, ValueError) as error:
        raise PyramidError("pyramid", f"scheduler={address!r}", str(error), "Y6") from error
    text, place = plan.to_json(), str(folder.resolve())
    try:
        several = max(2, 2 * sum(client.nthreads().values()))
        each: Any = distributed.as_completed(loop=client.loop)
        numbers: dict[Any, int] = {}
        for tile in tiles:
            future = client.submit(_remote, text, place, tile.number, pure=False, retries=3)
            numbers[future.key] = tile.number
            each.add(future)
            if len(numbers) >= several:
                future = next(each)
                yield numbers.pop(future.key), future.result()
        while numbers:
            future = next(each)
            yield numbers.pop(future.key), future.result()
    finally:
        client.close()
