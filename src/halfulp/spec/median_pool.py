"""Median pooling: y = the middle one of a window's real cells in order, or the mean of the middle two.

Equal cells are in row-major order. A NaN is the value of its window under ``nan="propagate"``, and absent under
``"ignore"`` unless there is nothing else.

    forward   x[a], or (x[a] + x[b]) / 2; 0 if there is no real cell
    JVP       t[a], or (t[a] + t[b]) / 2
    VJP       g to a, or g / 2 to a and to b

Balls that overlap do not decide the order: the value encloses the median, a derivative that of every possible order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from halfulp.numbers import flint
from halfulp.records import MedianPool
from halfulp.spec._pooling import Pooling
from halfulp.spec._registry import register
from halfulp.spec._scalars import hull, is_nan
from halfulp.spec.max_pool import max_pool_windows


def ordered(op: Any, values: Sequence[Any]) -> list[int]:
    """The positions of the cells that are numbers, in order; the first NaN alone where it is the value."""
    nans = [i for i, value in enumerate(values) if is_nan(value)]
    numbers = [i for i in range(len(values)) if i not in nans]
    if nans and (op.nan != "ignore" or not numbers):
        return nans[:1]
    return sorted(numbers, key=values.__getitem__)


def middle(op: Any, values: Sequence[Any]) -> list[int]:
    """The positions of the one or two cells in the middle."""
    order = ordered(op, values)
    return sorted({order[(len(order) - 1) // 2], order[len(order) // 2]})


def undecided(op: Any, values: Sequence[Any]) -> tuple[Any, list[int]] | None:
    """(an enclosure of the median, the positions that may be in the middle) of inexact balls; else None."""
    if not isinstance(values[0], flint.arb) or all(value.is_exact() for value in values):
        return None
    cells = [values[i] for i in ordered(op, values)]
    if is_nan(cells[0]):
        return None
    n = len(cells)
    low, high = sorted(value.lower() for value in cells), sorted(value.upper() for value in cells)
    floor, top = low[(n - 1) // 2], high[n // 2]
    possible = [i for i, value in enumerate(values) if not (is_nan(value) or value < floor or value > top)]
    enclosed = hull(((low[(n - 1) // 2] + low[n // 2]) / 2, (high[(n - 1) // 2] + high[n // 2]) / 2))
    return enclosed, possible


def median_pool_value(op: Any, zero: Any, values: Sequence[Any], padded: int) -> Any:
    """The median of a window's real cells; 0 if it has none."""
    if not values:
        return zero
    balls = undecided(op, values)
    if balls:
        return balls[0]
    return _mean([values[i] for i in middle(op, values)])


def median_pool_jvp_value(op: Any, zero: Any, values: Sequence[Any], tangents: Sequence[Any], padded: int) -> Any:
    """The derivative of a window's median along the tangents of its cells."""
    if not values:
        return zero
    balls = undecided(op, values)
    if balls:
        return hull(tangents[i] for i in balls[1])
    return _mean([tangents[i] for i in middle(op, values)])


def median_pool_vjp_values(op: Any, zero: Any, values: Sequence[Any], cotangent: Any, padded: int) -> list[Any]:
    """What each cell of a window gets of its cotangent; None for the cells that are not in the middle."""
    parts: list[Any] = [None] * len(values)
    if not values:
        return parts
    balls = undecided(op, values)
    for i in balls[1] if balls else ():
        parts[i] = hull((zero, cotangent))
    if balls:
        return parts
    chosen = middle(op, values)
    for i in chosen:
        parts[i] = cotangent if len(chosen) == 1 else cotangent / 2
    return parts


def _mean(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else (values[0] + values[1]) / 2


register(MedianPool, Pooling(max_pool_windows, median_pool_value, median_pool_jvp_value, median_pool_vjp_values))
