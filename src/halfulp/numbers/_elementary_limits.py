"""Elementwise functions where no formula gives a value: at infinities, at poles, and outside of the domain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

Parameters = Sequence[Fraction]


def _signed(size: float, by: Fraction) -> float:
    """A size with the sign of a rational, of any size itself."""
    return size if by >= 0 else -size


def _signed_power(x: float, exponent: Fraction) -> float:
    """x to a power for an x that is zero or infinite."""
    if exponent == 0:
        return 1.0
    odd = exponent.denominator == 1 and exponent.numerator % 2 == 1
    size = math.inf if (x == 0) == (exponent < 0) else 0.0
    return -size if math.copysign(1.0, x) < 0 and odd else size


def value_at_end(name: str, p: Parameters, up: bool) -> float | Fraction:
    """The limit of the value at an infinity."""
    if name == "pow":
        return _signed_power(math.inf if up else -math.inf, p[0])
    if name == "softplus":
        return _signed(math.inf, p[0]) if up == (p[0] > 0) else _signed(0.0, p[0])
    if name in ("log", "log1p", "sqrt", "rsqrt"):
        return math.nan if not up else 0.0 if name == "rsqrt" else math.inf
    if name in ("sigmoid", "hardsigmoid"):
        return 1.0 if up else 0.0
    if name in ("tanh", "erf"):
        return 1.0 if up else -1.0
    if name == "hardtanh":
        return p[1] if up else p[0]
    if name == "reciprocal":
        return 0.0 if up else -0.0
    if up or name == "abs":
        return math.inf
    if name == "leaky_relu":
        return 0.0 if p[0] == 0 else -math.inf * _signed(1.0, p[0])
    if name in ("silu", "gelu", "gelu_tanh", "mish"):
        return -0.0
    return -p[0] if name == "elu" else -1.0 if name == "expm1" else 0.0


def slope_at_end(name: str, p: Parameters, up: bool) -> float | Fraction:
    """The limit of the derivative at an infinity; a zero has the sign of the side from which it is reached."""
    if name == "pow":
        sign, infinite = _signed(1.0, p[0]), math.inf if up else -math.inf
        return p[0] if p[0] in (0, 1) else sign * _signed_power(infinite, p[0] - 1)
    if name == "softplus":
        return 1.0 if up == (p[0] > 0) else 0.0
    if name in ("log", "log1p", "sqrt", "rsqrt"):
        return (-0.0 if name == "rsqrt" else 0.0) if up else math.nan
    if name in ("exp", "expm1"):
        return math.inf if up else 0.0
    if name in ("gelu", "gelu_tanh", "silu", "mish"):
        return 1.0 if up else -0.0
    if name == "elu":
        return 1.0 if up else 0.0 * _signed(1.0, p[0])
    return -0.0 if name == "reciprocal" else 0.0


def value_outside(name: str, p: Parameters, x: float) -> float | None:
    """The value at a pole or outside of the domain; None where the function has a value."""
    if (name in ("log", "rsqrt") and x <= 0) or (name == "sqrt" and x < 0) or (name == "log1p" and x <= -1):
        if x < 0 and not (name == "log1p" and x == -1):
            return math.nan
        return math.copysign(math.inf, x) if name == "rsqrt" else -math.inf
    if name == "reciprocal" and x == 0:
        return math.copysign(math.inf, x)
    if name == "pow" and x == 0:
        return _signed_power(x, p[0])
    return math.nan if name == "pow" and x < 0 and p[0].denominator != 1 else None


def slope_outside(name: str, p: Parameters, x: float) -> float | None:
    if (name in ("log", "sqrt", "rsqrt") and x <= 0) or (name == "log1p" and x <= -1):
        if x < 0 and not (name == "log1p" and x == -1):
            return math.nan
        return -math.inf if name == "rsqrt" else math.inf
    if name == "reciprocal" and x == 0:
        return -math.inf
    if name == "pow":
        if p[0] in (0, 1):
            return float(p[0])
        if x < 0 and p[0].denominator != 1:
            return math.nan
        if x == 0:
            return _signed(1.0, p[0]) * _signed_power(x, p[0] - 1)
    return None
