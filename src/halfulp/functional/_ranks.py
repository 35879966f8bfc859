"""Making an operator's ranked forms (``…1d``, ``…2d``, ``…3d``) out of its form for any rank."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from halfulp.errors import ShapeError
from halfulp.records import Operator

T = TypeVar("T", bound=Operator)


def expand(operator: str, name: str, value: Any, ndim: int | None) -> Any:
    """An integer as one per axis of the rank; sequences must have that rank, where one is asked for."""
    if ndim is None:
        return value
    if not hasattr(value, "__len__") or isinstance(value, str):
        return (value,) * ndim
    if len(value) == 1 and ndim > 1:  # as PyTorch does: one item stands for all axes
        return tuple(value) * ndim
    if len(value) != ndim:
        raise ShapeError(operator, f"{name}={value!r}", f"must be an integer or {ndim} of them", "W6")
    return value


def cached(record: Callable[..., T]) -> Callable[..., T]:
    """``record`` with a memory: the same arguments give the same record without checking them again."""
    remembered = lru_cache(maxsize=1024, typed=True)(record)

    def build(*arguments: Any) -> T:
        try:
            return remembered(*arguments)
        except TypeError:  # lists and arrays have no hash
            return remembered(*(_hashable(argument) for argument in arguments))

    return build


def _hashable(value: Any) -> Any:
    if isinstance(value, (list, tuple)) or (hasattr(value, "tolist") and getattr(value, "ndim", None)):
        return tuple(_hashable(item) for item in value)
    return value
