"""The files of a pyramid: metadata by Zarr, chunks written here, each whole or not at all.

A chunk is written into the folder of the journal and moved into place under its own name in one step. A process that is
killed leaves no broken chunk behind; what it leaves in that folder is deleted with it when the pyramid is whole.
"""

from __future__ import annotations

import itertools
import os
import socket
import threading
from pathlib import Path
from typing import Any

import numpy as np

from halfulp.errors import PyramidError
from halfulp.pyramid._plan import Plan
from halfulp.pyramid._sources import missing

__all__ = ["COMPRESSORS", "STATE", "Chunks", "create", "describe"]

STATE = ".halfulp-pyramid"
"""The folder of an unfinished pyramid that holds its plan, its journal and the chunks that are being written."""
COMPRESSORS = ("blosc", "zstd", "gzip", "none")
_TYPES = {"t": "time", "c": "channel", "z": "space", "y": "space", "x": "space"}
_numbers = itertools.count()


def _codec(plan: Plan) -> tuple[Any, Any]:
    """(what encodes a chunk here, what the metadata says): name:level, such as zstd:3."""
    name, _, text = plan.compressor.partition(":")
    if name not in COMPRESSORS or (text and not text.isdigit()):
        words = ", ".join(COMPRESSORS)
        raise PyramidError("pyramid", f"compressor={plan.compressor!r}", f"must be {words}, or name:level", "Y6")
    try:
        import numcodecs
        import zarr.codecs as codecs
    except ImportError as error:
        raise missing("the target", error) from error
    if name == "none":
        return None, None
    level, size = int(text or {"blosc": 5, "zstd": 3, "gzip": 5}[name]), np.dtype(plan.stored).itemsize
    second = plan.version == "0.4"
    if name == "blosc":
        plain = numcodecs.Blosc("zstd" if level > 5 else "lz4", level, numcodecs.Blosc.SHUFFLE, typesize=size)
        return plain, plain if second else codecs.BloscCodec(
            typesize=size, cname=plain.cname, clevel=level, shuffle="shuffle"
        )
    if name == "zstd":
        plain = numcodecs.Zstd(level)
        return plain, plain if second else codecs.ZstdCodec(level=level)
    plain = numcodecs.GZip(level)
    return plain, plain if second else codecs.GzipCodec(level=level)


def create(folder: Path, plan: Plan) -> None:
    """Write the metadata of every level; the group's own comes last, with :func:`describe`."""
    import zarr

    _, described = _codec(plan)
    second = plan.version == "0.4"
    separator: Any = {"name": "v2" if second else "default", "separator": "/"}
    for number, level in enumerate(plan.levels):
        zarr.create_array(
            store=str(folder / str(number)),
            shape=level.shape,
            chunks=plan.chunks_of(number),
            dtype=plan.stored,
            compressors=described,
            filters=None if second else "auto",
            zarr_format=2 if second else 3,
            chunk_key_encoding=separator,
            fill_value=0,
            dimension_names=None if second else list(plan.axes),
            overwrite=True,
        )


def describe(folder: Path, plan: Plan) -> None:
    """Write what makes the folder a multiscale image."""
    import zarr

    datasets = []
    for number, level in enumerate(plan.levels):
        scale = [s * f for s, f in zip(plan.scale, level.factor, strict=True)]
        moves: list[dict[str, Any]] = [{"type": "scale", "scale": scale}]
        if number:  # the middle of a window
            middle = [s * (f - 1) / 2 for s, f in zip(plan.scale, level.factor, strict=True)]
            moves.append({"type": "translation", "translation": middle})
        datasets.append({"path": str(number), "coordinateTransformations": moves})
    units = zip(plan.axes, plan.unit, strict=True)
    axes = [{"name": a, "type": _TYPES[a], **({"unit": unit} if unit else {})} for a, unit in units]
    details = {"method": f"halfulp pyramid --method {plan.method}", "kwargs": {"nan": plan.nan, "boundary": "pad"}}
    image = {"name": plan.name, "axes": axes, "datasets": datasets, "type": plan.method, "metadata": details}
    made = folder / STATE / "group"  # Zarr's own way of writing a file may leave another one behind when it is killed
    if plan.version == "0.4":
        attributes: dict[str, Any] = {"multiscales": [{"version": "0.4", **image}]}
        zarr.create_group(str(made), zarr_format=2, attributes=attributes, overwrite=True)
    else:
        attributes = {"ome": {"version": "0.5", "multiscales": [image]}}
        zarr.create_group(str(made), zarr_format=3, attributes=attributes, overwrite=True)
    for file in sorted(made.iterdir()):
        file.replace(folder / file.name)


class Chunks:
    """The chunks of every level of a plan, by their index."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder, self.plan = folder, plan
        self.codec, _ = _codec(plan)
        self.dtype = np.dtype(plan.stored).newbyteorder("<")
        self._made: set[Path] = set()

    def path(self, level: int, index: tuple[int, ...]) -> Path:
        """The file of a chunk."""
        top = self.folder / str(level)
        if self.plan.version != "0.4":
            top = top / "c"
        return top.joinpath(*map(str, index))

    def write(self, level: int, index: tuple[int, ...], cells: Any) -> None:
        """Write a chunk; cells beyond the end of the array are zeros."""
        shape = self.plan.chunks_of(level)
        if cells.shape != shape or cells.dtype != self.dtype or not cells.flags.c_contiguous:
            whole = np.zeros(shape, self.dtype)
            whole[tuple(slice(0, n) for n in cells.shape)] = cells
            cells = whole
        data = cells.tobytes() if self.codec is None else self.codec.encode(cells)
        path = self.path(level, index)
        if path.parent not in self._made:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._made.add(path.parent)
        part = self.folder / STATE / f"{socket.gethostname()}.{os.getpid()}.{threading.get_ident()}.{next(_numbers)}"
        try:
            part.write_bytes(data)
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise

    def read(self, level: int, index: tuple[int, ...]) -> Any:
        """A chunk with its padding, zeros if it is not there yet."""
        shape, path = self.plan.chunks_of(level), self.path(level, index)
        if not path.exists():
            return np.zeros(shape, self.dtype)
        data = path.read_bytes()
        return np.frombuffer(data if self.codec is None else self.codec.decode(data), self.dtype).reshape(shape).copy()

    def absent(self, level: int) -> tuple[int, ...] | None:
        """The first chunk of a level that has no file."""
        for index in np.ndindex(*self.plan.grid(level)):
            if not self.path(level, index).exists():
                return tuple(index)
        return None
