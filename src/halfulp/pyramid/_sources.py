"""What a pyramid is made from: a Zarr array, a TIFF file or a ``.npy`` file, read region by region."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from halfulp.errors import PyramidError

__all__ = ["AXES", "Source", "missing", "open_source", "regions_text"]

AXES = "tczyx"
"""The axes that OME-Zarr knows, in its order."""
_DEFAULT = {2: "yx", 3: "zyx", 4: "czyx", 5: "tczyx"}
_TIFF = {"S": "c", "C": "c", "T": "t", "Z": "z", "Y": "y", "X": "x"}


@dataclass
class Source:
    """An array that is read by regions, its axes brought into the order of OME-Zarr.

    ``chunks`` are the pieces in which it is stored, or its shape where any piece can be read.
    """

    path: str
    array: Any
    axes: str
    order: tuple[int, ...]
    fingerprint: str
    chunks: tuple[int, ...]
    scale: dict[str, float] = field(default_factory=dict)
    unit: dict[str, str] = field(default_factory=dict)
    file: Any = None

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        if self.file is not None:
            self.file.close()

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, in the order of ``axes``."""
        return tuple(int(self.array.shape[i]) for i in self.order)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type in native byte order."""
        found: np.dtype[Any] = np.dtype(self.array.dtype).newbyteorder("=")
        return found

    def read(self, region: tuple[slice, ...]) -> Any:
        """A region as a new array in memory; what cannot be read or decoded is an error that names it."""
        own: list[slice] = [slice(None)] * len(region)
        for place, axis in enumerate(self.order):
            own[axis] = region[place]
        try:
            found = np.asarray(self.array[tuple(own)])
        except PyramidError:
            raise
        except Exception as error:  # codecs and stores raise whatever they like
            reason = str(error).split("\n")[0] or type(error).__name__
            text = f"cannot be read at [{regions_text(region)}]: {reason}"
            raise PyramidError("pyramid", self.path, text, "Y3") from error
        return np.ascontiguousarray(found.transpose(self.order), dtype=self.dtype)


def regions_text(region: tuple[slice, ...]) -> str:
    """A region as it is written in an index."""
    return ", ".join(f"{s.start}:{s.stop}" for s in region)


def missing(what: str, error: ImportError) -> PyramidError:
    """What is said where a package is missing."""
    return PyramidError("pyramid", what, f"needs a package: pip install 'halfulp[arrays]' ({error})", "Y3")


def open_source(path: str, axes: str | None = None) -> Source:
    """Open an array by its name; ``axes`` are the names of its axes, one letter each."""
    place = Path(path)
    if not place.exists():
        raise PyramidError("pyramid", path, "there is no such file or folder", "Y3")
    if place.is_dir():
        return _zarr(path, axes)
    if place.suffix.lower() in (".tif", ".tiff", ".btf", ".tf8", ".ome"):
        return _tiff(path, axes)
    if place.suffix.lower() == ".npy":
        return _npy(path, axes)
    text = "must be a Zarr array or group (a folder), a TIFF file or a .npy file"
    raise PyramidError("pyramid", path, text, "Y3")


def _made(path: str, array: Any, axes: str | None, known: str | None, mark: str, chunks: Any, **more: Any) -> Source:
    """A source with checked axes."""
    names = axes or known or _DEFAULT.get(array.ndim)
    if names is None:
        raise PyramidError("pyramid", path, f"has {array.ndim} axes; OME-Zarr has 2 to 5", "Y4")
    names = names.lower()
    if len(names) != array.ndim or len(set(names)) != len(names) or not set(names) <= set(AXES):
        text = f"must name the {array.ndim} axes of shape {tuple(array.shape)}, each once, out of {', '.join(AXES)}"
        raise PyramidError("pyramid", f"axes={names!r}", text, "Y4")
    if not {"y", "x"} <= set(names):
        raise PyramidError("pyramid", f"axes={names!r}", "must have y and x", "Y4")
    if np.dtype(array.dtype).kind not in "biuf" or np.dtype(array.dtype).itemsize > 8:
        text = "must be bool, an integer type, float16, float32 or float64"
        raise PyramidError("pyramid", f"{path} of dtype {array.dtype}", text, "Y3")
    order = tuple(sorted(range(array.ndim), key=lambda i: AXES.index(names[i])))
    kept = tuple(int(chunks[i]) for i in order)
    return Source(path, array, "".join(names[i] for i in order), order, mark, kept, **more)


def _stamp(*files: Path) -> str:
    """A mark that changes when the files do."""
    mark = hashlib.sha256()
    for file in files:
        state = file.stat()
        mark.update(f"{file.name} {state.st_size} {state.st_mtime_ns}\n".encode())
    return mark.hexdigest()


def _npy(path: str, axes: str | None) -> Source:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise PyramidError("pyramid", path, f"is not a complete .npy file: {error}", "Y3") from error
    return _made(path, _Fresh(path, array), axes, None, _stamp(Path(path)), array.shape)


class _Fresh:
    """A ``.npy`` file that is mapped anew for every region: pages of a long mapping would count as memory in use."""

    def __init__(self, path: str, array: Any) -> None:
        self.path, self.shape, self.dtype, self.ndim = path, array.shape, array.dtype, array.ndim

    def __getitem__(self, region: Any) -> Any:
        return np.array(np.load(self.path, mmap_mode="r", allow_pickle=False)[region])


def _zarr(path: str, axes: str | None) -> Source:
    try:
        import zarr
    except ImportError as error:
        raise missing(path, error) from error
    try:
        node: Any = zarr.open(path, mode="r")
    except Exception as error:
        raise PyramidError("pyramid", path, f"is not a Zarr array or group: {error}", "Y3") from error
    known, array = None, node
    more: dict[str, Any] = {}
    files = [Path(path)]
    if isinstance(node, zarr.Group):
        attributes: Any = dict(node.attrs)
        scales = attributes.get("ome", attributes).get("multiscales") or ()
        if not scales:
            text = f"is a group without multiscales; name one of its arrays: {', '.join(sorted(node.array_keys()))}"
            raise PyramidError("pyramid", path, text, "Y3")
        first = scales[0]["datasets"][0]
        array, files = node[first["path"]], [Path(path) / first["path"]]
        known, more = _described(scales[0], first)
    marks = [f for folder in files for f in (folder / "zarr.json", folder / ".zarray") if f.exists()]
    chunks = getattr(array, "shards", None) or array.chunks
    return _made(path, array, axes, known, _stamp(*marks), chunks, **more)


def _described(multiscale: Any, dataset: Any) -> tuple[str | None, dict[str, Any]]:
    """Axes, scale and units of a multiscale image."""
    axes = multiscale.get("axes") or ()
    names = [a["name"] if isinstance(a, dict) else a for a in axes]
    units = {a["name"]: a["unit"] for a in axes if isinstance(a, dict) and "unit" in a}
    found = [t["scale"] for t in dataset.get("coordinateTransformations", ()) if t.get("type") == "scale"]
    scale = dict(zip(names, map(float, found[0]), strict=True)) if found and names else {}
    return "".join(names) or None, {"scale": scale, "unit": units}


def _tiff(path: str, axes: str | None) -> Source:
    try:
        import tifffile
        import zarr
    except ImportError as error:
        raise missing(path, error) from error
    file: Any = None
    try:
        with _complaints() as complaints:
            file = tifffile.TiffFile(path)
            several = file.series
        if complaints:
            raise PyramidError("pyramid", path, f"is not a complete TIFF file: {complaints[0]}", "Y3")
        if not several:
            raise PyramidError("pyramid", path, "is a TIFF file without an image", "Y3")
        series = several[0]
        _whole(path, series)
        array: Any = zarr.open(series.aszarr(level=0), mode="r")
        letters = [_TIFF.get(letter, "") for letter in series.axes]
        known = "".join(letters) if all(letters) and len(set(letters)) == len(letters) else None
        return _made(path, array, axes, known, _stamp(Path(path)), array.chunks, **_ome(file), file=file)
    except BaseException as error:
        if file is not None:
            file.close()
        if isinstance(error, PyramidError) or not isinstance(error, Exception):
            raise
        raise PyramidError("pyramid", path, f"is not a complete TIFF file: {error}", "Y3") from error


@contextmanager
def _complaints() -> Iterator[list[str]]:
    """The errors that tifffile logs: it goes on with the pages that it could read, which is not the image."""
    found: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage())

    handler, logger = Handler(logging.ERROR), logging.getLogger("tifffile")
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield found
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate


def _whole(path: str, series: Any) -> None:
    """Refuse a file that ends before its last strip or tile: readers fill the rest with zeros."""
    size = Path(path).stat().st_size
    for number, page in enumerate(series.pages):
        if page is None:
            raise PyramidError("pyramid", path, f"page {number} of {len(series.pages)} is missing", "Y3")
        where = getattr(page, "dataoffsets", ())
        if any(at + count > size for at, count in zip(where, page.databytecounts, strict=True)):
            text = f"is truncated: page {number} lies beyond the end of the file ({size} bytes)"
            raise PyramidError("pyramid", path, text, "Y3")


def _ome(file: Any) -> dict[str, Any]:
    """The size of a cell, where OME-XML says it."""
    if not file.is_ome:
        return {}
    import tifffile

    image = tifffile.xml2dict(file.ome_metadata)["OME"]["Image"]
    pixels = (image[0] if isinstance(image, list) else image)["Pixels"]
    scale = {a: float(pixels[f"PhysicalSize{a.upper()}"]) for a in "zyx" if f"PhysicalSize{a.upper()}" in pixels}
    names = {"µm": "micrometer", "um": "micrometer", "nm": "nanometer", "mm": "millimeter"}
    unit = {a: names[u] for a in scale if (u := pixels.get(f"PhysicalSize{a.upper()}Unit", "µm")) in names}
    return {"scale": scale, "unit": unit}
