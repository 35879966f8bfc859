"""Power-mean pooling: y = (sum of |x|^p)^(1/p) over a window, max |x| for p = infinity; padded cells are zeros.

With the weights w_i = sign(x_i) * (|x_i| / y)^(p-1), which are 0 where x_i is 0, and for p = infinity
sign(x_i) / m for the m cells with |x_i| = y, 0 for the others,

    forward   (sum of |x|^p)^(1/p)
    JVP       sum(w_i * t_i)
    VJP       w_i * g to every real cell

A weight of 0 times anything is a zero. Floats are rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from halfulp.errors import DTypeError
from halfulp.geometry import Window, windows
from halfulp.numbers import flint
from halfulp.numbers._norms import _root
from halfulp.records import GlobalLpPool, LpPool, Shape
from halfulp.spec._pooling import Pooling
from halfulp.spec._registry import register
from halfulp.spec._scalars import is_nan, is_rational, kind_of, total
from halfulp.spec.global_pool import whole_plane


def lp_pool_windows(op: LpPool, spatial: Shape) -> Iterable[Window]:
    """The sliding windows of a plane."""
    return windows(op.axes(spatial))


def magnitude(value: Any) -> Any:
    """The absolute value."""
    if isinstance(value, flint.arb) or kind_of(value) == "sympy":
        return abs(value)
    if value == 0:
        return value * value  # +0, of either zero
    return -value if value < 0 else value


def sign(zero: Any, value: Any) -> Any:
    """-1, 0 or 1 as a scalar of this kind; NaN of NaN."""
    return value if is_nan(value) else zero + 1 if value > 0 else zero - 1 if value < 0 else zero


def power(op: Any, value: Any, p: Any, root: bool = False) -> Any:
    """A scalar >= 0 to the power p or, if ``root``, 1/p."""
    if value == 0 or p == 1:
        return value
    if is_rational(value):
        exact = _rational_power(value, p, root)
        if exact is None:
            text = "the result is not rational; give flint.arb, float, a float array or sympy"
            raise DTypeError(op.name, f"p={op.p!r} on scalars of kind {type(value).__name__}", text, "L2")
        return exact
    if isinstance(value, flint.arb):
        ball = flint.arb(flint.fmpq(*p.as_integer_ratio()))
        return value ** (1 / ball if root else ball)
    if isinstance(value, (float, np.floating)):
        return type(value)(math.pow(value, float(1 / Fraction(p)) if root else float(p)))
    exponent = Fraction(p)
    if kind_of(value) == "sympy":
        import sympy

        rational = sympy.Rational(exponent.numerator, exponent.denominator)
        return value ** (1 / rational if root else rational)
    return value ** (1 / exponent if root else exponent)


def _rational_power(value: Any, p: Any, root: bool) -> Any:
    top, bottom = Fraction(p).as_integer_ratio()
    if root:
        top, bottom = bottom, top
    if bottom > 64:
        return None
    found = _root(
        flint.fmpq(value.numerator, value.denominator) if isinstance(value, Fraction) else flint.fmpq(value), bottom
    )
    if found is None:
        return None
    result = found**top
    return Fraction(int(result.p), int(result.q)) if isinstance(value, Fraction) else result


def lp_pool_value(op: Any, zero: Any, values: Sequence[Any], padded: int) -> Any:
    """The p-norm of a window."""
    if not values:
        return zero
    sizes = [magnitude(value) for value in values]
    if op.p == math.inf:
        nans = [size for size in sizes if is_nan(size)]
        return nans[0] if nans else _largest(sizes)
    if op.p == 1:
        return total(sizes)
    return power(op, total([power(op, size, op.p) for size in sizes]), op.p, root=True)


def _largest(sizes: Sequence[Any]) -> Any:
    largest = sizes[0]
    for size in sizes[1:]:
        largest = largest.max(size) if isinstance(size, flint.arb) else max(largest, size)
    return largest


def weights(op: Any, zero: Any, values: Sequence[Any]) -> list[Any]:
    """The derivative of a window's norm in each of its cells; None for a cell whose weight is 0."""
    if not values:
        return []
    if op.p == 1:
        return [None if value == 0 else sign(zero, value) for value in values]
    y = lp_pool_value(op, zero, values, 0)
    if op.p == math.inf:
        won = [i for i, value in enumerate(values) if is_nan(value) or (not is_nan(y) and magnitude(value) == y)]
        return [sign(zero, value) / len(won) if i in won and value != 0 else None for i, value in enumerate(values)]
    return [
        None if value == 0 else sign(zero, value) * power(op, magnitude(value) / y, Fraction(op.p) - 1)
        for value in values
    ]


def lp_pool_jvp_value(op: Any, zero: Any, values: Sequence[Any], tangents: Sequence[Any], padded: int) -> Any:
    """The sum of the tangents times their weights."""
    shares = weights(op, zero, values)
    if op.p == math.inf:
        terms = [w * t for w, t in zip(shares, tangents, strict=True) if w is not None]
        return total(terms) if terms else zero
    terms = [zero if w is None else w * t for w, t in zip(shares, tangents, strict=True)]
    return total([*terms, zero] if padded or not terms else terms)


def lp_pool_vjp_values(op: Any, zero: Any, values: Sequence[Any], cotangent: Any, padded: int) -> list[Any]:
    """The cotangent times the weight of every cell."""
    if op.p == math.inf:
        return [None if w is None else w * cotangent for w in weights(op, zero, values)]
    return [zero if w is None else w * cotangent for w in weights(op, zero, values)]


register(LpPool, Pooling(lp_pool_windows, lp_pool_value, lp_pool_jvp_value, lp_pool_vjp_values))
register(GlobalLpPool, Pooling(whole_plane, lp_pool_value, lp_pool_jvp_value, lp_pool_vjp_values))
