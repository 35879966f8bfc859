"""Elementwise functions over balls that may lie across a joint of two pieces, and over sympy's symbols."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from halfulp.numbers import flint
from halfulp.numbers.elementary import PIECES, SLOPES, VALUES, Ball, Parameters, rational_ball, sigmoid


def ball_value(name: str, p: Parameters, x: Any) -> Any:
    """A ball around the values at every number of a ball."""
    if name in PIECES or name == "reciprocal":
        return _pieces(name, p, x, 0)
    if name in ("elu", "softplus") and (pieces := _both_sides(name, p, x, VALUES)) is not None:
        return pieces
    return VALUES[name](x, p)


def ball_slope(name: str, p: Parameters, x: Any) -> Any:
    """A ball around the derivatives at every number of a ball."""
    if name in PIECES or name in ("log", "log1p", "reciprocal"):
        return _pieces(name, p, x, 1)
    if name in ("elu", "softplus") and (pieces := _both_sides(name, p, x, SLOPES)) is not None:
        return pieces
    return SLOPES[name](x, p)


def _pieces(name: str, p: Parameters, x: Any, which: int) -> Any:
    """Of a function in pieces: the hull over the pieces that the ball meets."""
    if name == "reciprocal":
        return 1 / x if which == 0 else -1 / (x * x)
    if name in ("log", "log1p"):
        return 1 / x if name == "log" else 1 / (1 + x)
    balls = [rational_ball(v) for v in p]
    joints = {"hardswish": (-3, 3), "hardsigmoid": (-3, 3), "hardtanh": tuple(p)}.get(name, (0,))
    found: Any = None
    for low, high in zip((None, *joints), (*joints, None), strict=True):
        if (low is not None and x < rational_ball(Fraction(low))) or (
            high is not None and x > rational_ball(Fraction(high))
        ):
            continue
        piece = _piece(name, balls, x, len([j for j in joints if low is not None and j <= low]))[which]
        found = piece if found is None else found.union(piece)
    at_joint = [Fraction(j) for j in joints if x.contains(rational_ball(Fraction(j)))]
    for joint in at_joint:
        piece = rational_ball(PIECES[name](joint, p)[which])
        if x == rational_ball(joint):
            return piece
        found = found.union(piece)
    return found


def _piece(name: str, p: Sequence[Any], x: Any, number: int) -> tuple[Any, Any]:
    """Value and derivative of one piece, counted from the left."""
    zero, one = flint.arb(0), flint.arb(1)
    return {
        "relu": ((zero, zero), (x, one)),
        "abs": ((-x, -one), (x, one)),
        "leaky_relu": ((p[0] * x if p else x, p[0] if p else one), (x, one)),
        "hardswish": ((zero, zero), (x * (x + 3) / 6, (2 * x + 3) / 6), (x, one)),
        "hardsigmoid": ((zero, zero), ((x + 3) / 6, one / 6), (one, zero)),
        "hardtanh": ((p[0] if p else zero, zero), (x, one), (p[-1] if p else zero, zero)),
    }[name][number]


def _both_sides(name: str, p: Parameters, x: Any, table: dict[str, Ball]) -> Any:
    """The hull of both pieces where a ball does not tell which one it lies in; None where it does."""
    joint = flint.arb(0) if name == "elu" else rational_ball(p[1] / p[0])
    if x > joint or x <= joint or x == joint:
        return None
    linear = x if table is VALUES else flint.arb(1)
    if name == "elu":
        curved = rational_ball(p[0]) * (x.expm1() if table is VALUES else x.exp())
    else:
        u = rational_ball(p[0]) * x
        curved = u.exp().log1p() / rational_ball(p[0]) if table is VALUES else sigmoid(u)
    return linear.union(curved)


def symbolic(name: str, p: Parameters, x: Any, slope: bool) -> Any:
    """The function or its derivative of a symbol of sympy."""
    import sympy

    y, s = sympy.Dummy("x", real=True), [sympy.Rational(v.numerator, v.denominator) for v in p]
    cubic = sympy.Rational(44715, 1_000_000)
    table = {
        "exp": lambda: sympy.exp(y),
        "expm1": lambda: sympy.exp(y) - 1,
        "log": lambda: sympy.log(y),
        "log1p": lambda: sympy.log(1 + y),
        "sqrt": lambda: sympy.sqrt(y),
        "rsqrt": lambda: 1 / sympy.sqrt(y),
        "reciprocal": lambda: 1 / y,
        "abs": lambda: sympy.Abs(y),
        "erf": lambda: sympy.erf(y),
        "pow": lambda: y ** s[0],
        "relu": lambda: sympy.Max(y, 0),
        "leaky_relu": lambda: sympy.Piecewise((y, y > 0), (s[0] * y, True)),
        "elu": lambda: sympy.Piecewise((y, y > 0), (s[0] * (sympy.exp(y) - 1), True)),
        "sigmoid": lambda: 1 / (1 + sympy.exp(-y)),
        "tanh": lambda: sympy.tanh(y),
        "softplus": lambda: sympy.Piecewise((y, s[0] * y > s[1]), (sympy.log(1 + sympy.exp(s[0] * y)) / s[0], True)),
        "gelu": lambda: y * (1 + sympy.erf(y / sympy.sqrt(2))) / 2,
        "gelu_tanh": lambda: y * (1 + sympy.tanh(sympy.sqrt(2 / sympy.pi) * (y + cubic * y**3))) / 2,
        "silu": lambda: y / (1 + sympy.exp(-y)),
        "mish": lambda: y * sympy.tanh(sympy.log(1 + sympy.exp(y))),
        "hardswish": lambda: sympy.Piecewise((0, y <= -3), (y, y >= 3), (y * (y + 3) / 6, True)),
        "hardsigmoid": lambda: sympy.Piecewise((0, y <= -3), (1, y >= 3), ((y + 3) / 6, True)),
        "hardtanh": lambda: sympy.Piecewise((s[0], y < s[0]), (s[1], y > s[1]), (y, True)),
    }
    formula = table[name]()
    if slope:
        formula = sympy.Heaviside(y, 0) if name == "relu" else sympy.diff(formula, y)
    return formula.subs(y, x)
