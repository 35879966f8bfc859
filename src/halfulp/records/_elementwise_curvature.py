"""Second derivatives of elementwise functions, in the arithmetic of any bridge.

Each rule gives f''(x) w for a direction w, made of the function's own push, its value, and other elementwise functions
through ``calculus.apply``. The push and the pull of an elementwise function are the same map, so that one rule serves
both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from halfulp.numbers import flint
from halfulp.records._curvature import Curvature

Bend = Callable[[Any, Any, Any], Any]


def bent(name: str, bend: Bend) -> Curvature:
    """The curvature of an elementwise function: ``bend(calculus, x, w)`` is f''(x) w, or None if f'' is 0."""

    def tangent(c: Any, points: Sequence[Any], directions: Sequence[Any], moved: Sequence[Any]) -> list[Any]:
        (x,), (t,), (v,) = points, directions, moved
        found = None if t is None or v is None else bend(c, x, t * v)
        return [] if found is None else [found]

    def cotangent(c: Any, points: Sequence[Any], g: Any, moved: Sequence[Any], which: int) -> list[Any]:
        (x,), (v,) = points, moved
        found = None if v is None else bend(c, x, g * v)
        return [] if found is None else [found]

    return Curvature(name, tangent, cotangent)


def push(c: Any, x: Any, w: Any) -> Any:
    """f'(x) w."""
    return c.push((x,), (w,))


def where_zero(c: Any, x: Any) -> Any:
    """1 where x is 0, else 0."""
    return c.nonzero(x) - x


def times(c: Any, x: Any, number: Callable[[], Any]) -> Any:
    """``x`` times an irrational number: exactly for balls, else as the float next to it."""
    ball = number()
    balls = str(getattr(x, "dtype", "")) == "object" and not isinstance(_first(x), float)
    return c.scaled(x, ball if balls else float(ball.mid()))


def _first(x: Any) -> Any:
    """Some element of an array or a traced array."""
    while not hasattr(x, "flat"):
        x = x.value
    return next(iter(x.flat), 0.0)


def exponential(c: Any, x: Any, w: Any) -> Any:
    """f'' = f', of exp and exp - 1."""
    return push(c, x, w)


def logarithm(c: Any, x: Any, w: Any) -> Any:
    """f'' = -f'^2, of log(x) and log(1 + x)."""
    return c.scaled(push(c, x, push(c, x, w)), -1)


def square_root(c: Any, x: Any, w: Any) -> Any:
    """f'' = -2 f'^3."""
    return c.scaled(push(c, x, push(c, x, push(c, x, w))), -2)


def inverse_square_root(c: Any, x: Any, w: Any) -> Any:
    """f'' = -3/2 f' / x."""
    return c.scaled(push(c, x, w) / x, -1.5)


def inverse(c: Any, x: Any, w: Any) -> Any:
    """f'' = -2 f' / x."""
    return c.scaled(push(c, x, w) / x, -2)


def power(c: Any, x: Any, w: Any) -> Any:
    """f'' = e (e - 1) x^(e - 2)."""
    (e,) = c.op.parameters
    if e in (0, 1):
        return None
    less = e - 2 if str(getattr(x, "dtype", "")) == "object" else float(e - 2)
    return c.scaled(c.apply(type(c.op)(less), x) * w, e * (e - 1))


def error_function(c: Any, x: Any, w: Any) -> Any:
    """f'' = -2 x f'."""
    return c.scaled(x * push(c, x, w), -2)


def sigmoid(c: Any, x: Any, w: Any) -> Any:
    """f'' = f' (1 - 2 f)."""
    return push(c, x, w) * (c.ones(x) - c.scaled(c.value((x,)), 2))


def tanh(c: Any, x: Any, w: Any) -> Any:
    """f'' = -2 f f'."""
    return c.scaled(c.value((x,)) * push(c, x, w), -2)


def softplus(c: Any, x: Any, w: Any) -> Any:
    """f'' = beta f' (1 - f')."""
    ones = c.ones(x)
    return c.scaled(push(c, x, w) * (ones - push(c, x, ones)), c.op.beta)


def elu(c: Any, x: Any, w: Any) -> Any:
    """f'' = f' where x <= 0, else 0."""
    from halfulp.records.activations import Relu

    return push(c, x, w) * where_zero(c, c.apply(Relu(), x))


def hardswish(c: Any, x: Any, w: Any) -> Any:
    """f'' = 1/3 inside (-3, 3), else 0."""
    from halfulp.records.activations import Hardsigmoid

    h, ones = c.apply(Hardsigmoid(), x), c.ones(x)
    inside = ones - where_zero(c, h * (ones - h))
    return inside * w / c.scaled(ones, 3)


def silu(c: Any, x: Any, w: Any) -> Any:
    """f'' = s (1 - s) (2 + x (1 - 2 s)) with s = sigmoid(x)."""
    from halfulp.records.activations import Sigmoid

    s, ones = c.apply(Sigmoid(), x), c.ones(x)
    return s * (ones - s) * (c.scaled(ones, 2) + x * (ones - c.scaled(s, 2))) * w


def gelu(c: Any, x: Any, w: Any) -> Any:
    """f'' = exp(-x^2 / 2) (2 - x^2) / sqrt(2 pi); of the tanh form by the rule of products."""
    from halfulp.records.activations import Sigmoid
    from halfulp.records.elementary import Exp

    ones, square = c.ones(x), x * x
    if c.op.approximate == "none":
        density = times(c, c.apply(Exp(), c.scaled(square, -0.5)), lambda: 1 / (2 * flint.arb.pi()).sqrt())
        return density * (c.scaled(ones, 2) - square) * w
    cubic = Fraction(44715, 1_000_000)

    def scale(v: Any) -> Any:
        return times(c, v, lambda: 2 * (2 / flint.arb.pi()).sqrt())

    s = c.apply(Sigmoid(), scale(x + c.scaled(square * x, cubic)))
    first = scale(ones + c.scaled(square, 3 * cubic))
    slope = s * (ones - s)
    bend = slope * (ones - c.scaled(s, 2)) * first * first + scale(c.scaled(slope * x, 6 * cubic))
    return (c.scaled(slope * first, 2) + x * bend) * w


def mish(c: Any, x: Any, w: Any) -> Any:
    """With T = tanh(softplus(x)), s = sigmoid(x), T' = s (1 - T^2): f'' = T' (2 + x (1 - s - 2 T s))."""
    from halfulp.records.activations import Sigmoid, Softplus, Tanh

    ones, s = c.ones(x), c.apply(Sigmoid(), x)
    t = c.apply(Tanh(), c.apply(Softplus(1.0, 1e30), x))
    slope = s * (ones - t * t)
    return slope * (c.scaled(ones, 2) + x * (ones - s - c.scaled(t * s, 2))) * w
