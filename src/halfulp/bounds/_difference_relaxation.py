"""Planes around the maximum of a window whose cells depend on each other.

``gaps[k, j]`` is an upper bound of ``x_k - x_j`` over the inputs of the network. The cells of a window see nearly the
same inputs, so it is often far below ``u_k - l_j``, which is all that the box of the cells says.

**Dominated cells.** If ``gaps[k, j] <= 0``, cell k is never above cell j and can be left out, as long as j stays.

**Upper plane.** For slopes ``s_j >= 0`` with a sum of at most 1,

    x_k - s · x  =  sum_j s_j (x_k - x_j) + (1 - sum s) x_k  <=  sum_j s_j gaps[k, j] + (1 - sum s) u_k,

and the bias is the largest right side over the cells that are left. With ``gaps[k, j] = u_k - l_j`` it is the bias of
the box, formula (1) of `_max_relaxation`. Proposals for the slopes are those of the box, one cell, two cells that share
a slope of 1 so that both of their right sides are equal, and one cell that shares it with a constant. The one whose
plane is lowest at the midpoint of the box is taken, then moved by a few steps along the subgradient.

**Lower plane.** The cell with the largest midpoint among those that are left.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from halfulp.bounds._directed import mul_up, sub_up, sum_up
from halfulp.bounds._max_relaxation import Flags, Floats, Planes, convex_weights, max_planes

__all__ = ["box_gaps", "difference_planes", "remaining"]

_GRID = 2.0**40
_PAIRED = 4
"""So many cells of a window, those with the largest midpoints, are tried in pairs."""


def box_gaps(lower: Floats, upper: Floats, real: Flags) -> Floats:
    """What the box says about differences: ``u_k - l_j``, rounded up; 0 between a cell and itself and absent cells.

    >>> box_gaps(np.array([0.0, 1.0]), np.array([2.0, 4.0]), np.array([True, True])).tolist()
    [[0.0, 1.0], [4.0, 0.0]]
    """
    with np.errstate(all="ignore"):
        gaps = sub_up(upper[..., :, None] + 0.0 * lower[..., None, :], lower[..., None, :] + 0.0 * upper[..., :, None])
    there = real[..., :, None] & real[..., None, :] & ~np.eye(lower.shape[-1], dtype=np.bool_)
    return np.where(there, gaps, 0.0)


def remaining(gaps: Floats, real: Flags) -> Flags:
    """The cells without those that another one dominates, left out one after the other.

    >>> remaining(np.array([[0.0, -1.0], [3.0, 0.0]]), np.array([True, True])).tolist()
    [False, True]
    """
    alive: Flags = real.copy()
    for k in range(real.shape[-1]):
        below = (gaps[..., k, :] <= 0) & alive
        below[..., k] = False
        alive[..., k] &= ~below.any(axis=-1)
    return alive


def difference_planes(lower: Floats, upper: Floats, real: Flags, gaps: Floats, steps: int = 16) -> Planes:
    """Planes below and above the maximum of each window, from bounds of cells and of their differences.

    Shapes as in `max_planes`; ``gaps`` has the shape (..., cells, cells).

    >>> low, high, real = np.zeros(2), np.ones(2), np.array([True, True])
    >>> gaps = np.array([[0.0, 0.25], [0.25, 0.0]])  # |x_0 - x_1| <= 1/4
    >>> planes = difference_planes(low, high, real, gaps)
    >>> planes.upper_slope.tolist(), float(planes.upper_bias)
    ([0.5, 0.5], 0.125)
    """
    with np.errstate(all="ignore"):
        low, high = np.where(real, lower, 0.0), np.where(real, upper, 0.0)
        gaps = np.minimum(gaps, box_gaps(low, high, real))
        alive = remaining(gaps, real)
        middle = np.where(alive, low / 2 + high / 2, 0.0)
        slopes = _slopes(low, high, middle, alive, gaps, steps)
        bias = _bias_up(slopes, high, alive, gaps)
        flat = ~np.isfinite(bias)
        top = np.where(alive, high, -np.inf).max(axis=-1)
        slopes, bias = np.where(flat[..., None], 0.0, slopes), np.where(flat, top, bias)
        single = alive.sum(axis=-1) <= 1
        slopes, bias = np.where(single[..., None], alive, slopes), np.where(single, 0.0, bias)
        weights = convex_weights(
            alive & (middle == np.where(alive, middle, -np.inf).max(axis=-1, keepdims=True)), alive
        )
    return Planes(weights, np.zeros(bias.shape), slopes, bias)


def _sides(slopes: Floats, high: Floats, alive: Flags, gaps: Floats) -> Floats:
    """The right sides of all cells, in floats."""
    rest = 1.0 - slopes.sum(axis=-1, keepdims=True)
    return np.where(alive, np.matmul(gaps, slopes[..., None])[..., 0] + rest * high, -np.inf)


def _bias_up(slopes: Floats, high: Floats, alive: Flags, gaps: Floats) -> Floats:
    """The bias, rounded up. Slopes are multiples of 2**-40 with a sum of at most 1: what is left of 1 is exact."""
    rest = 1.0 - slopes.sum(axis=-1, keepdims=True)
    terms = mul_up(gaps, np.broadcast_to(slopes[..., None, :], gaps.shape))
    terms = np.concatenate([terms, mul_up(high, np.broadcast_to(rest, high.shape))[..., None]], axis=-1)
    return np.asarray(np.where(alive, sum_up(terms), -np.inf).max(axis=-1))


def _slopes(low: Floats, high: Floats, middle: Floats, alive: Flags, gaps: Floats, steps: int) -> Floats:
    """The best proposal, moved along the subgradient, on the grid."""
    best, found = np.full(low.shape[:-1], np.inf), np.zeros(low.shape)
    for proposal in _proposals(low, high, middle, alive, gaps):
        value = (proposal * middle).sum(axis=-1) + _sides(proposal, high, alive, gaps).max(axis=-1)
        better = value < best
        found, best = np.where(better[..., None], proposal, found), np.where(better, value, best)
    moved = found
    scale = np.abs(gaps).max(axis=(-1, -2))[..., None] + 1e-300
    for step in range(steps if (alive.sum(axis=-1) > 2).any() else 0):
        chosen = _sides(moved, high, alive, gaps).argmax(axis=-1)[..., None]
        tilt = middle + np.take_along_axis(gaps, chosen[..., None], axis=-2)[..., 0, :]
        tilt = tilt - np.take_along_axis(high, chosen, axis=-1)
        moved = _shared(np.where(alive, moved - 0.25 / (1 + step) * tilt / scale, 0.0))
        value = (moved * middle).sum(axis=-1) + _sides(moved, high, alive, gaps).max(axis=-1)
        better = value < best
        found, best = np.where(better[..., None], moved, found), np.where(better, value, best)
    return _gridded(found)


def _proposals(low: Floats, high: Floats, middle: Floats, alive: Flags, gaps: Floats) -> Iterator[Floats]:
    for choose in ("best", "maxlin"):
        planes = max_planes(low, high, alive, choose)
        yield _shared(planes.upper_slope)
    cells = np.arange(low.shape[-1])
    order = np.argsort(np.where(alive, -middle, np.inf), axis=-1, kind="stable")[..., :_PAIRED]
    picked = [cells == order[..., rank, None] for rank in range(order.shape[-1])]
    for first, a in enumerate(picked):
        yield np.where(alive & a, 1.0, 0.0)
        tops = (np.where(a, high, 0.0)).sum(axis=-1)
        for second, b in enumerate(picked):
            if first == second:
                continue
            ours = np.where(a[..., :, None] & b[..., None, :], gaps, 0.0).sum(axis=(-1, -2))
            theirs = np.where(b[..., :, None] & a[..., None, :], gaps, 0.0).sum(axis=(-1, -2))
            if first < second:
                share = _ratio(ours, ours + theirs)[..., None]
                yield _shared(np.where(alive, np.where(a, share, 0.0) + np.where(b, 1.0 - share, 0.0), 0.0))
            lead = tops - np.where(b, high, 0.0).sum(axis=-1)
            yield np.where(alive & a, _ratio(lead, lead + theirs)[..., None], 0.0)


def _ratio(part: Floats, whole: Floats) -> Floats:
    """part / whole within [0, 1], and 1 where that is not a number."""
    share = part / whole
    return np.clip(np.where(np.isfinite(share), share, 1.0), 0.0, 1.0)


def _shared(slopes: Floats) -> Floats:
    """Slopes >= 0 with a sum of at most 1: larger ones are lowered by the same amount (a projection)."""
    slopes = np.where(np.isfinite(slopes), np.maximum(slopes, 0.0), 0.0)
    order = np.sort(slopes, axis=-1)[..., ::-1]
    above = np.cumsum(order, axis=-1) - 1.0
    count = np.arange(1, slopes.shape[-1] + 1)
    used = np.maximum((order - above / count > 0).sum(axis=-1, keepdims=True), 1)
    level = np.take_along_axis(above, used - 1, axis=-1) / used
    return np.where(slopes.sum(axis=-1, keepdims=True) > 1.0, np.maximum(slopes - level, 0.0), slopes)


def _gridded(slopes: Floats) -> Floats:
    """Multiples of 2**-40 whose sum is at most 1; a sum that is 1 but for rounding stays 1."""
    grid = np.floor(slopes * _GRID) / _GRID
    rest = 1.0 - grid.sum(axis=-1, keepdims=True)
    top = np.arange(slopes.shape[-1]) == grid.argmax(axis=-1)[..., None]
    close = (rest > 0) & (rest <= slopes.shape[-1] * 2 / _GRID)
    return np.where(close & top, grid + rest, grid)
