"""Sum pooling: y = sum of the cells of a window, padded cells being zeros.

forward   sum(x); 0 if the window has no cell
JVP       sum(t): the sum is linear
VJP       g to every real cell

With ``nan="ignore"`` NaN cells are skipped; if none is left, the sum is NaN and its derivative 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from halfulp.geometry import Window, windows
from halfulp.records import Shape, SumPool
from halfulp.spec._pooling import Pooling
from halfulp.spec._registry import register
from halfulp.spec._scalars import total
from halfulp.spec.avg_pool import chosen, present


def sum_pool_windows(op: SumPool, spatial: Shape) -> Iterable[Window]:
    """The sliding windows of a plane."""
    return windows(op.axes(spatial))


def sum_pool_value(op: Any, zero: Any, values: Sequence[Any], padded: int) -> Any:
    """The sum of a window; the zeros of the padding matter where all other terms are negative zeros."""
    cells = chosen(values, present(op, values))
    if values and not cells and not padded:
        return values[0]  # all are NaN
    return total([*cells, zero] if padded or not cells else cells)


def sum_pool_jvp_value(op: Any, zero: Any, values: Sequence[Any], tangents: Sequence[Any], padded: int) -> Any:
    """The sum of the tangents of a window."""
    cells = chosen(tangents, present(op, values))
    return total([*cells, zero] if padded or not cells else cells)


def sum_pool_vjp_values(op: Any, zero: Any, values: Sequence[Any], cotangent: Any, padded: int) -> list[Any]:
    """The cotangent for every real cell that takes part."""
    return [cotangent if part else None for part in present(op, values)]


register(SumPool, Pooling(sum_pool_windows, sum_pool_value, sum_pool_jvp_value, sum_pool_vjp_values))
