"""How many bytes the values of one run take together, so that ``max_bytes`` holds for their sum."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfulp.autograd.traced import strip
from halfulp.errors import ModelError

OBJECT_BYTES = 64
"""What an exact number is counted as, with its place in the array."""

in_use: ContextVar[int] = ContextVar("in_use", default=0)
"""The bytes of all values that are alive while a node runs; nodes add their output to it before they make it."""

iterations: ContextVar[list[int]] = ContextVar("iterations", default=[0])  # noqa: B039  # every run sets its own
"""How many iterations of loops a run has had."""


class Memory:
    """The values of one run. Views count nothing: what is counted is the memory behind them, once.

    Under a transform a value may stay alive in a pullback after its last use, so there nothing is ever given back.
    """

    def __init__(self, limit: int, held: int, keeps: bool) -> None:
        self.limit = limit
        self.live = held
        self._keeps = keeps
        self._uses: dict[int, int] = {}
        self._owned: list[Any] = []

    def hold(self, value: Any) -> None:
        """Count a value that outlives the run: an input."""
        array = strip(value)
        if array is not None:
            root = root_of(array)
            self._owned.append(root)  # so that its identity is not given to another array
            self.add("model", "inputs", value)
            self._uses[id(root)] += 1

    def held_elsewhere(self, array: NDArray[Any]) -> None:
        """Know an array that the model holds and has counted already."""
        self._uses[id(root_of(array))] = self._uses.get(id(root_of(array)), 0) + 1

    def known(self, uses: dict[int, int]) -> None:
        """Know all arrays that the model holds, by :func:`uses_of`."""
        self._uses.update(uses)

    def add(self, owner: str, argument: str, value: Any) -> None:
        """Count a new value, and refuse it if there are too many bytes now."""
        array = value if type(value) is np.ndarray else strip(value)
        if not isinstance(array, np.ndarray):
            return
        root = array if array.base is None else root_of(array)
        key = id(root)
        uses = self._uses.get(key, 0)
        self._uses[key] = uses + 1
        if uses == 0:
            self.live += bytes_of(root)
            if self.live > self.limit:
                rule = f"all values in use take {self.live} bytes, which is more than max_bytes={self.limit}"
                raise ModelError(owner, argument, rule, "O6")

    def drop(self, value: Any) -> None:
        """A value that no later node needs."""
        array = value if type(value) is np.ndarray else strip(value)
        if not isinstance(array, np.ndarray):
            return
        root = array if array.base is None else root_of(array)
        key = id(root)
        uses = self._uses.get(key, 0)
        if uses > 1:
            self._uses[key] = uses - 1
        elif uses == 1:
            del self._uses[key]
            self.live -= 0 if self._keeps else bytes_of(root)


def uses_of(arrays: Iterable[NDArray[Any]]) -> dict[int, int]:
    """How often each memory is used by arrays that a model holds: once to have it, and once as a value of a run."""
    uses: dict[int, int] = {}
    for array in arrays:
        key = id(root_of(array))
        uses[key] = uses.get(key, 0) + 2
    return uses


def bytes_of(array: NDArray[Any]) -> int:
    """The bytes that an array's own memory takes; repeated elements (a stride of 0) take none."""
    if array.size == 0:
        return 0
    if array.flags.c_contiguous and not array.dtype.hasobject:
        return array.nbytes
    if array.dtype.hasobject:
        return int(array.size) * OBJECT_BYTES
    reach = sum((n - 1) * abs(s) for n, s in zip(array.shape, array.strides, strict=True))
    return int(min(array.nbytes, reach + array.itemsize))


def root_of(array: NDArray[Any]) -> NDArray[Any]:
    """The array that owns the memory of a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
