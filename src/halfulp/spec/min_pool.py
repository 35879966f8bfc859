"""Hard min pooling: y = -max(-x) over the real cells of a window.

The winners are those of hard max pooling on the negated cells, so ``ties`` and ``nan`` mean the same.

    forward   the first winner's value; 0 if there is no real cell
    JVP       t[winner]; the sum of the winners' t ("all"); their mean ("split")
    VJP       g to the winner; g to every winner ("all"); g / m to each of m winners ("split")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from halfulp.records import GlobalMinPool, MinPool
from halfulp.spec._pooling import Pooling
from halfulp.spec._registry import register
from halfulp.spec.global_pool import whole_plane
from halfulp.spec.max_pool import (
    max_pool_index,
    max_pool_jvp_value,
    max_pool_value,
    max_pool_vjp_values,
    max_pool_windows,
)


def min_pool_value(op: Any, zero: Any, values: Sequence[Any], padded: int) -> Any:
    """The minimum of a window's real cells; 0 if it has none."""
    return -max_pool_value(op, zero, negated(values), padded) if values else zero


def min_pool_jvp_value(op: Any, zero: Any, values: Sequence[Any], tangents: Sequence[Any], padded: int) -> Any:
    """The derivative of a window's minimum along the tangents of its cells."""
    return max_pool_jvp_value(op, zero, negated(values), tangents, padded)


def min_pool_vjp_values(op: Any, zero: Any, values: Sequence[Any], cotangent: Any, padded: int) -> list[Any]:
    """What each cell of a window gets of its cotangent; None for the cells that lose."""
    return max_pool_vjp_values(op, zero, negated(values), cotangent, padded)


def min_pool_index(op: Any, values: Sequence[Any], cells: Sequence[int]) -> int:
    """The flat index of the winner that gives the value; -1 for a window without a real cell."""
    return max_pool_index(op, negated(values), cells)


def negated(values: Sequence[Any]) -> list[Any]:
    """The cells with their signs changed."""
    return [-value for value in values]


register(MinPool, Pooling(max_pool_windows, min_pool_value, min_pool_jvp_value, min_pool_vjp_values, min_pool_index))
register(GlobalMinPool, Pooling(whole_plane, min_pool_value, min_pool_jvp_value, min_pool_vjp_values, min_pool_index))
