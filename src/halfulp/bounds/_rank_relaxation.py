"""Planes around a median or a mode of a window.

Both lie between a function ``bottom`` and a function ``top`` of the cells: for a median both are the median, for a mode
they are the smallest and the largest cell. Each of the two grows with every cell, by at most what the cell grows by, so
over the box

    top(x) - x_j  <=  top(u but l_j) - l_j,        bottom(x) - x_j  >=  bottom(l but u_j) - u_j.

A plane with slopes ``s_j >= 0`` that sum to at most 1 is a mixture of these and of the constants top(u) and bottom(l).
The code takes a slope of 1 for the cell, or 1/2 for the two cells, in the middle of the midpoints, or no slope,
whichever plane is closer at the midpoint.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from halfulp.bounds._directed import add_down, add_up, mul_down, mul_up, sub_down, sub_up
from halfulp.bounds._max_relaxation import Flags, Floats, Planes

Ranks = NDArray[np.int64]

__all__ = ["rank_planes", "rank_range"]


def rank_range(lower: Floats, upper: Floats, real: Flags, function: str) -> tuple[Floats, Floats]:
    """Bounds of the median or mode of each window; the range of a median is exact but for one rounding outward.

    >>> low, high, real = np.array([0.0, 1.0, 5.0]), np.array([2.0, 4.0, 9.0]), np.ones(3, dtype=bool)
    >>> [end.item() for end in rank_range(low, high, real, "median")]
    [1.0, 4.0]
    >>> [end.item() for end in rank_range(low, high, real, "mode")]
    [0.0, 9.0]
    """
    return _bottom(lower, real, function), _top(upper, real, function)


def _middle(count: Ranks) -> tuple[Ranks, Ranks]:
    """The ranks of the two middle cells among the sorted ones, the same for an odd number."""
    return np.maximum((count - 1) // 2, 0), count // 2 * (count > 0)


def _ends(cells: Floats, real: Flags) -> tuple[Floats, Floats]:
    """The middle two cells of each window; 0 for a window without cells."""
    count = real.sum(axis=-1)
    order = np.sort(np.where(real, cells, np.inf), axis=-1)
    pair = (np.take_along_axis(order, rank[..., None], axis=-1)[..., 0] for rank in _middle(count))
    low, high = (np.where(count > 0, end, 0.0) for end in pair)
    return low, high


def _top(cells: Floats, real: Flags, function: str) -> Floats:
    if function == "mode":
        return np.where(real.any(axis=-1), np.where(real, cells, -np.inf).max(axis=-1), 0.0)
    a, b = _ends(cells, real)
    half = np.full(a.shape, 0.5)
    return np.where(a == b, a, add_up(mul_up(half, a), mul_up(half, b)))


def _bottom(cells: Floats, real: Flags, function: str) -> Floats:
    if function == "mode":
        return np.where(real.any(axis=-1), np.where(real, cells, np.inf).min(axis=-1), 0.0)
    a, b = _ends(cells, real)
    half = np.full(a.shape, 0.5)
    return np.where(a == b, a, add_down(mul_down(half, a), mul_down(half, b)))


def rank_planes(lower: Floats, upper: Floats, real: Flags, function: str) -> Planes:
    """Planes below and above the median or mode of each window; shapes as in `max_planes`.

    >>> low, high, real = np.array([0.0, 1.0, 5.0]), np.array([1.0, 2.0, 6.0]), np.ones(3, dtype=bool)
    >>> planes = rank_planes(low, high, real, "median")
    >>> planes.upper_slope.tolist(), float(planes.upper_bias)
    ([0.0, 1.0, 0.0], 0.0)
    """
    least, most = rank_range(lower, upper, real, function)
    slopes = _middle_slopes(lower / 2 + upper / 2, real)
    sloped = slopes > 0
    above, below = np.zeros(least.shape), np.zeros(least.shape)
    for cell in range(lower.shape[-1]):
        here = np.arange(lower.shape[-1]) == cell
        share = slopes[..., cell]
        over = sub_up(_top(np.where(here, lower, upper), real, function), lower[..., cell])
        under = sub_down(_bottom(np.where(here, upper, lower), real, function), upper[..., cell])
        above = np.where(sloped[..., cell], add_up(above, mul_up(share, over)), above)
        below = np.where(sloped[..., cell], add_down(below, mul_down(share, under)), below)
    middle = (slopes * (lower / 2 + upper / 2)).sum(axis=-1)
    flat_above = ~(middle + above < most)
    flat_below = ~(middle + below > least)
    return Planes(
        np.where(flat_below[..., None], 0.0, slopes),
        np.where(flat_below, least, below),
        np.where(flat_above[..., None], 0.0, slopes),
        np.where(flat_above, most, above),
    )


def _middle_slopes(middle: Floats, real: Flags) -> Floats:
    """1 for the cell, or 1/2 for each of the two cells, in the middle of the midpoints."""
    count = real.sum(axis=-1)
    rank = np.argsort(np.argsort(np.where(real, middle, np.inf), axis=-1, kind="stable"), axis=-1, kind="stable")
    first, second = (rank[..., None] for rank in _middle(count))
    return np.where(real, ((rank == first) * 0.5 + (rank == second) * 0.5), 0.0)
