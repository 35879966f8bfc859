"""LeakyRelu and Softplus, which the tape does not have, and Clip: elementwise functions for networks under bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from halfulp.autograd import TapeOperator, apply, ops
from halfulp.autograd.operators._base import LinearMap, PullbackRule
from halfulp.autograd.scalars import as_array, elementwise, scalar_like
from halfulp.autograd.traced import strip

__all__ = ["Clip", "LeakyRelu", "Softplus", "clip", "leaky_relu", "softplus"]


@dataclass(frozen=True, eq=False)
class LeakyRelu(TapeOperator):
    """x where x >= 0, otherwise slope * x, rounded once."""

    slope: Any
    name: ClassVar[str] = "leaky_relu"

    def forward(self, *inputs: NDArray[Any]) -> Any:
        (x,) = inputs
        slope = scalar_like(x, self.slope) if x.dtype == object else x.dtype.type(self.slope)
        return np.where(x >= 0, x, x * slope)

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        return apply(self._gate(strip(primals[0])), tangents[0])

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        gate = self._gate(strip(primals[0]))
        return lambda g: (apply(gate, g),)

    def _gate(self, x: NDArray[Any]) -> LinearMap:
        slope = scalar_like(x, self.slope) if x.dtype == object else x.dtype.type(self.slope)
        above = (x >= 0).astype(np.bool_)

        def through(g: NDArray[Any]) -> NDArray[Any]:
            return np.where(above, g, g * slope)

        return LinearMap(through, through, self.name)


@dataclass(frozen=True, eq=False)
class Clip(TapeOperator):
    """min(max(x, low), high); a bound of None does not bound. The derivative is 1 inside and on the bounds."""

    low: Any
    high: Any
    name: ClassVar[str] = "clip"

    def forward(self, *inputs: NDArray[Any]) -> Any:
        (x,) = inputs
        for bound, beyond in ((self.low, np.less), (self.high, np.greater)):
            if bound is not None:
                limit = scalar_like(x, bound) if x.dtype == object else x.dtype.type(bound)
                x = np.where(beyond(x, limit).astype(np.bool_), limit, x)
        return np.array(x)

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        return apply(self._gate(strip(primals[0]), strip(output)), tangents[0])

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        gate = self._gate(strip(primals[0]), strip(output))
        return lambda g: (apply(gate, g),)

    def _gate(self, x: NDArray[Any], y: NDArray[Any]) -> LinearMap:
        inside = (x == y).astype(np.bool_)

        def through(g: NDArray[Any]) -> NDArray[Any]:
            return np.where(inside, g, g * 0)

        return LinearMap(through, through, self.name)


class Softplus(TapeOperator):
    """log(1 + exp(x)), in the form that never overflows."""

    name = "softplus"

    def forward(self, *inputs: NDArray[Any]) -> Any:
        (x,) = inputs
        if x.dtype == object:
            one = scalar_like(x, 1)
            return elementwise("log", as_array(elementwise("exp", x) + one))
        return np.maximum(x, x.dtype.type(0)) + np.log1p(np.exp(-np.abs(x)))

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        return ops.mul(ops.sigmoid(primals[0]), tangents[0])

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        (x,) = primals
        return lambda g: (ops.mul(ops.sigmoid(x), g),)


_SOFTPLUS = Softplus()


def leaky_relu(x: Any, slope: Any = 0.01) -> Any:
    """x where x >= 0, otherwise slope * x.

    >>> leaky_relu(np.array([-2.0, 3.0]), 0.25)
    array([-0.5,  3. ])
    """
    return apply(LeakyRelu(slope), x)


def clip(x: Any, low: Any = None, high: Any = None) -> Any:
    """min(max(x, low), high).

    >>> clip(np.array([-2.0, 0.5, 3.0]), 0.0, 1.0)
    array([0. , 0.5, 1. ])
    """
    return apply(Clip(low, high), x)


def softplus(x: Any) -> Any:
    """log(1 + exp(x)).

    >>> softplus(np.array([0.0]))
    array([0.69314718])
    """
    return apply(_SOFTPLUS, x)
