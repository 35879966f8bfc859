"""Arithmetic of arrays with NumPy's broadcasting: every float result is one IEEE operation, rounded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from halfulp.autograd.operators._base import PullbackRule, TapeOperator
from halfulp.autograd.operators.reduction import sum_to
from halfulp.autograd.scalars import Array, constant_like, holds
from halfulp.autograd.traced import Traced, apply
from halfulp.numbers import float_format, round_rational


class _Binary(TapeOperator):
    """An elementwise operator of two inputs; the cotangents are summed back to the inputs' shapes."""

    ufunc: ClassVar[np.ufunc]

    def forward(self, *inputs: Array) -> Any:
        x, y = inputs
        try:
            return self.ufunc(x, y)
        except ValueError as error:
            raise self._fail(f"input shapes={x.shape} and {y.shape}", "must broadcast together") from error


def _spread(tangent: Any, output: Any) -> Any:
    """A tangent in the output's shape."""
    from halfulp.autograd.operators.shape import broadcast_to

    return tangent if tangent.shape == output.shape else broadcast_to(tangent, output.shape)


class Add(_Binary):
    """x + y."""

    name = "add"
    ufunc = np.add

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        dx, dy = tangents
        if dx is None or dy is None:
            return _spread(dy if dx is None else dx, output)
        return add(dx, dy)

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        shapes = [p.shape for p in primals]
        return lambda g: tuple(sum_to(g, shape) if need else None for shape, need in zip(shapes, needs, strict=True))


class Sub(_Binary):
    """x - y."""

    name = "sub"
    ufunc = np.subtract

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        dx, dy = tangents
        if dy is None:
            return _spread(dx, output)
        return _spread(neg(dy), output) if dx is None else sub(dx, dy)

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        (x_shape, y_shape), (need_x, need_y) = (p.shape for p in primals), needs
        return lambda g: (
            sum_to(g, x_shape) if need_x else None,
            neg(sum_to(g, y_shape)) if need_y else None,
        )


class Mul(_Binary):
    """x * y."""

    name = "mul"
    ufunc = np.multiply

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        (x, y), (dx, dy) = primals, tangents
        if dx is None:
            return mul(x, dy)
        return mul(dx, y) if dy is None else add(mul(dx, y), mul(x, dy))

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        (x, y), (need_x, need_y) = primals, needs
        x_shape, y_shape = x.shape, y.shape
        x, y = x if need_y else None, y if need_x else None  # keep only what the cotangents are made of
        return lambda g: (
            sum_to(mul(g, y), x_shape) if need_x else None,
            sum_to(mul(g, x), y_shape) if need_y else None,
        )


class Div(_Binary):
    """x / y."""

    name = "div"
    ufunc = np.true_divide

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        (_, y), (dx, dy) = primals, tangents
        if dy is None:
            return div(dx, y)
        change = neg(mul(output, dy)) if dx is None else sub(dx, mul(output, dy))
        return div(change, y)

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        (x, y), (need_x, need_y) = primals, needs
        x_shape = x.shape

        def rule(g: Any) -> tuple[Any, ...]:
            share = div(g, y)
            return (
                sum_to(share, x_shape) if need_x else None,
                sum_to(neg(mul(share, output)), y.shape) if need_y else None,
            )

        return rule


class Neg(TapeOperator):
    """-x."""

    name = "neg"

    def forward(self, *inputs: Array) -> Any:
        return np.negative(inputs[0])

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        return neg(tangents[0])

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        return lambda g: (neg(g),)


@dataclass(frozen=True)
class Power(TapeOperator):
    """x ** n for an integer n >= 0, by repeated multiplication from the left."""

    exponent: int
    name: ClassVar[str] = "power"

    def forward(self, *inputs: Array) -> Any:
        (x,) = inputs
        if not isinstance(self.exponent, (int, np.integer)) or self.exponent < 0:
            raise self._fail(
                f"exponent={self.exponent!r}", "must be an integer >= 0; write a root or inverse with exp and log"
            )
        out = np.broadcast_to(constant_like(x, 1), x.shape) if self.exponent == 0 else x
        for _ in range(self.exponent - 1):
            out = out * x
        return np.array(out)

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        return mul(self._slope(primals[0]), tangents[0])

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        (x,) = primals
        return lambda g: (mul(self._slope(x), g),)

    def _slope(self, x: Any) -> Any:
        if self.exponent == 0:
            return mul(x, constant_like(x, 0))
        return apply(Times(int(self.exponent)), power(x, self.exponent - 1))


@dataclass(frozen=True)
class Times(TapeOperator):
    """Every element times one integer: the exact product, rounded once, also of an integer the type does not hold."""

    factor: int
    name: ClassVar[str] = "times"

    def forward(self, *inputs: Array) -> Any:
        (x,) = inputs
        if x.dtype == object or x.dtype.kind in "iub" or holds(x.dtype, self.factor):
            return x * constant_like(x, self.factor)
        out = np.array(x, order="C")  # NaN, infinities and zeros are their own multiples
        flat = out.reshape(-1)
        for place in np.flatnonzero(np.isfinite(flat) & (flat != 0)):
            numerator, denominator = float(flat[place]).as_integer_ratio()
            flat[place] = round_rational(numerator * self.factor, denominator, float_format(x.dtype))
        return out

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        return apply(self, tangents[0])

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        return lambda g: (apply(self, g),)


_ADD, _SUB, _MUL, _DIV, _NEG = Add(), Sub(), Mul(), Div(), Neg()


def _operands(x: Any, y: Any) -> tuple[Any, Any]:
    """Both as arrays or traced values; a plain number takes the other's kind."""
    if not isinstance(y, (np.ndarray, Traced)):
        y = constant_like(x, y)
    elif not isinstance(x, (np.ndarray, Traced)):
        x = constant_like(y, x)
    return x, y


def add(x: Any, y: Any) -> Any:
    """x + y.

    >>> add(np.array([1.0, 2.0]), 1)
    array([2., 3.])
    """
    return apply(_ADD, *_operands(x, y))


def sub(x: Any, y: Any) -> Any:
    """x - y.

    >>> sub(1, np.array([1.0, 2.0]))
    array([ 0., -1.])
    """
    return apply(_SUB, *_operands(x, y))


def mul(x: Any, y: Any) -> Any:
    """x * y.

    >>> mul(np.array([1.0, 2.0]), 3)
    array([3., 6.])
    """
    return apply(_MUL, *_operands(x, y))


def div(x: Any, y: Any) -> Any:
    """x / y.

    >>> div(np.array([1.0, 2.0]), 4)
    array([0.25, 0.5 ])
    """
    return apply(_DIV, *_operands(x, y))


def neg(x: Any) -> Any:
    """-x.

    >>> neg(np.array([1.0, -2.0]))
    array([-1.,  2.])
    """
    return apply(_NEG, x)


def power(x: Any, exponent: int) -> Any:
    """x ** exponent for an integer exponent >= 0.

    >>> power(np.array([2.0, 3.0]), 2)
    array([4., 9.])
    """
    return apply(Power(exponent), x)
