"""Two planes that enclose the maximum of a window over a box.

For cells ``x_i`` in ``[l_i, u_i]`` the planes satisfy, for every point of the box and in exact arithmetic,

    lower_slope · x + lower_bias  <=  max_i x_i  <=  upper_slope · x + upper_bias.

**Upper planes.** For slopes ``s_i`` in [0, 1] the least sound bias is known in closed form, because ``x_k - s · x``
is linear in each cell and so largest at a vertex of the box:

    bias(s) = max_k (u_k - s_k (u_k - l_k)) - sum_i s_i l_i.                                                     (1)

Every relaxation here only proposes slopes. The bias is (1), rounded up, so a bad proposal is loose and never unsound.
The slopes come from one threshold ``c``: ``s_i = max(0, u_i - c) / (u_i - l_i)``, which are the least ones that make
the maximum in (1) equal to ``c``. With ``L = max l`` and ``u1 >= u2 >= u3`` the largest upper bounds of cells that
are not dominated:

| relaxation | threshold |
|---|---|
| `deeppoly` | ``u1``: the constant plane |
| `cnn-cert` | the slopes sum to 1, within [L, min u] |
| `maxlin`   | ``u2``: only the cell with the largest upper bound has a slope |
| `tilin`    | ``max(L, u3)``: two cells have a slope |
| `best`     | ``(L + u2) / 2`` within [max(L, u3), u2] |

The mean of a plane over the box is its value at the midpoint. No upper plane has a mean below ``(u1 + u2) / 2``, and
every threshold in [max(L, u3), u2] reaches it; ``best`` takes the one whose gaps at the lowest and highest vertex are
equal, or nearly so. `docs/explanation/bounds-relaxations.md` has the proofs.

**Lower planes.** ``max x >= w · x`` for weights ``w_i >= 0`` that sum to 1, without bias. `deeppoly` takes the cell
with the largest lower bound, the others the cell with the largest midpoint, which no lower plane exceeds in the mean;
cells that tie share the weight evenly in `best`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfulp.bounds._directed import mul_down, sub_down, sub_up, sum_down

__all__ = ["MAX_RELAXATIONS", "Planes", "convex_weights", "max_planes", "max_upper_planes"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_GRID = 2.0**40
"""Weights are multiples of 2**-40, so that their float64 sums are exact."""


class Planes(NamedTuple):
    """A plane below and a plane above: slopes per input, one bias per output.

    >>> planes = Planes(np.array([1.0]), np.array(0.0), np.array([0.5]), np.array(0.5))
    >>> float(planes.upper_slope[0] * 1.0 + planes.upper_bias)
    1.0
    """

    lower_slope: Floats
    lower_bias: Floats
    upper_slope: Floats
    upper_bias: Floats


class _Window(NamedTuple):
    """A window without its dominated cells."""

    lower: Floats  # 0 where a cell is not alive
    upper: Floats
    alive: Flags  # cells that can be the maximum
    winner: Flags  # the one cell whose lower bound is `floor`
    floor: Floats  # the largest lower bound
    first: Floats  # the three largest upper bounds of alive cells; -inf where there are fewer
    second: Floats
    third: Floats


def _window(lower: Floats, upper: Floats, real: Flags) -> _Window:
    low, high = np.where(real, lower, -np.inf), np.where(real, upper, -np.inf)
    floor = low.max(axis=-1)
    candidate = real & (low == floor[..., None])
    index = np.argmax(np.where(candidate, high, -np.inf), axis=-1)
    winner = real & (np.arange(real.shape[-1]) == index[..., None])
    alive = real & (winner | (high > floor[..., None]))
    tops = np.sort(np.where(alive, high, -np.inf), axis=-1)[..., ::-1][..., :3]
    absent = np.full((*tops.shape[:-1], 3 - tops.shape[-1]), -np.inf)
    tops = np.concatenate([tops, absent], axis=-1)
    return _Window(
        np.where(alive, lower, 0.0),
        np.where(alive, upper, 0.0),
        alive,
        winner,
        floor,
        tops[..., 0],
        tops[..., 1],
        tops[..., 2],
    )


# Thresholds


def _deeppoly(window: _Window) -> Floats:
    return window.first


def _maxlin(window: _Window) -> Floats:
    return window.second


def _tilin(window: _Window) -> Floats:
    return np.maximum(window.floor, window.third)


def _balanced(window: _Window) -> Floats:
    middle = window.floor / 2 + window.second / 2
    return np.clip(middle, np.maximum(window.floor, window.third), window.second)


def _cnn_cert(window: _Window) -> Floats:
    width = window.upper - window.lower
    wide = window.alive & (width > 0)
    inverse = np.where(wide, 1.0 / np.where(wide, width, 1.0), 0.0)
    gamma = ((inverse * window.upper).sum(axis=-1) - 1.0) / inverse.sum(axis=-1)
    least = np.where(window.alive, window.upper, np.inf).min(axis=-1)
    return np.clip(np.where(np.isfinite(gamma), gamma, window.floor), window.floor, least)


# Weights of the lower plane


def _largest_lower(window: _Window) -> Floats:
    return window.winner.astype(np.float64)


def _middle(window: _Window) -> Floats:
    return np.where(window.alive, window.lower / 2 + window.upper / 2, -np.inf)


def _largest_middle(window: _Window) -> Floats:
    index = np.argmax(_middle(window), axis=-1)
    chosen: Flags = window.alive & (np.arange(window.alive.shape[-1]) == index[..., None])
    return chosen.astype(np.float64)


def _shared_middle(window: _Window) -> Floats:
    middle = _middle(window)
    chosen: Flags = window.alive & (middle == middle.max(axis=-1, keepdims=True))
    return chosen.astype(np.float64)


def _cnn_cert_weights(window: _Window) -> Floats:
    return _slopes(window, _cnn_cert(window))


MAX_RELAXATIONS: dict[str, tuple[Callable[[_Window], Floats], Callable[[_Window], Floats]]] = {
    "best": (_balanced, _shared_middle),
    "deeppoly": (_deeppoly, _largest_lower),
    "cnn-cert": (_cnn_cert, _cnn_cert_weights),
    "maxlin": (_maxlin, _largest_middle),
    "tilin": (_tilin, _largest_middle),
}
"""Name -> (threshold of the upper plane, weights of the lower plane)."""


def _slopes(window: _Window, threshold: Floats) -> Floats:
    """The least slopes for which every cell stays below the threshold at its upper bound, in floats."""
    above = window.upper - threshold[..., None]
    width = window.upper - window.lower
    steep = window.alive & (above > 0) & (width > 0)
    slopes = np.where(steep, above / np.where(steep, width, 1.0), 0.0)
    return np.clip(np.where(np.isnan(slopes), 0.0, slopes), 0.0, 1.0)


def _bias(window: _Window, slopes: Floats) -> Floats:
    """Formula (1), rounded up."""
    reached = sub_up(window.upper, mul_down(slopes, sub_down(window.upper, window.lower)))
    peak = np.where(window.alive, reached, -np.inf).max(axis=-1)
    return sub_up(peak, sum_down(mul_down(slopes, window.lower)))


def _upper(window: _Window, threshold: Floats) -> tuple[Floats, Floats]:
    slopes = _slopes(window, np.where(np.isfinite(threshold), threshold, window.first))
    bias = _bias(window, slopes)
    constant = ~np.isfinite(bias)  # intermediate overflow: the constant plane needs no arithmetic
    slopes, bias = np.where(constant[..., None], 0.0, slopes), np.where(constant, window.first, bias)
    count = window.alive.sum(axis=-1)
    slopes = np.where((count == 1)[..., None], window.winner, slopes)
    return slopes, np.where(count > 1, bias, 0.0)


def convex_weights(weights: Floats, alive: Flags) -> Floats:
    """Weights >= 0 that sum to exactly 1, as close to the given ones as a grid of 2**-40 allows; 0 outside `alive`.

    Rows without an alive cell stay 0; rows without a positive weight give all of it to the first alive cell.

    >>> convex_weights(np.array([1.0, 1.0, 2.0]), np.array([True, True, True])).tolist()
    [0.25, 0.25, 0.5]
    """
    given = np.where(alive & (weights > 0), weights, 0.0)
    cells = np.arange(alive.shape[-1])
    fallback = alive & (cells == np.argmax(alive, axis=-1)[..., None])
    given = np.where(given.any(axis=-1, keepdims=True), given, fallback)
    largest = given.max(axis=-1, keepdims=True)
    given = given / np.where(largest > 0, largest, 1.0)  # so that no sum overflows
    total = given.sum(axis=-1, keepdims=True)
    rounded = np.rint(given / np.where(total > 0, total, 1.0) * _GRID) / _GRID
    top = cells == np.argmax(rounded, axis=-1)[..., None]
    rest = 1.0 - rounded.sum(axis=-1, keepdims=True)
    fixed = np.where(top, rounded + rest, rounded)
    sound = (fixed >= 0).all(axis=-1, keepdims=True)  # fails only for windows of a million cells
    return np.where(alive.any(axis=-1, keepdims=True), np.where(sound, fixed, top), 0.0)


def max_upper_planes(lower: Floats, upper: Floats, real: Flags, threshold: Floats) -> tuple[Floats, Floats]:
    """Slope and bias of the upper plane of a threshold, one per window: the parameter to optimise.

    Every finite threshold gives a sound plane. Useful ones lie between the largest lower bound and the second largest
    upper bound.

    >>> low, high = np.array([0.0, 0.0]), np.array([1.0, 1.0])
    >>> slope, bias = max_upper_planes(low, high, np.array([True, True]), np.array(0.5))
    >>> slope.tolist(), float(bias)
    ([0.5, 0.5], 0.5)
    """
    with np.errstate(all="ignore"):
        return _upper(_window(lower, upper, real), threshold)


def max_planes(lower: Floats, upper: Floats, real: Flags, choose: str = "best") -> Planes:
    """Planes below and above the maximum of each window, over the box of its cells.

    `lower` and `upper` have the shape (..., cells), finite, lower <= upper; `real` says which cells exist (padding does
    not). Slopes have that shape, biases the shape (...). A window without a real cell has the value 0. `choose` is a
    name of `MAX_RELAXATIONS`.

    >>> low, high = np.array([0.0, 0.0, 9.0]), np.array([2.0, 1.0, 9.0])
    >>> planes = max_planes(low, high, np.array([True, True, False]))
    >>> planes.upper_slope.tolist(), float(planes.upper_bias)
    ([0.75, 0.5, 0.0], 0.5)
    >>> planes.lower_slope.tolist(), float(planes.lower_bias)
    ([1.0, 0.0, 0.0], 0.0)
    """
    threshold, weights = MAX_RELAXATIONS[choose]
    with np.errstate(all="ignore"):
        window = _window(lower, upper, real)
        slopes, bias = _upper(window, threshold(window))
        lower_slope = convex_weights(weights(window), window.alive)
    return Planes(lower_slope, np.zeros(bias.shape), slopes, bias)
