"""Elementwise functions: y = f(x) for every element, JVP f'(x) t, VJP f'(x) g.

    exp          e^x                                 relu         x where x > 0, else 0
    expm1        e^x - 1                             leaky_relu   x where x > 0, else slope * x
    log          log(x)                              elu          x where x > 0, else alpha * (e^x - 1)
    log1p        log(1 + x)                          sigmoid      1 / (1 + e^-x)
    sqrt         x^(1/2)                             softplus     log(1 + e^(beta * x)) / beta
    rsqrt        x^(-1/2)                            silu         x * sigmoid(x)
    reciprocal   1 / x                               gelu         x * (1 + erf(x / sqrt(2))) / 2
    pow          x^exponent                          mish         x * tanh(log(1 + e^x))
    erf, tanh, abs                                   hardswish, hardsigmoid, hardtanh: in pieces

Floats are rounded once, by :mod:`halfulp.numbers.elementary`, which also says what infinities, poles and zeros give.
Rationals have a value where the function gives a rational; balls always; floats and symbols by their own arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from halfulp.errors import DTypeError
from halfulp.numbers import as_doubles, elementary, elementary_kinds, flint, float_format
from halfulp.records import ELEMENTWISE, ElementwiseOperator
from halfulp.spec._registry import Functions, register
from halfulp.spec._scalars import exp, filled, is_rational, kind_of, log

Array = np.ndarray[Any, Any]


def forward(op: ElementwiseOperator, inputs: tuple[Array, ...], progress: bool = False) -> Array:
    """f(x)."""
    (x,) = inputs
    return filled(x.shape, [value(op, v) for v in x.ravel()])


def jvp(op: ElementwiseOperator, primals: tuple[Array, ...], tangents: Any, progress: bool = False) -> Array:
    """f'(x) t."""
    (x,), (t,) = primals, tangents
    return filled(x.shape, [product(op, v, w) for v, w in zip(x.ravel(), t.ravel(), strict=True)])


def vjp(op: ElementwiseOperator, primals: tuple[Array, ...], cotangent: Array, progress: bool = False) -> tuple[Array]:
    """f'(x) g."""
    return (jvp(op, primals, (cotangent,)),)


def value(op: ElementwiseOperator, x: Any) -> Any:
    """f(x) in the arithmetic of x."""
    return _evaluated(op, x, elementary.exact_value, elementary_kinds.ball_value)


def product(op: ElementwiseOperator, x: Any, t: Any) -> Any:
    """f'(x) t in the arithmetic of x; 0 where the derivative is exactly 0."""
    slope = _evaluated(op, x, elementary.exact_slope, elementary_kinds.ball_slope)
    return slope * t


def _evaluated(op: ElementwiseOperator, x: Any, exact: Callable[..., Any], ball: Callable[..., Any]) -> Any:
    name, parameters = op.function, op.parameters
    if is_rational(x):
        ratio = Fraction(int(x.p), int(x.q)) if isinstance(x, flint.fmpq) else Fraction(x)
        found = exact(name, parameters, ratio)
        if found is None:
            raise DTypeError(
                op.name,
                f"scalar {x} of type {type(x).__name__}",
                f"{op.name} of a rational is not rational; use flint.arb balls or floats",
                "S2",
            )
        return flint.fmpq(found.numerator, found.denominator) if isinstance(x, flint.fmpq) else found
    if isinstance(x, flint.arb):
        return ball(name, parameters, x)
    if isinstance(x, (float, np.floating)):
        return _by_float(op, float(x), ball is elementary_kinds.ball_slope)
    if kind_of(x) == "sympy":
        return elementary_kinds.symbolic(name, parameters, x, ball is elementary_kinds.ball_slope)
    return _foreign(op, x, ball is elementary_kinds.ball_slope)


def _foreign(op: ElementwiseOperator, x: Any, slope: bool) -> Any:
    """Of a number of somebody else's: functions in pieces need arithmetic and order, others the methods exp and log."""
    name, one = op.function, x * 0 + 1
    p = [flint.fmpq(v.numerator, v.denominator) for v in op.parameters]
    if name in _JOINED:
        return _JOINED[name](x, p, one)[slope]
    if name in _SMOOTH and not slope and (hasattr(x, "exp") or name in ("reciprocal", "pow", "sqrt", "rsqrt")):
        return _SMOOTH[name](x, p, one)
    raise DTypeError(
        op.name, f"scalars of kind {type(x).__name__}", "must be rationals, flint.arb, floats or sympy's", "S2"
    )


