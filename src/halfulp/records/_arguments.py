"""Checks and normal forms of the arguments that records share, one function per kind of argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from halfulp.errors import PolicyError, ShapeError
from halfulp.geometry import PADDING_MODES, Padding
from halfulp.records._base import is_integer

TIES = ("first", "last", "all", "split")
NAN = ("propagate", "ignore", "raise")
PRECISION = ("correct", "fast")
LARGEST = 2**60
"""Sizes, strides, paddings and dilations lie below this; arrays are smaller still."""


def is_sequence(value: object) -> bool:
    """A list, tuple or array of one item per axis; not a string."""
    if isinstance(value, (str, bytes)) or getattr(value, "shape", None) == ():
        return False
    return hasattr(value, "__len__") and hasattr(value, "__getitem__")


def rank_of(operator: str, **arguments: Any) -> int:
    """The spatial rank that the sequences among the arguments fix."""
    lengths = {name: len(value) for name, value in arguments.items() if is_sequence(value)}
    if not lengths:
        name, value = next(iter(arguments.items()))
        raise ShapeError(
            operator, f"{name}={value!r}", f"the rank is not known; give one {name} per axis, such as (3, 3)", "W6"
        )
    name, rank = next(iter(lengths.items()))
    for other, length in lengths.items():
        if length != rank:
            raise ShapeError(
                operator,
                f"{other}={arguments[other]!r}",
                f"has {length} items, but {name}={arguments[name]!r} has {rank}",
                "W6",
            )
    if rank == 0:
        raise ShapeError(operator, f"{name}={arguments[name]!r}", "at least one spatial axis is needed", "W6")
    return rank


def per_axis(operator: str, name: str, value: Any, ndim: int, least: int, label: str) -> tuple[int, ...]:
    """An integer for every axis, each at least ``least``."""
    items = tuple(value) if is_sequence(value) else (value,) * ndim
    if len(items) != ndim:
        raise ShapeError(
            operator, f"{name}={value!r}", f"has {len(items)} items, but there are {ndim} spatial axes", "W6"
        )
    for item in items:
        if not is_integer(item):
            raise ShapeError(
                operator, f"{name}={value!r}", f"every {_singular(name)} must be an integer >= {least}", label
            )
        if item < least:
            shown = tuple(value) if is_sequence(value) else value
            raise ShapeError(operator, f"{name}={shown!r}", f"every {_singular(name)} must be >= {least}", label)
    _check_range(operator, name, value, items)
    return tuple(int(item) for item in items)


def _check_range(operator: str, name: str, value: Any, items: Sequence[Any]) -> None:
    """Sizes beyond any array's are refused here, before the window arithmetic would leave 64 bits."""
    if max(items, default=0) >= LARGEST:
        shown = tuple(value) if is_sequence(value) else value
        raise ShapeError(operator, f"{name}={shown!r}", f"every {_singular(name)} must be below 2**60", "I7")


def padding_of(operator: str, value: Any, ndim: int) -> Padding:
    """Pairs (before, after) for every axis, or the name of a mode."""
    if isinstance(value, str):
        if value not in PADDING_MODES:
            raise ShapeError(
                operator,
                f"padding={value!r}",
                "must be an integer >= 0, one integer or (before, after) pair per axis, "
                "'valid', 'same' or 'same_lower'",
                "W2",
            )
        return value  # type: ignore[return-value]  # narrowed by membership, which mypy does not see
    items: Sequence[Any] = tuple(value) if is_sequence(value) else (value,) * ndim
    if len(items) != ndim:
        raise ShapeError(
            operator, f"padding={value!r}", f"has {len(items)} items, but there are {ndim} spatial axes", "W6"
        )
    pairs = []
    for item in items:
        pair = tuple(item) if is_sequence(item) else (item, item)
        if len(pair) != 2 or not all(is_integer(p) for p in pair):
            raise ShapeError(
                operator, f"padding={value!r}", "every padding must be an integer >= 0 or a (before, after) pair", "W2"
            )
        if min(pair) < 0:
            raise ShapeError(operator, f"padding={value!r}", "every padding must be >= 0", "W2")
        _check_range(operator, "padding", value, pair)
        pairs.append((int(pair[0]), int(pair[1])))
    return tuple(pairs)


def choice(operator: str, name: str, value: Any, accepted: tuple[str, ...], label: str) -> None:
    """One of a few words."""
    if not isinstance(value, str) or value not in accepted:
        words = ", ".join(map(repr, accepted))
        raise PolicyError(operator, f"{name}={value!r}", f"must be one of {words}", label)


def flag(operator: str, name: str, value: Any) -> bool:
    """A truth value."""
    if not isinstance(value, (bool, np.bool_)):
        raise PolicyError(operator, f"{name}={value!r}", "must be True or False", "P5")
    return bool(value)


def _singular(name: str) -> str:
    return name.replace("_", " ")
