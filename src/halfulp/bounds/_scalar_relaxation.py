"""Two lines that enclose a function of one number over an interval.

For ``x`` in ``[l, u]`` and in exact arithmetic

    lower_slope · x + lower_bias  <=  f(x)  <=  upper_slope · x + upper_bias.

As for the maximum, a slope is only a proposal. The bias is an upper bound of ``max (f(x) - slope · x)`` over the
interval, rounded up (the mirror image for the lower line), so soundness does not depend on how the slope was found:

* piecewise linear functions (`relu`, `leaky_relu`, `clip`): the largest value is at an end or at a kink;
* convex pieces: the largest value is at an end of the piece;
* concave pieces: a tangent at any ``y`` lies above, and is linear, so its ends decide. The choice of ``y`` affects only
  tightness.

Transcendental functions come from NumPy. Their relative error is taken as at most 2**-48, thirty-two times half an ulp;
NumPy's own tests hold its float64 functions to 4 ulp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from halfulp.bounds._directed import add_down, add_up, mul_down, mul_up, sub_down, sub_up
from halfulp.bounds._max_relaxation import Planes

__all__ = ["SCALAR_RELAXATIONS", "entropy_down", "scalar_planes"]

Floats = NDArray[np.float64]
Point = tuple[Floats, Floats]
"""Places, and a bound of the function there."""

_MARGIN = 2.0**-48
_FLAT = 2.0**-900
"""Slopes below are replaced by 0, so that slopes can be scaled without underflow."""


def _upper_bias(slope: Floats, points: Sequence[Point]) -> Floats:
    """An upper bound of max (value - slope · place)."""
    biases: Floats = np.stack([sub_up(value, mul_down(slope, place)) for place, value in points])
    return np.asarray(biases.max(axis=0))


def _lower_bias(slope: Floats, points: Sequence[Point]) -> Floats:
    biases: Floats = np.stack([sub_down(value, mul_up(slope, place)) for place, value in points])
    return np.asarray(biases.min(axis=0))


def _outward(value: Floats) -> tuple[Floats, Floats]:
    """Around a computed transcendental value: below and above the exact one."""
    error = mul_up(np.abs(value), np.full_like(value, _MARGIN))
    return sub_down(value, error), add_up(value, error)


def _ratio(a: Floats, b: Floats) -> Floats:
    """a / b, and 0 where it is not a number."""
    quotient = a / np.where(b == 0, 1.0, b)
    return np.where(np.isfinite(quotient) & (b != 0), quotient, 0.0)


def _exact(slope: Floats, bias: Floats) -> Planes:
    return Planes(slope, bias, slope, bias)


def _choose(mask: NDArray[np.bool_], first: Planes, second: Planes) -> Planes:
    return Planes(*(np.where(mask, a, b) for a, b in zip(first, second, strict=True)))


def _leaky_relu(low: Floats, high: Floats, slope: float = 0.01, alpha: Floats | None = None) -> Planes:
    """max(x, slope · x) for slope <= 1, else the minimum. `alpha` in [0, 1] chooses the line through 0."""
    a = np.full_like(low, slope)
    secant = _ratio(high - slope * low, high - low)
    secant = np.clip(secant, min(slope, 1.0), max(slope, 1.0))
    if alpha is None:
        alpha = np.where(high >= -low if slope <= 1 else high < -low, 1.0, 0.0)
    through_zero = np.clip(slope + np.clip(alpha, 0.0, 1.0) * (1.0 - slope), min(slope, 1.0), max(slope, 1.0))
    zero = np.zeros_like(low)
    if slope <= 1:
        left = mul_up(a, low)
        bias = _upper_bias(secant, [(low, left), (high, high)])
        flat = ~np.isfinite(bias)
        mixed = Planes(through_zero, zero, np.where(flat, 0.0, secant), np.where(flat, np.maximum(left, high), bias))
    else:
        left = mul_down(a, low)
        bias = _lower_bias(secant, [(low, left), (high, high)])
        flat = ~np.isfinite(bias)
        mixed = Planes(np.where(flat, 0.0, secant), np.where(flat, np.minimum(left, high), bias), through_zero, zero)
    sided = _choose(low >= 0, _exact(np.ones_like(low), zero), _exact(a, zero))
    return _choose((low >= 0) | (high <= 0), sided, mixed)


def _relu(low: Floats, high: Floats, alpha: Floats | None = None) -> Planes:
    return _leaky_relu(low, high, 0.0, alpha)


def _clip(low: Floats, high: Floats, minimum: float = -np.inf, maximum: float = np.inf) -> Planes:
    """min(max(x, minimum), maximum)."""

    def f(x: Floats) -> Floats:
        return np.minimum(np.maximum(x, minimum), maximum)

    start, stop = np.clip(minimum, low, high), np.clip(maximum, low, high)  # kinks, or an end in place of one
    points = [(place, f(place)) for place in (low, start, stop, high)]
    middle, zero = low / 2 + high / 2, np.zeros_like(low)
    rising = np.clip(_ratio(f(stop) - f(low), stop - low), 0.0, 1.0)
    best = _upper_bias(rising, points)
    flat = ~(np.isfinite(best) & (rising * middle + best < f(high)))
    upper_slope, upper_bias = np.where(flat, 0.0, rising), np.where(flat, f(high), best)
    rising = np.clip(_ratio(f(high) - f(start), high - start), 0.0, 1.0)
    best = _lower_bias(rising, points)
    flat = ~(np.isfinite(best) & (rising * middle + best > f(low)))
    lower_slope, lower_bias = np.where(flat, 0.0, rising), np.where(flat, f(low), best)
    mixed = Planes(lower_slope, lower_bias, upper_slope, upper_bias)
    identity = (low >= minimum) & (high <= maximum)
    return _choose(identity, _exact(np.ones_like(low), zero), mixed)


def _touching(low: Floats, high: Floats) -> Floats:
    """The point of [0, u] where the tangent of tanh passes through (l, tanh l), for l < 0 < u; u if there is none."""
    at_low = np.tanh(low)

    def steeper(y: Floats) -> NDArray[np.bool_]:
        t = np.tanh(y)
        return (1.0 - t * t) * (y - low) >= t - at_low

    start, stop = np.zeros_like(low), np.clip(np.minimum(high, -low), 0.0, 400.0)
    none = steeper(np.maximum(high, 0.0))
    for _ in range(50):
        middle = start / 2 + stop / 2
        right = steeper(middle)
        start, stop = np.where(right, middle, start), np.where(right, stop, middle)
    return np.where(none, high, start)


def _tanh_upper(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    middle, start = low / 2 + high / 2, np.maximum(low, 0.0)
    touch = _touching(low, high)
    secant = (high <= 0) | ((low < 0) & (touch >= high))
    y = np.where(secant, high, np.maximum(middle, np.where(low < 0, touch, 0.0)))
    y = np.clip(y, start, np.maximum(high, start))
    at_low, at_high, t = np.tanh(low), np.tanh(high), np.tanh(y)
    slope = np.where(secant, _ratio(at_high - at_low, high - low), 1.0 - t * t)
    slope = np.clip(slope, 0.0, 1.0)
    slope = np.where(slope < _FLAT, 0.0, slope)
    convex = [(low, _outward(at_low)[1]), (np.minimum(high, 0.0), _outward(np.tanh(np.minimum(high, 0.0)))[1])]
    concave = [(place, _tangent(y, t, place)) for place in (start, np.maximum(high, start))]
    bias = _upper_bias(slope, [(p, np.where(low <= 0, v, -np.inf)) for p, v in convex])
    bias = np.maximum(bias, _upper_bias(slope, [(p, np.where(high > 0, v, -np.inf)) for p, v in concave]))
    constant = np.minimum(_outward(at_high)[1], 1.0)
    flat = ~(np.isfinite(bias) & (slope * middle + bias < constant))
    return np.where(flat, 0.0, slope), np.where(flat, constant, bias)


def _tangent(y: Floats, t: Floats, place: Floats) -> Floats:
    """An upper bound of the tangent of tanh at y, seen at a place."""
    below, above = _outward(t)
    one = np.ones_like(y)
    derivative_up = np.maximum(sub_up(one, mul_down(below, below)), 0.0)
    derivative_down = np.maximum(sub_down(one, mul_up(above, above)), 0.0)
    right = mul_up(derivative_up, np.maximum(sub_up(place, y), 0.0))
    left = mul_up(derivative_down, sub_up(place, y))
    return add_up(above, np.where(place >= y, right, left))


def _tanh(low: Floats, high: Floats) -> Planes:
    upper_slope, upper_bias = _tanh_upper(low, high)
    mirrored_slope, mirrored_bias = _tanh_upper(-high, -low)
    return Planes(mirrored_slope, -mirrored_bias, upper_slope, upper_bias)


def _sigmoid(low: Floats, high: Floats) -> Planes:
    """1/2 + tanh(x/2)/2, from the lines of tanh."""
    half = np.full_like(low, 0.5)
    planes = _tanh(mul_down(low, half), mul_up(high, half))
    one = np.ones_like(low)
    return Planes(
        planes.lower_slope / 4,
        add_down(planes.lower_bias, one) / 2,
        planes.upper_slope / 4,
        add_up(planes.upper_bias, one) / 2,
    )


def entropy_down(weights: Floats) -> Floats:
    """A lower bound of -p log p, elementwise, for p in [0, 1]."""
    positive = np.where(weights > 0, weights, 1.0)
    value = -positive * np.log(positive)
    return np.maximum(value * (1.0 - 2.0**-44) - 2.0**-1000, 0.0)


def _softplus(low: Floats, high: Floats, beta: float = 1.0) -> Planes:
    """log(1 + exp(beta · x)) / beta, beta > 0: convex. Below: p · x + H(p) / beta for every p in [0, 1]."""

    def above(x: Floats) -> Floats:
        tail = np.log1p(np.exp(-np.abs(beta * x))) / beta
        # The exponent is off by 2**-53 of itself, which moves exp(-e) by less than 2**-53 relative to 1.
        error = tail * 2.0**-44 + np.minimum(np.abs(x), 1.0 / beta) * 2.0**-50
        return add_up(np.maximum(x, 0.0), add_up(tail, error))

    def value(x: Floats) -> Floats:
        return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(beta * x))) / beta

    secant = np.clip(_ratio(value(high) - value(low), high - low), 0.0, 1.0)
    upper = _upper_bias(secant, [(low, above(low)), (high, above(high))])
    middle = low / 2 + high / 2
    p = 0.5 + 0.5 * np.tanh(beta * middle / 2)
    entropy = entropy_down(p) + np.maximum(-(1.0 - p) * np.log1p(-np.where(p < 1, p, 0.0)) * (1.0 - 2.0**-44), 0.0)
    lower = np.maximum(entropy / beta * (1.0 - 2.0**-44) - 2.0**-1000, 0.0)
    flat = ~np.isfinite(upper)
    return Planes(p, lower, np.where(flat, 0.0, secant), np.where(flat, above(high), upper))


SCALAR_RELAXATIONS: dict[str, Callable[..., Planes]] = {
    "clip": _clip,
    "leaky_relu": _leaky_relu,
    "relu": _relu,
    "sigmoid": _sigmoid,
    "softplus": _softplus,
    "tanh": _tanh,
}
"""Name -> lines from the ends of the intervals."""


def scalar_planes(kind: str, lower: Floats, upper: Floats, **params: float | Floats | None) -> Planes:
    """Lines below and above a function, for arrays of intervals. Finite ends, lower <= upper.

    `kind` is a name of `SCALAR_RELAXATIONS`. Parameters: `relu(alpha=None)`, `leaky_relu(slope=0.01, alpha=None)`,
    `clip(minimum=-inf, maximum=inf)`, `softplus(beta=1.0)`. `alpha` in [0, 1], an array, chooses the lower slope of a
    rectifier between its two branches. An upper bias is infinite where the function exceeds every float64.

    >>> lines = scalar_planes("relu", np.array([-1.0]), np.array([3.0]))
    >>> [float(part[0]) for part in lines]
    [1.0, 0.0, 0.75, 0.75]
    """
    with np.errstate(all="ignore"):
        return SCALAR_RELAXATIONS[kind](lower, upper, **params)
