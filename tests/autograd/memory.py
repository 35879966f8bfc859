"""How many bytes a pullback keeps, counted by walking what it refers to; and the same for PyTorch by its own hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch


def held_bytes(root: Any, without: Iterable[Any]) -> int:
    """The bytes of all arrays that can be reached from ``root``, each buffer once, those of ``without`` left out."""
    skipped = {id(_owner(array)) for array in without}
    seen: set[int] = set()
    waiting, total = [root], 0
    while waiting:
        thing = waiting.pop()
        if isinstance(thing, np.ndarray):
            thing = _owner(thing)
        if id(thing) in seen or id(thing) in skipped or isinstance(thing, (type, ModuleType)):
            continue
        seen.add(id(thing))
        if isinstance(getattr(thing, "nbytes", None), int):  # an array, or a pullback of the compiled core
            total += thing.nbytes
        else:
            waiting.extend(_parts(thing))
    return total


def _owner(array: Any) -> Any:
    while isinstance(array, np.ndarray) and isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _parts(thing: Any) -> list[Any]:
    if isinstance(thing, FunctionType):
        return [*(thing.__closure__ or ()), *(thing.__defaults__ or ())]
    if isinstance(thing, CellType):
        return [thing.cell_contents]
    if isinstance(thing, MethodType):
        return [thing.__self__, thing.__func__]
    if isinstance(thing, dict):
        return list(thing.values())
    if isinstance(thing, (list, tuple, set)):
        return list(thing)
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    return [
        *(vars(thing).values() if hasattr(thing, "__dict__") else ()),
        *(getattr(thing, name) for name in slots if name != "__weakref__" and hasattr(thing, name)),
    ]


def torch_bytes(function: Callable[[], Any], without: Iterable[torch.Tensor]) -> int:
    """The bytes of all tensors that PyTorch saves for the backward pass of ``function()``."""
    skipped = {tensor.untyped_storage().data_ptr() for tensor in without}
    saved: dict[int, int] = {}
    alive = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in skipped:
            saved[storage.data_ptr()] = storage.nbytes()
        alive.append(tensor)  # a freed tensor's address could come back
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        function()
    return sum(saved.values())
