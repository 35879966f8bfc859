"""Hard max pooling: y = max of the real cells of a window.

The winners of a window are the cells that equal its maximum, thinned by ``ties``: the first, the last, or all of them.
A NaN is greater than everything under ``nan="propagate"`` and absent under ``"ignore"``.

    forward   the first winner's value; 0 if there is no real cell
    JVP       t[winner]; the sum of the winners' t ("all"); their mean ("split")
    VJP       g to the winner; g to every winner ("all"); g / m to each of m winners ("split")

Where balls overlap so that the winner is not decided, the value encloses the maximum and a derivative encloses that of
every possible winner.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

from halfulp.geometry import Window, windows
from halfulp.numbers import flint
from halfulp.records import MaxPool, Shape
from halfulp.spec._pooling import Pooling
from halfulp.spec._registry import register
from halfulp.spec._scalars import hull, is_nan, is_rational, total


def max_pool_windows(op: MaxPool, spatial: Shape) -> Iterable[Window]:
    """The sliding windows of a plane."""
    return windows(op.axes(spatial))


def winners(op: Any, values: Sequence[Any]) -> list[int]:
    """The positions in a window that win, in row-major order; several only under ties "all" and "split"."""
    nans = [i for i, value in enumerate(values) if is_nan(value)] if not is_rational(values[0]) else []
    if nans and (op.nan != "ignore" or len(nans) == len(values)):
        best = nans
    else:
        top = max(values[i] for i in range(len(values)) if i not in nans) if nans else max(values)
        if op.ties == "first":
            return [list(values).index(top)]
        # an inexact ball does not even equal itself
        best = [i for i, value in enumerate(values) if value is top or value == top]
    if op.ties == "first":
        return best[:1]
    return best[-1:] if op.ties == "last" else best


def undecided(op: Any, values: Sequence[Any]) -> list[int]:
    """The positions of all possible winners, if these are balls that do not decide; else nothing."""
    if not values or not isinstance(values[0], flint.arb):
        return []
    usable = [i for i, value in enumerate(values) if not is_nan(value)]
    if len(usable) < len(values) and (op.nan != "ignore" or not usable):
        return []
    floor = max(values[i].lower() for i in usable)
    possible = [i for i in usable if not values[i] < floor]
    decided = len(possible) == 1 or all(values[i].is_exact() for i in possible)
    return [] if decided else possible


def max_pool_value(op: Any, zero: Any, values: Sequence[Any], padded: int) -> Any:
    """The maximum of a window's real cells; 0 if it has none."""
    if not values:
        return zero
    if is_rational(values[0]):  # equal rationals are one number, whichever of them wins
        return max(values)
    possible = undecided(op, values)
    if possible:
        return reduce(lambda a, b: a.max(b), (values[i] for i in possible))
    return values[winners(op, values)[0]]


def max_pool_jvp_value(op: Any, zero: Any, values: Sequence[Any], tangents: Sequence[Any], padded: int) -> Any:
    """The derivative of a window's maximum along the tangents of its cells."""
    if not values:
        return zero
    possible = undecided(op, values)
    if possible:
        if op.ties == "all":  # any nonempty set of them may win
            return total([hull((zero, tangents[i])) for i in possible])
        return hull(tangents[i] for i in possible)
    won = winners(op, values)
    direction = total([tangents[i] for i in won])
    return direction / len(won) if op.ties == "split" else direction


def max_pool_vjp_values(op: Any, zero: Any, values: Sequence[Any], cotangent: Any, padded: int) -> list[Any]:
    """What each cell of a window gets of its cotangent; None for the cells that lose."""
    parts: list[Any] = [None] * len(values)
    if not values:
        return parts
    possible = undecided(op, values)
    if possible:
        for i in possible:
            parts[i] = hull((zero, cotangent))
        return parts
    won = winners(op, values)
    for i in won:
        parts[i] = cotangent / len(won) if op.ties == "split" else cotangent
    return parts


def max_pool_index(op: Any, values: Sequence[Any], cells: Sequence[int]) -> int:
    """The flat index of the winner that gives the value; -1 for a window without a real cell."""
    return cells[winners(op, values)[0]] if cells else -1


register(MaxPool, Pooling(max_pool_windows, max_pool_value, max_pool_jvp_value, max_pool_vjp_values, max_pool_index))
