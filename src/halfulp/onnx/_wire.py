"""The wire format of a model file, as far as it is needed to leave the weights where they are.

A file of weights would be in memory three times while it is read: as bytes, as a message and as arrays. Here the
message is read without the data of its large initializers, which go from the file straight into arrays.
"""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import NamedTuple

_GRAPH, _INITIALIZER, _NAME, _RAW = 7, 5, 8, 9
_LEAST = 4096
"""Smaller tensors stay in the message."""


class Place(NamedTuple):
    """Where the data of a tensor lies in its file."""

    path: Path
    offset: int
    length: int


class Malformed(Exception):
    """The bytes are not the wire format; protobuf's own parser says the rest."""


def split(path: Path) -> tuple[bytes, dict[str, Place]]:
    """The file without the data of large initializers, and where these are, by name."""
    places: dict[str, Place] = {}
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        parts: list[bytes] = []
        for number, start, begin, end in _fields(data, 0, len(data)):
            if number == _GRAPH and begin > start:
                graph = b"".join(_graph(data, begin, end, path, places))
                parts += [data[start : start + 1], _varint_bytes(len(graph)), graph]
            else:
                parts.append(data[start:end])
        return b"".join(parts), places


def _graph(data: mmap.mmap, begin: int, end: int, path: Path, places: dict[str, Place]) -> list[bytes]:
    parts = []
    for number, start, first, last in _fields(data, begin, end):
        found = _tensor(data, first, last) if number == _INITIALIZER and last - first >= _LEAST else None
        if found is None or found[0] in places:  # a name that stands twice is refused by the reader
            parts.append(data[start:last])
            continue
        name, kept, offset, length = found
        places[name] = Place(path, offset, length)
        body = b"".join(kept)
        parts += [data[start : start + 1], _varint_bytes(len(body)), body]
    return parts


def _tensor(data: mmap.mmap, begin: int, end: int) -> tuple[str, list[bytes], int, int] | None:
    """Name, fields without the raw data, and its place; None for a tensor whose values are given in another way."""
    name, kept, raw = None, [], None
    for number, start, first, last in _fields(data, begin, end):
        if number == _RAW:
            if raw is not None:
                return None
            raw = first, last - first
            continue
        if number == _NAME:
            name = bytes(data[first:last])
        kept.append(bytes(data[start:last]))
    if not name or raw is None:
        return None
    try:
        return name.decode(), kept, *raw
    except UnicodeDecodeError:
        return None


def _fields(data: mmap.mmap, begin: int, end: int) -> list[tuple[int, int, int, int]]:
    """(number, start of the field, start and end of its content) of every field of a message."""
    found, position = [], begin
    while position < end:
        start = position
        tag, position = _varint(data, position, end)
        kind = tag & 7
        if kind == 0:
            first = position
            _, position = _varint(data, position, end)
        elif kind in (1, 5):
            first, position = position, position + (8 if kind == 1 else 4)
        elif kind == 2:
            length, first = _varint(data, position, end)
            position = first + length
        else:
            raise Malformed
        if position > end or tag >> 3 == 0:
            raise Malformed
        found.append((tag >> 3, start, first, position))
    return found


def _varint(data: mmap.mmap, position: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= end:
            raise Malformed
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise Malformed


def _varint_bytes(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
