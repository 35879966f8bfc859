"""Two planes that enclose a smooth maximum over a box.

``f(x) = log(zeros + sum_i exp(beta x_i)) / beta`` with ``zeros`` padded cells that count as the number 0.

**Below**, beta > 0: for weights ``p_i >= 0``, ``q >= 0`` that sum to 1, Gibbs' inequality gives

    f(x) >= p · x + (-sum p_i log p_i - q log(q / zeros)) / beta,

with equality where the weights are the softmax. They are taken at the midpoint.

**Above**, beta > 0: f is convex, so only vertices count. Its mixed second derivatives are negative, so it is
submodular: raising cell i from ``l_i`` to ``u_i`` adds most when all other cells are low. With ``g_i = f(l, but u_i)
- f(l)`` and ``h_i = f(u) - f(u, but l_i)`` every vertex v, with ``S`` its high cells, satisfies

    f(v) <= f(l) + sum_{i in S} g_i,        f(v) <= f(u) - sum_{i not in S} h_i.

Each gives a plane; the one with the smaller mean is taken. beta < 0 is ``-f_{-beta}(-x)``.

The p-norm of cells that are not negative, 1 < p < infinity, is convex and submodular too, so the same two planes lie
above it. Below, Hölder's inequality gives ``norm(x) >= w · x`` for every ``w >= 0`` whose dual norm is at most 1; w is
the gradient at the midpoint, shrunk by what its computation may be off.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from halfulp.bounds._directed import mul_down, mul_up, sub_down, sub_up, sum_down, sum_up
from halfulp.bounds._max_relaxation import Planes, convex_weights
from halfulp.bounds._scalar_relaxation import entropy_down

__all__ = ["norm_planes", "norm_value", "smooth_max_planes"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_CELLS = 64
"""Larger windows get a constant upper plane: the slopes cost the square of the cells."""


def _value(x: Floats, zeros: Floats, beta: float) -> tuple[Floats, Floats]:
    """f where absent cells are -inf, and a bound of the error of this computation."""
    top = np.maximum(x.max(axis=-1), np.where(zeros > 0, 0.0, -np.inf))
    top = np.where(np.isfinite(top), top, 0.0)
    padding = np.where(zeros > 0, zeros * np.exp(-beta * np.maximum(top, 0.0)), 0.0)
    tail = np.exp(beta * (x - top[..., None])).sum(axis=-1) + padding
    value = top + np.log(np.maximum(tail, 1.0)) / beta
    # tail >= 1, and each of its terms exp(-e) with e >= 0 is off by at most (e + 4) exp(-e) 2**-52 <= 2**-49.
    error = (x.shape[-1] + 16.0 + np.log2(1.0 + zeros)) * 2.0**-48 / beta + np.abs(value) * 2.0**-50
    error = error + np.abs(top) * 2.0**-51 + 2.0**-1000
    return value, error


def _below(low: Floats, high: Floats, real: Flags, zeros: Floats, beta: float) -> tuple[Floats, Floats]:
    middle = np.where(real, low / 2 + high / 2, -np.inf)
    logs = np.concatenate([beta * middle, np.where(zeros > 0, np.log(np.maximum(zeros, 1.0)), -np.inf)[..., None]], -1)
    top = logs.max(axis=-1, keepdims=True)
    there = np.concatenate([real, (zeros > 0)[..., None]], axis=-1)
    raw = np.where(there, np.exp(logs - np.where(np.isfinite(top), top, 0.0)), 0.0)
    weights = convex_weights(raw, there)
    p, q = weights[..., :-1], weights[..., -1]
    extra = np.maximum(q * np.log(np.maximum(zeros, 1.0)) * (1.0 - 2.0**-44), 0.0)
    entropy = sum_down(entropy_down(weights)) + extra
    bias = np.maximum(entropy / beta * (1.0 - 2.0**-44) - 2.0**-1000, 0.0)
    return p, bias


def _replaced(base: Floats, other: Floats) -> Floats:
    """(..., cells, cells): row i is base with cell i taken from other."""
    own = np.eye(base.shape[-1], dtype=bool)
    return np.where(own, other[..., None, :], base[..., None, :])


Value = Callable[[Floats, Floats], tuple[Floats, Floats]]
"""(cells, -inf where there are none; padded cells) -> the function, and a bound of the error of that."""


def _above(low: Floats, high: Floats, real: Flags, zeros: Floats, value: Value) -> tuple[Floats, Floats]:
    low_there, high_there = np.where(real, low, -np.inf), np.where(real, high, -np.inf)
    at_high, high_error = value(high_there, zeros)
    constant = at_high + high_error
    constant = np.nextafter(constant, np.inf)
    flat = np.zeros_like(low)
    if low.shape[-1] > _CELLS:
        return flat, constant
    low, high = np.where(real, low, 0.0), np.where(real, high, 0.0)
    width, middle = high - low, low / 2 + high / 2
    wide = real & (width > 0)
    at_low, low_error = value(low_there, zeros)
    inner = np.broadcast_to(zeros[..., None], real.shape)
    raised, raised_error = value(_replaced(low_there, high_there), inner)
    lowered, lowered_error = value(_replaced(high_there, low_there), inner)
    gain = np.where(wide, raised - at_low[..., None] + (raised_error + low_error[..., None]) * 1.001, 0.0)
    loss = np.where(wide, at_high[..., None] - lowered - (lowered_error + high_error[..., None]) * 1.001, 0.0)

    def slopes(change: Floats) -> Floats:
        share = change / np.where(wide, width, 1.0)
        return np.clip(np.where(wide & np.isfinite(share), share, 0.0), 0.0, 1.0)

    from_low, from_high = slopes(gain), slopes(loss)
    short = np.maximum(sub_up(gain, mul_down(from_low, sub_down(high, low))), 0.0)
    start = np.nextafter(at_low + low_error * 1.001, np.inf)
    bias_low = sum_up(np.stack([start, -sum_down(mul_down(from_low, low)), sum_up(short)], axis=-1))
    over = np.maximum(sub_up(mul_up(from_high, sub_up(high, low)), loss), 0.0)
    stop = np.nextafter(at_high + high_error * 1.001, np.inf)
    bias_high = sum_up(np.stack([stop, -sum_down(mul_down(from_high, high)), sum_up(over)], axis=-1))
    return _least(middle, [(from_low, bias_low), (from_high, bias_high), (flat, constant)])


def _least(middle: Floats, planes: list[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """The plane with the least value at the midpoint."""
    values = [(slope * middle).sum(axis=-1) + bias for slope, bias in planes]
    slope, bias = planes[-1]
    best = values[-1]
    for (other_slope, other_bias), value in zip(planes[:-1], values[:-1], strict=True):
        better = np.isfinite(value) & np.isfinite(other_bias) & (value < best)
        slope = np.where(better[..., None], other_slope, slope)
        bias, best = np.where(better, other_bias, bias), np.where(better, value, best)
    return slope, bias


def smooth_max_planes(
    lower: Floats, upper: Floats, real: Flags, beta: float, zeros: NDArray[np.int64] | Floats | None = None
) -> Planes:
    """Planes below and above the smooth maximum of each window, over the box of its cells.

    Shapes as in `max_planes`; `zeros` counts the padded cells of each window. A window without any cell has the value
    0.

    >>> low, high, real = np.array([-1.0, -1.0]), np.array([1.0, 1.0]), np.array([True, True])
    >>> planes = smooth_max_planes(low, high, real, beta=1.0)
    >>> planes.lower_slope.tolist(), round(float(planes.lower_bias), 6)
    ([0.5, 0.5], 0.693147)
    """
    count = np.zeros(real.shape[:-1]) if zeros is None else np.asarray(zeros, dtype=np.float64)
    if beta < 0:
        planes = smooth_max_planes(-upper, -lower, real, -beta, count)
        return Planes(planes.upper_slope, -planes.upper_bias, planes.lower_slope, -planes.lower_bias)
    with np.errstate(all="ignore"):
        lower_slope, lower_bias = _below(lower, upper, real, count, beta)
        upper_slope, upper_bias = _above(lower, upper, real, count, lambda x, zeros: _value(x, zeros, beta))
    there = real.any(axis=-1) | (count > 0)
    return Planes(
        np.where(there[..., None] & real, lower_slope, 0.0),
        np.where(there, lower_bias, 0.0),
        np.where(there[..., None] & real, upper_slope, 0.0),
        np.where(there, upper_bias, 0.0),
    )


def norm_value(x: Floats, p: float) -> tuple[Floats, Floats]:
    """The p-norm of cells >= 0 along the last axis, and a bound of the error of this computation."""
    top = x.max(axis=-1)
    scale = np.where(top > 0, top, 1.0)
    tail = (np.maximum(x / scale[..., None], 0.0) ** p).sum(axis=-1)
    value = np.where(top > 0, top * np.maximum(tail, 1.0) ** (1.0 / p), 0.0)
    # 1 <= tail: its terms are off by a share (p + 4) 2**-52 each, and the root divides that by p.
    return value, value * ((x.shape[-1] + 32.0) * 2.0**-49) + np.where(top > 0, 2.0**-1000, 0.0)


def norm_planes(lower: Floats, upper: Floats, real: Flags, p: float) -> Planes:
    """Planes below and above the p-norm of each window over the box of its cells, which are not negative.

    >>> planes = norm_planes(np.array([3.0, 4.0]), np.array([3.0, 4.0]), np.array([True, True]), 2.0)
    >>> planes.lower_slope.round(6).tolist(), round(float(planes.upper_bias), 6)
    ([0.6, 0.8], 5.0)
    """
    low, high = (np.where(real, np.maximum(end, 0.0), 0.0) for end in (lower, upper))
    cells = low.shape[-1]
    with np.errstate(all="ignore"):
        middle = low / 2 + high / 2
        size = np.asarray(norm_value(middle, p)[0])
        share = np.where(size[..., None] > 0, middle / np.where(size > 0, size, 1.0)[..., None], 0.0)
        off = (p + 1.0) * (cells + 64.0) * 2.0**-46
        if off < 2.0**-10:
            slope = np.clip(share, 0.0, 1.0) ** (p - 1.0) * (1.0 - off)
        else:  # a large p: the norm is at least the largest cell
            slope = (np.arange(cells) == np.argmax(middle, axis=-1)[..., None]).astype(np.float64)
        slope = np.where(middle > 0, slope, 0.0)
        steep, bias = _above(
            low, high, real, np.zeros(size.shape), lambda x, zeros: norm_value(np.where(x > 0, x, 0.0), p)
        )
    there = np.asarray(real.any(axis=-1))
    return Planes(
        np.where(real, slope, 0.0),
        np.zeros(size.shape),
        np.where(there[..., None] & real, steep, 0.0),
        np.where(there, bias, 0.0),
    )
