"""Sin, Cos, Tan, their inverses, and the hyperbolic functions: the exact value, rounded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from halfulp.autograd import TapeOperator, apply, ops
from halfulp.autograd.operators._base import PullbackRule
from halfulp.numbers import Format, is_float
from halfulp.onnx._nearest import by_balls, nearest, rationals
from halfulp.onnx._node import Node

_UNIT = 2.0**-53


class Wave(TapeOperator):
    """The sine or cosine of every element. The derivative is the other one times the tangent, each rounded once."""

    def __init__(self, name: str) -> None:
        self.name = name  # type: ignore[misc]  # "sin" or "cos"

    def forward(self, *inputs: NDArray[Any]) -> Any:
        (x,) = inputs
        if x.dtype == object:
            return np.frompyfunc(lambda value: getattr(value, self.name)(), 1, 1)(x)
        values = x.astype(np.float64)
        with np.errstate(invalid="ignore"):
            estimate = (np.sin if self.name == "sin" else np.cos)(values)
        # Libraries are within a few units for arguments of this size; for larger ones balls decide.
        error = np.where(np.abs(values) < 2.0**20, 16 * _UNIT * np.abs(estimate) + 2.0**-1070, np.inf)
        stands = ~np.isfinite(values) | (values == 0)
        flat = x.reshape(-1)
        return nearest(estimate, error, x.dtype, lambda i, target: self._one(float(flat[i]), target), stands)

    def _one(self, value: float, target: Format) -> float:
        (number,) = rationals([value])
        return by_balls(lambda: getattr(flint.arb(number), self.name)(), target)

    def _slope(self, x: Any) -> Any:
        return apply(Wave("cos"), x) if self.name == "sin" else ops.neg(apply(Wave("sin"), x))

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        return ops.mul(self._slope(primals[0]), tangents[0])

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        return lambda g: (ops.mul(self._slope(primals[0]), g),)


_LARGEST = {"sin": 2.0**20, "cos": 2.0**20, "tan": 2.0**20, "sinh": 80.0, "cosh": 80.0}
"""Libraries are within a few units up to these arguments; for larger ones balls decide."""

_EXACT = {"acos": 1.0, "acosh": 1.0}
"""The argument at which the value is 0; it is 0 for the other functions, whose value there is 0, or 1 for cosh."""


def curve(name: str) -> Callable[[Node], Callable[..., Any]]:
    """The builder of Tan, Asin, Sinh and their kind, which have no derivative here."""
    inverse = name.startswith("a")
    function = getattr(np, f"arc{name[1:]}" if inverse else name)

    def builder(node: Node) -> Callable[..., Any]:
        def run(x: Any) -> Any:
            if not isinstance(x, np.ndarray) or not is_float(x.dtype):
                raise node.refusal(f"input dtype={x.dtype}", "must be floats that are not differentiated", "O9")
            node.fits(tuple(x.shape), x, 48)
            values = x.astype(np.float64)
            with np.errstate(all="ignore"):
                estimate = function(values)
            error = np.where(
                np.abs(values) <= _LARGEST.get(name, np.inf), 16 * _UNIT * np.abs(estimate) + 2.0**-1070, np.inf
            )
            stands = ~np.isfinite(values) | (values == _EXACT.get(name, 0.0)) | (inverse & ~np.isfinite(estimate))
            flat = x.reshape(-1)
            return nearest(estimate, error, x.dtype, lambda i, target: _by_ball(name, float(flat[i]), target), stands)

        return run

    return builder


def _by_ball(name: str, value: float, target: Format) -> float:
    if name in ("sinh", "cosh") and abs(value) > 2000:  # beyond every format
        return -np.inf if name == "sinh" and value < 0 else np.inf
    (number,) = rationals([value])
    return by_balls(lambda: getattr(flint.arb(number), name)(), target)


def wave(name: str) -> Callable[[Node], Callable[..., Any]]:
    """The builder of Sin or Cos."""

    def builder(node: Node) -> Callable[..., Any]:
        operator = Wave(name)

        def run(x: Any) -> Any:
            node.fits(tuple(x.shape), x, 48)
            return apply(operator, x)

        return run

    return builder
