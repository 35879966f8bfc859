"""Rational bounds of exp, log and what is made of them, for the checker of certificates.

Every function gives (below, above), two rationals around the exact value, about 2**-100 of it apart. Series are cut off
with a bound of the rest; every step is rounded outward to 128 significant bits, so that numbers stay short.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import isqrt
from typing import Any, TypeAlias

from flint import fmpq

Rational: TypeAlias = Any
Pair: TypeAlias = tuple[Rational, Rational]

BITS = 128
ZERO, ONE = fmpq(0), fmpq(1)
_SMALL, _TINY = fmpq(1, 2**50), fmpq(1, 2**BITS)


def _shortened(x: Rational, up: bool, bits: int) -> Rational:
    """A number with ``bits`` significant bits, not below x (up) or not above it."""
    p, q = int(x.p), int(x.q)
    if p == 0 or (abs(p).bit_length() <= bits and q & (q - 1) == 0):
        return x
    shift = bits - abs(p).bit_length() + q.bit_length()
    scaled = (p << shift, q) if shift >= 0 else (p, q << -shift)
    whole = -(-scaled[0] // scaled[1]) if up else scaled[0] // scaled[1]
    return fmpq(whole, 2**shift) if shift >= 0 else fmpq(whole * 2**-shift)


def down(x: Rational, bits: int = BITS) -> Rational:
    """A short number that is not above x."""
    return _shortened(x, False, bits)


def up(x: Rational, bits: int = BITS) -> Rational:
    """A short number that is not below x."""
    return _shortened(x, True, bits)


def exp_of_minus(x: Rational) -> Pair:
    """exp(-x) for x >= 0: the reciprocal of a Taylor series at x / 2**h, squared h times."""
    if x == 0:
        return ONE, ONE
    if x > 4096:
        return ZERO, exp_of_minus(fmpq(4096))[1]
    halvings = int(x.p // x.q).bit_length() + 8
    small = x / 2**halvings  # below 2**-8
    ends: list[Rational] = []
    for rounded in (down, up):
        step = rounded(small)
        total, term = ONE + step, step
        for k in range(2, 24):
            term = rounded(term * step / k)
            total = rounded(total + term)
            if term < _TINY:
                break
        ends.append(total if rounded is down else total + term)  # the rest is below the last term
    low, high = ends
    for _ in range(halvings):
        low, high = down(low * low), up(high * high)
    return down(ONE / high), up(ONE / low)


def _inverse_tanh(z: Rational) -> Pair:
    """atanh(z) for 0 <= z <= 1/3: the sum of z**k / k over odd k."""
    ends: list[Rational] = []
    for rounded in (down, up):
        z_here, total = rounded(z), ZERO
        power, square = z_here, rounded(z_here * z_here)
        for k in range(1, 110, 2):
            total = rounded(total + power / k)
            power = rounded(power * square)
            if power < total * _TINY:
                break
        ends.append(total if rounded is down else total + power)  # the rest is below power / k / (1 - z**2)
    return ends[0], ends[1]


@lru_cache(maxsize=1)
def _log_of_two() -> Pair:
    low, high = _inverse_tanh(fmpq(1, 3))
    return 2 * low, 2 * high


def log(y: Rational) -> Pair:
    """log(y) for y > 0: y = m 2**e with m in [2/3, 4/3], and log m = 2 atanh((m - 1) / (m + 1))."""
    if y == 1:
        return ZERO, ZERO
    power = int(y.p).bit_length() - int(y.q).bit_length()
    part = y / fmpq(2) ** power
    while part > fmpq(4, 3):
        part, power = part / 2, power + 1
    while part < fmpq(2, 3):
        part, power = part * 2, power - 1
    z = (part - 1) / (part + 1)
    low, high = _inverse_tanh(abs(z))
    low, high = (low, high) if z >= 0 else (-high, -low)
    two = _log_of_two()
    return (
        down(2 * low + power * two[0 if power >= 0 else 1]),
        up(2 * high + power * two[1 if power >= 0 else 0]),
    )


def root(y: Rational) -> Pair:
    """The square root of y >= 0, exact where it is a short dyadic number."""
    shift = BITS + max(0, int(y.q).bit_length() - int(y.p).bit_length())
    scaled = int(y.p) << 2 * shift
    whole = isqrt(scaled // int(y.q))
    exactly = whole * whole * int(y.q) == scaled
    return fmpq(whole, 2**shift), fmpq(whole if exactly else whole + 1, 2**shift)


def tanh(x: Rational) -> Pair:
    """(1 - e) / (1 + e) with e = exp(-2 x); for a small x between x - x**3 / 3 and x."""
    if x < 0:
        low, high = tanh(-x)
        return -high, -low
    if x < _SMALL:
        return x - x * x * x / 3, x
    low, high = exp_of_minus(2 * x)
    return down((1 - high) / (1 + high)), up((1 - low) / (1 + low))


def sigmoid(x: Rational) -> Pair:
    """1 / (1 + e) with e = exp(-|x|), or e / (1 + e) for x < 0."""
    low, high = exp_of_minus(abs(x))
    if x >= 0:
        return down(1 / (1 + high)), up(1 / (1 + low))
    return down(low / (1 + low)), up(high / (1 + high))


def softplus(x: Rational) -> Pair:
    """max(x, 0) + log(1 + e) with e = exp(-|x|); for a small e, log(1 + e) is between e - e**2 / 2 and e."""
    low, high = exp_of_minus(abs(x))
    first = low - low * low / 2 if high < _SMALL else log(1 + low)[0]
    second = high if high < _SMALL else log(1 + high)[1]
    return max(x, ZERO) + first, max(x, ZERO) + second


VALUES: dict[str, Callable[[Rational], Pair]] = {"sigmoid": sigmoid, "softplus": softplus, "tanh": tanh}
"""Increasing functions of one number."""


def _above_tanh(low: Rational, high: Rational, slope: Rational) -> Rational:
    """An upper bound of tanh(x) - slope x on [low, high], next to the least one.

    tanh is convex left of 0, where an end is largest, and concave right of it, where every tangent lies above. The
    tangent is taken where its slope is about ``slope``.
    """
    found = [tanh(x)[1] - slope * x for x in (low, min(high, ZERO)) if low <= 0]
    if high > 0:
        start = max(low, ZERO)
        y = start if slope >= 1 else high
        if 0 < slope < 1:
            t = root(1 - slope)[0]
            y = high if t == 1 else min(max(down(log((1 + t) / (1 - t))[0] / 2, 80), start), high)
        below, above = tanh(y)
        for x in (start, high):
            derivative = 1 - below * below if x >= y else 1 - above * above
            found.append(above - slope * y + (derivative - slope) * (x - y))
    return max(found)


def _tanh_biases(low: Rational, high: Rational, under: Rational, over: Rational) -> Pair:
    return -_above_tanh(-high, -low, under), _above_tanh(low, high, over)


def _sigmoid_biases(low: Rational, high: Rational, under: Rational, over: Rational) -> Pair:
    """sigmoid(x) = (1 + tanh(x / 2)) / 2."""
    least, most = _tanh_biases(low / 2, high / 2, 4 * under, 4 * over)
    return (1 + least) / 2, (1 + most) / 2


def _softplus_biases(low: Rational, high: Rational, under: Rational, over: Rational) -> Pair:
    """Convex: an end is largest, and every tangent lies below; its derivative is the sigmoid."""
    y = low if under <= 0 else high
    if 0 < under < 1:
        y = min(max(down(log(under / (1 - under))[0], 80), low), high)
    least_derivative, most_derivative = sigmoid(y)
    least = softplus(y)[0] - under * y
    drops = [((least_derivative if x >= y else most_derivative) - under) * (x - y) for x in (low, high)]
    return least + min(drops), max(softplus(x)[1] - over * x for x in (low, high))


BIASES: dict[str, Callable[[Rational, Rational, Rational, Rational], Pair]] = {
    "sigmoid": _sigmoid_biases,
    "softplus": _softplus_biases,
    "tanh": _tanh_biases,
}
"""(low, high, lower slope, upper slope) -> the biases with which two lines are below and above the function."""


def smooth_max(cells: Sequence[Rational], zeros: int, beta: Rational) -> Pair:
    """log(zeros + sum of exp(beta x)) / beta, for beta > 0; 0 over nothing."""
    if not cells and not zeros:
        return ZERO, ZERO
    top = max([*cells, ZERO] if zeros else cells)
    terms = [exp_of_minus(beta * (top - x)) for x in cells]
    padding = exp_of_minus(beta * top) if zeros else (ZERO, ZERO)
    low, high = (sum((term[side] for term in terms), zeros * padding[side]) for side in (0, 1))
    return top + log(low)[0] / beta, top + log(high)[1] / beta


def norm(cells: Sequence[Rational], p: Rational) -> Pair:
    """The p-norm of numbers >= 0."""
    top = max(cells, default=ZERO)
    if top <= 0:
        return ZERO, ZERO
    if p == 2:
        return root(sum((x * x for x in cells), ZERO))
    low, high = ZERO, ZERO
    for x in cells:
        if x > 0:
            logs = log(x / top)  # <= 0
            low, high = low + exp_of_minus(-p * logs[0])[0], high + exp_of_minus(max(-p * logs[1], ZERO))[1]
    ends = [log(max(low, ONE))[0] / p, log(max(high, ONE))[1] / p]
    return down(top / exp_of_minus(ends[0])[1]), up(top / exp_of_minus(ends[1])[0])


def convex_most(lows: Sequence[Rational], highs: Sequence[Rational], slopes: Sequence[Rational], value: Any) -> Any:
    """An upper bound of f(x) - slopes · x on a box, for a convex and submodular f: the better of two sums.

    From the low vertex a cell that is raised gains most while the others are low; from the high vertex a cell that is
    lowered loses least while the others are high.
    """
    widths = [b - a for a, b in zip(lows, highs, strict=True)]
    top = value(highs)
    from_high = top[1] - sum((s * b for s, b in zip(slopes, highs, strict=True)), ZERO)
    if not any(slopes):
        return from_high
    bottom = value(lows)
    from_low = bottom[1] - sum((s * a for s, a in zip(slopes, lows, strict=True)), ZERO)
    for k, (slope, width) in enumerate(zip(slopes, widths, strict=True)):
        if width > 0:
            raised = value([*lows[:k], highs[k], *lows[k + 1 :]])[1] - bottom[0]
            lowered = top[0] - value([*highs[:k], lows[k], *highs[k + 1 :]])[1]
            from_low += max(raised - slope * width, ZERO)
            from_high += max(slope * width - lowered, ZERO)
    return min(from_low, from_high)


def smooth_least(weights: Sequence[Rational], zeros: int, beta: Rational) -> Any:
    """The bias of a plane below the smooth maximum, by Gibbs' inequality; None if the slopes are no weights."""
    rest = ONE - sum(weights, ZERO)
    if any(w < 0 for w in weights) or rest < 0 or (rest > 0 and not zeros):
        return None
    entropy = sum((-w * log(w)[1] for w in weights if w > 0), ZERO)
    return (entropy - (rest * log(rest / zeros)[1] if rest > 0 else ZERO)) / beta


def norm_least(weights: Sequence[Rational], highs: Sequence[Rational], p: Rational) -> Any:
    """The bias of a plane below the p-norm, by Hölder's inequality; None if a slope is negative.

    With a dual norm d > 1 of the slopes, norm(x) >= slopes · x / d, which is at least slopes · x less their excess.
    """
    if any(w < 0 for w in weights):
        return None
    dual = norm(weights, p / (p - 1))[1]
    reach = sum((w * high for w, high in zip(weights, highs, strict=True)), ZERO)
    return ZERO if dual <= 1 else (1 / dual - 1) * reach
