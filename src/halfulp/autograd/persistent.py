"""An immutable sequence that is extended without copying it: the structure under the tape.

A tree of tuples of 32 with the newest items in a tail of their own. Appending copies the tail, at most 31 pointers, and
every 32nd time one path of the tree; nothing that exists is touched. So two sequences can grow from the same ancestor,
in two threads, and what only a dropped branch held is freed. Reading takes a step for every factor of 32 in the length.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
_BITS = 5
_WIDTH = 1 << _BITS
_MASK = _WIDTH - 1


class Persistent(Generic[T]):
    """A sequence with ``append`` that gives a longer sequence and leaves this one alone.

    >>> short = Persistent().append("a").append("b")
    >>> long = short.append("c")
    >>> (list(short), list(long), long[2])
    (['a', 'b'], ['a', 'b', 'c'], 'c')
    """

    __slots__ = ("_height", "_root", "_start", "_tail", "size")

    def __init__(
        self, size: int = 0, start: int = 0, height: int = 0, root: Any = (), tail: tuple[T, ...] = ()
    ) -> None:
        self.size = size
        self._start = start  # the position of the tail's first item
        self._height = height  # levels of the tree above its tuples of items
        self._root = root
        self._tail = tail

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, position: int) -> T:
        """The item at a position from 0 to the length, which the caller has checked."""
        if position >= self._start:
            return self._tail[position - self._start]
        node = self._root
        for level in range(self._height * _BITS, 0, -_BITS):
            node = node[position >> level & _MASK]
        return node[position & _MASK]  # type: ignore[no-any-return]

    def append(self, item: T) -> Persistent[T]:
        """This sequence with one more item."""
        size = self.size
        if size - self._start < _WIDTH:
            return Persistent(size + 1, self._start, self._height, self._root, (*self._tail, item))
        root, height = _with_chunk(self._root, self._height, self._start, self._tail)
        return Persistent(size + 1, size, height, root, (item,))

    def __iter__(self) -> Iterator[T]:
        return iter(self.upto(self.size))

    def upto(self, stop: int) -> list[T]:
        """The first ``stop`` items."""
        items: list[T] = []
        if self._start:
            _collect(self._root, self._height, items)
        items.extend(self._tail)
        del items[stop:]
        return items


def _with_chunk(root: Any, height: int, position: int, chunk: tuple[Any, ...]) -> tuple[Any, int]:
    """(tree, height) with the chunk of items that starts at ``position`` added at its end."""
    if position == 0:
        return chunk, 0
    if position >> (height + 1) * _BITS:  # the tree is full: one more level
        return (root, _branch(chunk, height)), height + 1
    return _placed(root, height, position, chunk), height


def _placed(node: Any, height: int, position: int, chunk: tuple[Any, ...]) -> Any:
    """A copy of the path to ``position`` with the chunk at its end."""
    if height == 0:
        return chunk
    slot = position >> height * _BITS & _MASK
    if slot == len(node):
        return (*node, _branch(chunk, height - 1))
    return (*node[:slot], _placed(node[slot], height - 1, position, chunk))


def _branch(chunk: tuple[Any, ...], height: int) -> Any:
    for _ in range(height):
        chunk = (chunk,)
    return chunk


def _collect(node: Any, height: int, items: list[Any]) -> None:
    if height == 0:
        items.extend(node)
        return
    for child in node:
        _collect(child, height - 1, items)
