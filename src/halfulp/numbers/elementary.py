"""Elementwise functions and their derivatives: over balls and rationals, and at infinities, poles and zeros.

A function is given by its name and its parameters, rationals. :func:`rounded_value` and :func:`rounded_slope` are the
one right answer for any float. They evaluate balls with growing precision until the rounding is decided. That ends
because the values that lie on a boundary of rounding are found exactly, as rationals: exp, log, erf and what is made of
them are transcendental at every rational but the few where they are known, and powers are rational or irrational.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from halfulp.numbers import flint
from halfulp.numbers._elementary_limits import slope_at_end, slope_outside, value_at_end, value_outside
from halfulp.numbers._formats import Format
from halfulp.numbers._rounding import round_ball, round_rational

Parameters = Sequence[Fraction]

_FAR = 100_000
"""Beyond this exp knows no format's numbers, only 0 and infinity."""


def _cubic() -> Any:
    """The factor of x^3 in the tanh form of gelu."""
    return flint.fmpq(44715, 1_000_000)


def _near(x: Any) -> Any:
    """``x``, or the end of [-100000, 100000] beyond which nothing changes any more."""
    return flint.arb(_FAR) if x > _FAR else flint.arb(-_FAR) if x < -_FAR else x


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)) of a ball."""
    return 1 / (1 + (-_near(x)).exp())


def rational_ball(value: Fraction | Any) -> Any:
    """The ball that a number means."""
    return flint.arb(flint.fmpq(int(value.numerator), int(value.denominator)) if isinstance(value, Fraction) else value)


def _normal(x: Any) -> Any:
    """The probability that a normal number is below x."""
    return (-_near(x) / flint.arb(2).sqrt()).erfc() / 2


def _density(x: Any) -> Any:
    near = _near(x)
    return (-near * near / 2).exp() / (2 * flint.arb.pi()).sqrt()


def _inner(x: Any) -> Any:
    """The argument of the sigmoid in the tanh form of gelu."""
    return 2 * (2 / flint.arb.pi()).sqrt() * (x + _cubic() * x**3)


def _inner_slope(x: Any) -> Any:
    return 2 * (2 / flint.arb.pi()).sqrt() * (1 + 3 * _cubic() * x**2)


def _tanh_log1p_exp(x: Any) -> Any:
    return _near(x).exp().log1p().tanh()


def _softplus(x: Any, p: Parameters) -> Any:
    beta, threshold = (rational_ball(v) for v in p)
    u = beta * x
    if u > threshold:
        return x
    near = _near(u)
    return (near.exp().log1p() if near < 0 else near + (-near).exp().log1p()) / beta


def _power(x: Any, exponent: Fraction) -> Any:
    if exponent.denominator != 1 and not x > 0:
        return flint.arb("nan")
    sign = -1 if x < 0 and exponent.denominator == 1 and exponent.numerator % 2 else 1
    u = abs(x).log() * rational_ball(exponent)
    return sign * _near(u).exp()


Ball = Callable[[Any, Parameters], Any]
VALUES: dict[str, Ball] = {
    "exp": lambda x, p: _near(x).exp(),
    "expm1": lambda x, p: _near(x).expm1(),
    "log": lambda x, p: x.log(),
    "log1p": lambda x, p: x.log1p(),
    "sqrt": lambda x, p: x.sqrt(),
    "rsqrt": lambda x, p: x.rsqrt(),
    "erf": lambda x, p: _near(x).erf(),
    "tanh": lambda x, p: _near(x).tanh(),
    "sigmoid": lambda x, p: sigmoid(x),
    "silu": lambda x, p: (x if x > 0 else _near(x)) * sigmoid(x),
    "gelu": lambda x, p: (x if x > 0 else _near(x)) * _normal(x),
    "gelu_tanh": lambda x, p: (x if x > 0 else _near(x)) * sigmoid(_inner(_near(x))),
    "mish": lambda x, p: (x if x > 0 else _near(x)) * _tanh_log1p_exp(x),
    "softplus": _softplus,
    "elu": lambda x, p: x if x > 0 else rational_ball(p[0]) * _near(x).expm1(),
    "pow": lambda x, p: _power(x, p[0]),
}
SLOPES: dict[str, Ball] = {
    "exp": VALUES["exp"],
    "expm1": VALUES["exp"],
    "sqrt": lambda x, p: 1 / (2 * x.sqrt()),
    "rsqrt": lambda x, p: -1 / (2 * x * x.sqrt()),
    "erf": lambda x, p: 2 * (-_near(x) * _near(x)).exp() / flint.arb.pi().sqrt(),
    "tanh": lambda x, p: 1 / _near(x).cosh() ** 2,
    "sigmoid": lambda x, p: sigmoid(x) * sigmoid(-x),
    "silu": lambda x, p: sigmoid(x) * (1 + _near(x) * sigmoid(-x)),
    "gelu": lambda x, p: _normal(x) + _near(x) * _density(x),
    "gelu_tanh": lambda x, p: _gelu_tanh_slope(_near(x)),
    "mish": lambda x, p: _mish_slope(_near(x)),
    "softplus": lambda x, p: _softplus_slope(x, p),
    "elu": lambda x, p: flint.arb(1) if x > 0 else rational_ball(p[0]) * _near(x).exp(),
    "pow": lambda x, p: rational_ball(p[0]) * _power(x, p[0] - 1),
}


def _gelu_tanh_slope(x: Any) -> Any:
    z = _inner(x)
    return sigmoid(z) * (1 + x * sigmoid(-z) * _inner_slope(x))


def _mish_slope(x: Any) -> Any:
    t = _tanh_log1p_exp(x)
    return t + x * sigmoid(x) / x.exp().log1p().cosh() ** 2


def _softplus_slope(x: Any, p: Parameters) -> Any:
    beta, threshold = (rational_ball(v) for v in p)
    return flint.arb(1) if beta * x > threshold else sigmoid(beta * x)


def exact_value(name: str, p: Parameters, x: Fraction) -> Any:
    """The value at a rational where it is known to be rational, else None."""
    if name in PIECES:
        return PIECES[name](x, p)[0]
    if name == "reciprocal":
        return 1 / x
    if name in ("sqrt", "rsqrt"):
        return _exact_power(x, Fraction(1 if name == "sqrt" else -1, 2))
    if name == "pow":
        return _exact_power(x, p[0])
    if name == "softplus":
        return x if p[0] * x > p[1] else None
    if name == "elu" and x > 0:
        return x
    if name == "log":
        return Fraction(0) if x == 1 else None
    if x == 0:
        return {"exp": Fraction(1), "sigmoid": Fraction(1, 2)}.get(name, Fraction(0))
    return None


def exact_slope(name: str, p: Parameters, x: Fraction) -> Any:
    """The derivative at a rational where it is known to be rational, else None."""
    if name in PIECES:
        return PIECES[name](x, p)[1]
    if name == "pow":
        power = _exact_power(x, p[0] - 1)
        return None if power is None else p[0] * power
    if name in ("log", "log1p", "reciprocal"):
        return {"log": lambda: 1 / x, "log1p": lambda: 1 / (1 + x), "reciprocal": lambda: -1 / x**2}[name]()
    if name in ("sqrt", "rsqrt"):
        root = _exact_power(x, Fraction(-1, 2))
        return None if root is None else root / 2 if name == "sqrt" else -root / (2 * x)
    if name == "softplus":
        return Fraction(1) if p[0] * x > p[1] else Fraction(1, 2) if x == 0 else None
    if name == "elu" and x >= 0:
        return Fraction(1) if x > 0 else p[0]
    if x == 0 and name != "erf":
        return _AT_ZERO[name]
    return None


_AT_ZERO = {
    "exp": Fraction(1),
    "expm1": Fraction(1),
    "tanh": Fraction(1),
    "sigmoid": Fraction(1, 4),
    "silu": Fraction(1, 2),
    "gelu": Fraction(1, 2),
    "gelu_tanh": Fraction(1, 2),
    "mish": Fraction(3, 5),
}
_ZERO, _ONE = Fraction(0), Fraction(1)


def _hard_swish(x: Any, p: Parameters) -> tuple[Any, Any]:
    if x <= -3 or x >= 3:
        return (_ZERO, _ZERO) if x < 0 else (x, _ONE)
    return x * (x + 3) / 6, (2 * x + 3) / 6


def _hard_tanh(x: Any, p: Parameters) -> tuple[Any, Any]:
    low, high = p
    return (low if x < low else high if x > high else x), (_ONE if low < x < high else _ZERO)


PIECES: dict[str, Callable[[Any, Parameters], tuple[Any, Any]]] = {
    "relu": lambda x, p: (x, _ONE) if x > 0 else (_ZERO, _ZERO),
    "leaky_relu": lambda x, p: (x, _ONE) if x > 0 else (p[0] * x, p[0]),
    "hardswish": _hard_swish,
    "hardsigmoid": lambda x, p: (
        (_ZERO if x < 0 else _ONE, _ZERO) if x <= -3 or x >= 3 else ((x + 3) / 6, Fraction(1, 6))
    ),
    "hardtanh": _hard_tanh,
    "abs": lambda x, p: (abs(x), _ONE if x > 0 else -_ONE if x < 0 else _ZERO),
}
"""Functions that are rational in pieces: (value, derivative) at a rational."""

KEEPS_ZERO = frozenset(
    ["leaky_relu", "elu", "tanh", "gelu", "gelu_tanh", "silu", "mish", "hardswish", "expm1", "log1p", "sqrt", "erf"]
)
"""Functions with f(-0) = -0 and f(+0) = +0."""


def _root(n: int, degree: int) -> int | None:
    """The exact root of an integer, or None."""
    root = int(flint.fmpz(n).root(degree))
    return root if root**degree == n else None


def _exact_power(x: Fraction, exponent: Fraction) -> Fraction | None:
    """x to a rational power where that is rational and may lie on a boundary of rounding; x != 0."""
    if exponent == 0 or x == 1:
        return Fraction(1)
    if x < 0:
        sign = -1 if exponent.numerator % 2 else 1
        return None if (power := _exact_power(-x, exponent)) is None else sign * power
    p, q = exponent.numerator, exponent.denominator
    top, bottom = x.numerator, x.denominator
    if q > 1:
        if q > 1100:  # no other number has such a root
            return None
        first, second = _root(top, q), _root(bottom, q)
        if first is None or second is None:
            return None
        top, bottom = first, second
    if max(top, bottom).bit_length() * abs(p) > 20_000:  # beyond every format, or too long for a boundary
        return None
    return Fraction(top, bottom) ** p


def _decided(ball: Callable[[], Any], target: Format) -> float:
    """What a ball that is evaluated with growing precision rounds to."""
    before = flint.ctx.prec
    try:
        bits = 96
        while True:
            flint.ctx.prec = bits
            result = round_ball(ball(), target)
            if result is not None:
                return result
            bits *= 2
    finally:
        flint.ctx.prec = before


def rounded_value(name: str, p: Parameters, x: float, target: Format) -> float:
    """The value of the function at a float, rounded once."""
    if name == "pow" and p[0] == 0:
        return 1.0
    if math.isnan(x):
        return math.nan
    special = value_at_end(name, p, x > 0) if math.isinf(x) else value_outside(name, p, x)
    if special is not None:
        return _fitted(special, target)
    if x == 0 and name in KEEPS_ZERO:
        return x
    if x == 0 and name == "hardtanh" and p[0] <= 0 <= p[1]:
        return x  # inside, the input's own bits
    if (name == "pow" and p[0] == 1) or (x == 0 and name == "softplus" and p[1] < 0):
        return x
    value = exact_value(name, p, Fraction(x))
    if value is not None:
        return round_rational(value.numerator, value.denominator, target)
    return _decided(lambda: VALUES[name](flint.arb(x), p), target)


def rounded_slope(name: str, p: Parameters, x: float, t: float, target: Format) -> float:
    """The derivative of the function at a float times another float, rounded once.

    A derivative that is exactly 0 at a number, or on a whole piece of the line, gives +0 whatever ``t`` is.
    """
    slope: float | Fraction | None
    if name == "pow" and p[0] in (0, 1):
        slope = p[0]
    elif math.isinf(x):
        slope = PIECES[name](Fraction(4 if x > 0 else -4) + _reach(p, x), p)[1] if name in PIECES else None
        slope = slope_at_end(name, p, x > 0) if slope is None else slope
    else:
        slope = None if math.isnan(x) else slope_outside(name, p, x)
        if slope is None and not math.isnan(x):
            slope = exact_slope(name, p, Fraction(x))
    if math.isnan(x) and slope != 0:
        return t if name == "relu" else math.nan  # relu closes where x <= 0, and nowhere else
    if (isinstance(slope, float) and not math.isinf(x) and slope == 0) or (isinstance(slope, Fraction) and slope == 0):
        return 0.0
    if isinstance(slope, float):
        return _fitted(slope * t, target)
    if not math.isfinite(t) or t == 0:
        return t * _sign(name, p, x, slope)
    if slope is not None:
        product = slope * Fraction(t)
        return round_rational(product.numerator, product.denominator, target)
    return _decided(lambda: SLOPES[name](flint.arb(x), p) * flint.arb(t), target)


def _reach(p: Parameters, x: float) -> Fraction:
    """So far out that every piece of a function in pieces has ended."""
    most = max((abs(v) for v in p), default=Fraction(0))
    return most if x > 0 else -most


def _sign(name: str, p: Parameters, x: float, ratio: Fraction | None) -> float:
    """The sign of a derivative that is not 0."""
    if ratio is not None:
        return 1.0 if ratio > 0 else -1.0
    before = flint.ctx.prec
    try:
        bits = 64
        while True:
            flint.ctx.prec = bits
            ball = SLOPES[name](flint.arb(x), p)
            if ball > 0 or ball < 0:
                return 1.0 if ball > 0 else -1.0
            bits *= 2
    finally:
        flint.ctx.prec = before


def _fitted(value: float | Fraction, target: Format) -> float:
    """A limit, rounded to the format; NaN, infinities and zeros stay as they are."""
    if isinstance(value, float) and (not math.isfinite(value) or value == 0):
        return math.nan if math.isnan(value) else value
    return round_rational(*Fraction(value).as_integer_ratio(), target)
