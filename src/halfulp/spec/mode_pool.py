"""Mode pooling: y = the most frequent value of a window's real cells, the smallest if there are several.

The value is that of the first cell, in row-major order, that equals it. NaN as in median pooling.

    forward   x[a]; 0 if there is no real cell
    JVP       t[a]
    VJP       g to a
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from halfulp.errors import DTypeError
from halfulp.numbers import flint
from halfulp.records import ModePool
from halfulp.spec._pooling import Pooling
from halfulp.spec._registry import register
from halfulp.spec.max_pool import max_pool_windows
from halfulp.spec.median_pool import ordered


def most_frequent(op: Any, values: Sequence[Any]) -> int:
    """The position of the first cell with the most frequent value."""
    if any(isinstance(value, flint.arb) and not value.is_exact() for value in values):
        raise DTypeError(op.name, "inexact balls", "a mode needs exact numbers", "N4")
    order = ordered(op, values)
    if len(order) == 1:
        return order[0]
    runs = [list(run) for _, run in groupby(order, key=values.__getitem__)]
    return max(runs, key=len)[0]  # the first of the longest, hence the smallest value


def mode_pool_value(op: Any, zero: Any, values: Sequence[Any], padded: int) -> Any:
    """The mode of a window's real cells; 0 if it has none."""
    return values[most_frequent(op, values)] if values else zero


def mode_pool_jvp_value(op: Any, zero: Any, values: Sequence[Any], tangents: Sequence[Any], padded: int) -> Any:
    """The tangent of the cell that gives the value."""
    return tangents[most_frequent(op, values)] if values else zero


def mode_pool_vjp_values(op: Any, zero: Any, values: Sequence[Any], cotangent: Any, padded: int) -> list[Any]:
    """The cotangent for the cell that gives the value; None for the others."""
    chosen = most_frequent(op, values) if values else -1
    return [cotangent if i == chosen else None for i in range(len(values))]


register(ModePool, Pooling(max_pool_windows, mode_pool_value, mode_pool_jvp_value, mode_pool_vjp_values))
