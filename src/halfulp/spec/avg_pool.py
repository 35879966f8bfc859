"""Average pooling: y = (sum of the counted cells) / n.

The counted cells are the real ones and, if ``count_include_pad``, the zeros of the padding; n is their number, or
``divisor_override``. An average over no cell is 0. With ``nan="ignore"`` NaN cells are skipped; if none is
left to count, the average is NaN and its derivative 0.

    forward   sum(x) / n
    JVP       sum(t) / n: the average is linear
    VJP       g / n to every real cell
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from halfulp.geometry import Window, windows
from halfulp.records import AvgPool, Shape
from halfulp.spec._pooling import Pooling
from halfulp.spec._registry import register
from halfulp.spec._scalars import is_nan, total


def avg_pool_windows(op: AvgPool, spatial: Shape) -> Iterable[Window]:
    """The sliding windows of a plane."""
    return windows(op.axes(spatial))


def divisor(op: Any, cells: int, padded: int) -> int:
    """What a window's sum is divided by; 0 where no cell is counted."""
    counted = cells + (padded if op.count_include_pad else 0)
    return counted if counted == 0 or op.divisor_override is None else int(op.divisor_override)


def mean(zero: Any, values: Sequence[Any], n: int, with_zero: bool = False) -> Any:
    """The sum of the values over n, a padded zero among them if asked for; 0 if n is 0."""
    terms = [*values, zero] if with_zero else list(values)
    return total(terms) / n if n else zero


def present(op: Any, values: Sequence[Any]) -> list[bool]:
    """Which real cells take part: all, or those that are numbers."""
    return [op.nan != "ignore" or not is_nan(value) for value in values]


def chosen(values: Sequence[Any], here: Sequence[bool]) -> list[Any]:
    """The values that take part."""
    return [value for value, part in zip(values, here, strict=True) if part]


def avg_pool_value(op: Any, zero: Any, values: Sequence[Any], padded: int) -> Any:
    """The mean of a window."""
    cells = chosen(values, present(op, values))
    n = divisor(op, len(cells), padded)
    if n == 0 and values:
        return values[0]  # all are NaN
    return mean(zero, cells, n, op.count_include_pad and padded > 0)


def avg_pool_jvp_value(op: Any, zero: Any, values: Sequence[Any], tangents: Sequence[Any], padded: int) -> Any:
    """The mean of the tangents of a window."""
    cells = chosen(tangents, present(op, values))
    return mean(zero, cells, divisor(op, len(cells), padded), op.count_include_pad and padded > 0)


def avg_pool_vjp_values(op: Any, zero: Any, values: Sequence[Any], cotangent: Any, padded: int) -> list[Any]:
    """An equal share of the cotangent for every real cell that takes part."""
    here = present(op, values)
    n = divisor(op, sum(here), padded)
    return [cotangent / n if part else None for part in here]


register(AvgPool, Pooling(avg_pool_windows, avg_pool_value, avg_pool_jvp_value, avg_pool_vjp_values))