_JOINED: dict[str, Callable[[Any, Any, Any], tuple[Any, Any]]] = {
    "relu": lambda x, p, one: (x, one) if x > 0 else (x * 0, x * 0),
    "abs": lambda x, p, one: (x, one) if x > 0 else (-x, -one) if x < 0 else (x * 0, x * 0),
    "leaky_relu": lambda x, p, one: (x, one) if x > 0 else (x * p[0], one * p[0]),
    "hardsigmoid": lambda x, p, one: (
        ((x + 3) / (one * 6), one / (one * 6)) if -3 < x < 3 else (one if x > 0 else x * 0, x * 0)
    ),
    "hardswish": lambda x, p, one: (
        (x * (x + 3) / (one * 6), (x * 2 + 3) / (one * 6)) if -3 < x < 3 else (x, one) if x > 0 else (x * 0, x * 0)
    ),
    "hardtanh": lambda x, p, one: (
        (one * p[0], x * 0) if x < p[0] else (one * p[1], x * 0) if x > p[1] else (x, one if p[0] < x < p[1] else x * 0)
    ),
}
"""(value, derivative) of functions in pieces, over anything that can be added, multiplied and ordered."""


def _sigmoid(x: Any, one: Any) -> Any:
    return one / (one + exp(-x))


def _tanh(x: Any, one: Any) -> Any:
    return _sigmoid(x * 2, one) * 2 - one


def _inner(x: Any) -> Any:
    return (x + x * x * x * flint.fmpq(44715, 1_000_000)) * (2 / flint.arb.pi()).sqrt()


_SMOOTH: dict[str, Callable[[Any, Any, Any], Any]] = {
    "exp": lambda x, p, one: exp(x),
    "expm1": lambda x, p, one: exp(x) - one,
    "log": lambda x, p, one: log(x),
    "log1p": lambda x, p, one: log(one + x),
    "reciprocal": lambda x, p, one: one / x,
    "sqrt": lambda x, p, one: x ** Fraction(1, 2),
    "rsqrt": lambda x, p, one: x ** Fraction(-1, 2),
    "pow": lambda x, p, one: x ** Fraction(int(p[0].p), int(p[0].q)),
    "erf": lambda x, p, one: x.erf(),
    "sigmoid": lambda x, p, one: _sigmoid(x, one),
    "tanh": lambda x, p, one: _tanh(x, one),
    "silu": lambda x, p, one: x * _sigmoid(x, one),
    "gelu": lambda x, p, one: x * (one + (x / flint.arb(2).sqrt()).erf()) / (one * 2),
    "gelu_tanh": lambda x, p, one: x * (one + _tanh(_inner(x), one)) / (one * 2),
    "mish": lambda x, p, one: x * _tanh(log(one + exp(x)), one),
    "softplus": lambda x, p, one: x if x * p[0] > p[1] else log(one + exp(x * p[0])) / (one * p[0]),
    "elu": lambda x, p, one: x if x > 0 else (exp(x) - one) * p[0],
}
"""Values of smooth functions over anything with the methods exp, log and, for powers, **."""


def _by_float(op: ElementwiseOperator, x: float, slope: bool) -> float:
    """A Python float is a float64."""
    target = float_format("float64")
    if slope:
        return elementary.rounded_slope(op.function, op.parameters, x, 1.0, target)
    return elementary.rounded_value(op.function, op.parameters, x, target)


def float_forward(op: ElementwiseOperator, x: Array) -> Array:
    """f(x) of floats, rounded once."""
    target = float_format(x.dtype)
    found = [elementary.rounded_value(op.function, op.parameters, v, target) for v in as_doubles(x).ravel().tolist()]
    return _array(found, x)


def float_product(op: ElementwiseOperator, x: Array, t: Array) -> Array:
    """f'(x) t of floats, rounded once."""
    target = float_format(x.dtype)
    pairs = zip(as_doubles(x).ravel().tolist(), as_doubles(t).ravel().tolist(), strict=True)
    return _array([elementary.rounded_slope(op.function, op.parameters, v, w, target) for v, w in pairs], x)


def _array(values: list[float], like: Array) -> Array:
    plain = np.array([math.nan if v != v else v for v in values], dtype=np.float64)
    result: Array = plain.astype(like.dtype).reshape(like.shape)
    return result


for _record in ELEMENTWISE:
    register(_record, Functions(forward, jvp, vjp))
