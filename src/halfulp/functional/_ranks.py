"""What the functional forms share: the record of a call's arguments, cached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from halfulp.errors import ShapeError
from halfulp.records import Operator, declaration_of

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


def spatial_rank(operator: str, weight: Any) -> int:
    """The rank that a convolution's weight has."""
    axes = int(np.ndim(weight) if not hasattr(weight, "ndim") else weight.ndim)
    if axes < 3:
        raise ShapeError(
            operator, f"weight with {axes} axes", "must have at least one spatial axis after two others", "C2"
        )
    return axes - 2


def builder(record: type[T]) -> Callable[..., T]:
    """What makes a record out of a rank (None: as the arguments say) and its fields in their order, with a memory."""
    declaration = declaration_of(record)
    name, rank = declaration.name, declaration.rank_field
    names = [f.name for f in fields(record) if f.name != "ndim" and f.name not in declaration.hidden]
    if rank is None:
        return cached(lambda ndim, *values: record(*values))
    if rank == "ndim":
        return cached(lambda ndim, *values: record(ndim, *_as_pytorch(names, values, ndim)))  # type: ignore[call-arg]
    place = names.index(rank)

    def build(ndim: int | None, *values: Any) -> T:
        given = _as_pytorch(names, values, ndim or 0)
        axes = declaration.default_rank if ndim is None and not hasattr(given[place], "__len__") else ndim
        given[place] = expand(name if ndim is None else f"{name}{ndim}d", rank, given[place], axes)
        return record(**dict(zip(names, given, strict=True)))

    return cached(build)


_PER_AXIS = ("stride", "padding", "dilation", "output_padding")


def _as_pytorch(names: list[str], values: Sequence[Any], ndim: int) -> list[Any]:
    """Settings of axes as PyTorch takes them: one item stands for all axes, no stride for the kernel's size."""
    given = list(values)
    for i, name in enumerate(names[: len(given)]):
        if name in _PER_AXIS and isinstance(given[i], (tuple, list)):
            if len(given[i]) == 1 and ndim > 1:
                given[i] = tuple(given[i]) * ndim
            elif not given[i] and name == "stride":
                given[i] = None
    return given


def builders(*records: type[Operator]) -> list[Callable[..., Any]]:
    """The builders of these records."""
    return [builder(record) for record in records]


def value(op: Operator, input: Any, out: Any) -> Any:
    """``op(input, out=out)``; a small call is faster without the keyword."""
    return op(input) if out is None else op(input, out=out)


def cached(record: Callable[..., T]) -> Callable[..., T]:
    """``record`` with a memory: the same arguments give the same record without checking them again.

    The types of the items are part of the memory's key: (2.0, 2) equals (2, 2) but is not an accepted kernel size.
    """

    @lru_cache(maxsize=1024, typed=True)
    def remembered(types: tuple[Any, ...], *arguments: Any) -> T:
        return record(*arguments)

    def build(*arguments: Any) -> T:
        try:
            return remembered(_types(arguments), *arguments)
        except TypeError:  # lists and arrays have no hash
            arguments = tuple(_hashable(argument) for argument in arguments)
            return remembered(_types(arguments), *arguments)

    return build


def _types(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The types inside the tuples among these arguments; the cache itself tells the types of the others apart."""
    return tuple([tuple([type(item) for item in a]) + _types(a) for a in arguments if type(a) is tuple])


def _hashable(value: Any) -> Any:
    if isinstance(value, (list, tuple)) or (hasattr(value, "tolist") and getattr(value, "ndim", None)):
        return tuple(_hashable(item) for item in value)
    return value
