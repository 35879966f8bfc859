"""Elementwise functions: relu, exp, log, tanh, sigmoid.

Floats go through NumPy, element by element: the bits depend on the element and the machine's NumPy alone, never on the
thread count or the run. Balls (`flint.arb`) give rigorous enclosures; of rationals only relu has a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from halfulp.autograd.operators._base import LinearMap, PullbackRule, TapeOperator
from halfulp.autograd.operators.arithmetic import div, mul, sub
from halfulp.autograd.scalars import Array, as_array, constant_like, elementwise
from halfulp.autograd.traced import apply, strip
from halfulp.numbers import flint


class Relu(TapeOperator):
    """max(x, 0), +0 where x <= 0, NaN where x is NaN. The derivative at 0 is 0; one bit per element is kept for it.

    A ball that contains 0 gives the enclosure of both branches.
    """

    name = "relu"

    def forward(self, *inputs: Array) -> Any:
        (x,) = inputs
        if x.dtype == object:
            return as_array(_object_relu(x))
        out = np.asarray(np.maximum(x, x.dtype.type(0)))
        out += x.dtype.type(0)  # this turns the -0 that maximum may keep into +0
        return out

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        return apply(_gate(strip(primals[0])), tangents[0])

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        gate = _gate(strip(primals[0]))
        return lambda g: (apply(gate, g),)


def _gate(x: Array) -> LinearMap:
    """Multiplication by relu's derivative at x, a linear map that is its own transpose."""
    if x.dtype == object:
        slope = as_array(_object_slope(x))
        return LinearMap(lambda g: slope * g, lambda g: slope * g, "relu")
    size, shape = x.size, x.shape
    closed = np.packbits(np.ravel(x <= 0))  # the closed cells, so that a NaN stays open and its cotangent is seen

    word = np.dtype(f"i{x.dtype.itemsize}")

    def through(g: Array) -> Array:
        # A closed cell's bit less 1 is 0, an open cell's is -1, all ones: an AND of the bits leaves +0 or the number.
        keep = np.subtract(np.unpackbits(closed, count=size), 1, dtype=np.int8, casting="unsafe").astype(word)
        np.bitwise_and(keep, np.ascontiguousarray(g).view(word).reshape(-1), out=keep)
        return keep.view(g.dtype).reshape(shape)

    return LinearMap(through, through, "relu")


def _ball_relu(x: Any) -> Any:
    if isinstance(x, flint.arb):
        return x.max(flint.arb(0))
    try:
        return x if x > 0 else x * 0
    except TypeError:  # a symbol, of which no one knows the sign
        import sympy

        return sympy.Max(x, 0)


def _ball_slope(x: Any) -> Any:
    if isinstance(x, flint.arb):
        if x > 0:
            return flint.arb(1)
        return flint.arb(0) if x <= 0 else flint.arb(0.5, 0.5)  # between the two slopes
    try:
        return 1 if x > 0 else 0
    except TypeError:
        import sympy

        return sympy.Heaviside(x, 0)


_object_relu = np.frompyfunc(_ball_relu, 1, 1)
_object_slope = np.frompyfunc(_ball_slope, 1, 1)


class _Smooth(TapeOperator):
    """An elementwise function whose derivative is a formula in its input and output."""

    def slope_times(self, x: Any, y: Any, change: Any) -> Any:
        """The derivative at x, where the value is y, times ``change``."""
        raise AssertionError("every smooth function has a derivative")

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        return self.slope_times(primals[0], output, tangents[0])

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        x = primals[0] if self.name == "log" else None  # the others' derivatives are formulas in the output alone
        return lambda g: (self.slope_times(x, output, g),)


class Exp(_Smooth):
    """e to the power x."""

    name = "exp"

    def forward(self, *inputs: Array) -> Any:
        return elementwise("exp", inputs[0])

    def slope_times(self, x: Any, y: Any, change: Any) -> Any:
        return mul(change, y)


class Log(_Smooth):
    """The natural logarithm."""

    name = "log"

    def forward(self, *inputs: Array) -> Any:
        return elementwise("log", inputs[0])

    def slope_times(self, x: Any, y: Any, change: Any) -> Any:
        return div(change, x)


class Tanh(_Smooth):
    """The hyperbolic tangent."""

    name = "tanh"

    def forward(self, *inputs: Array) -> Any:
        return elementwise("tanh", inputs[0])

    def slope_times(self, x: Any, y: Any, change: Any) -> Any:
        return mul(change, sub(constant_like(y, 1), mul(y, y)))


class Sigmoid(_Smooth):
    """1 / (1 + exp(-x)), in the form that never overflows: exp(-|x|) is at most 1."""

    name = "sigmoid"

    def forward(self, *inputs: Array) -> Any:
        (x,) = inputs
        if x.dtype == object:
            one = constant_like(x, 1)
            return one / (one + elementwise("exp", as_array(-x)))
        small = np.exp(-np.abs(x))
        one = x.dtype.type(1)
        return np.where(x < 0, small, one) / (one + small)

    def slope_times(self, x: Any, y: Any, change: Any) -> Any:
        return mul(change, mul(y, sub(constant_like(y, 1), y)))


_RELU, _EXP, _LOG, _TANH, _SIGMOID = Relu(), Exp(), Log(), Tanh(), Sigmoid()


def relu(x: Any) -> Any:
    """max(x, 0), with derivative 0 at 0.

    >>> relu(np.array([-1.0, 2.0]))
    array([0., 2.])
    """
    return apply(_RELU, x)


def exp(x: Any) -> Any:
    """e to the power x.

    >>> exp(np.array([0.0]))
    array([1.])
    """
    return apply(_EXP, x)


def log(x: Any) -> Any:
    """The natural logarithm.

    >>> log(np.array([1.0]))
    array([0.])
    """
    return apply(_LOG, x)


def tanh(x: Any) -> Any:
    """The hyperbolic tangent.

    >>> tanh(np.array([0.0]))
    array([0.])
    """
    return apply(_TANH, x)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)).

    >>> sigmoid(np.array([0.0]))
    array([0.5])
    """
    return apply(_SIGMOID, x)


__all__ = ["Exp", "Log", "Relu", "Sigmoid", "Tanh", "exp", "log", "relu", "sigmoid", "tanh"]
