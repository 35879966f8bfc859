"""Softmax, correctly rounded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from halfulp.autograd import TapeOperator, apply, ops
from halfulp.autograd.operators._base import PullbackRule
from halfulp.numbers import Format
from halfulp.onnx._nearest import by_balls, nearest, rationals
from halfulp.onnx._node import Node

_UNIT = 2.0**-53


class Softmax(TapeOperator):
    """exp(x_i) / sum(exp(x_j)) over the last axis: the exact value, rounded once.

    The derivative is the formula y * (t - sum(y * t)), each of its steps rounded once.
    """

    name = "softmax"

    def forward(self, *inputs: NDArray[Any]) -> Any:
        (x,) = inputs
        if x.dtype == object:
            raise self._fail("exact numbers", "softmax of rationals is not rational; give floats")
        values = x.astype(np.float64)
        most = values.max(axis=-1, keepdims=True, initial=-np.inf)
        gaps = values - most
        terms = np.exp(gaps)
        estimate = terms / terms.sum(axis=-1, keepdims=True)
        # A gap d is rounded once, which changes its term exp(d) by at most |d| units, and exp may be off by some more.
        # In the sum, which is at least 1, |d| exp(d) < 1 bounds what a term adds; each addition may add one more unit.
        own = np.where(np.isfinite(gaps), -gaps, 0.0)
        error = estimate * (_UNIT * (4.0 * own + 8.0 * x.shape[-1] + 32.0)) + 2.0**-1040
        rows = values.reshape(-1, x.shape[-1]) if x.size else values

        def exactly(index: int, target: Format) -> float:
            row, position = divmod(index, x.shape[-1])
            return _one(rows[row], position, target)

        # A NaN or +inf in a row, or nothing but -inf, makes the whole row NaN.
        return nearest(estimate, error, x.dtype, exactly, ~np.isfinite(most))

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        return _times_jacobian(output, tangents[0])

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        return lambda g: (_times_jacobian(output, g),)


def _one(row: NDArray[np.float64], position: int, target: Format) -> float:
    """One element from balls; the value is rational only where all are equal, and 1/n is never half-way."""
    if math.isinf(row[position]):
        return 0.0
    numbers = rationals(value for value in row if math.isfinite(value))
    (own,) = rationals([row[position]])
    return by_balls(lambda: 1 / sum((flint.arb(value - own).exp() for value in numbers), flint.arb(0)), target)


def _times_jacobian(y: Any, t: Any) -> Any:
    """The Jacobian is symmetric: the same product serves tangents and cotangents."""
    return ops.mul(y, ops.sub(t, ops.sum(ops.mul(y, t), axis=-1, keepdims=True)))


def softmax(node: Node) -> Callable[..., Any]:
    """Softmax over one axis; before operator set 13 over all axes from ``axis`` on."""
    axis = node.integer("axis", -1 if node.opset >= 13 else 1)

    def run(x: Any) -> Any:
        ndim = len(x.shape)
        if not -ndim <= axis < max(ndim, 1):
            raise node.refusal(f"axis={axis}", f"must be an axis of an input of shape {x.shape}", "O9")
        place = axis % ndim if ndim else 0
        if node.opset < 13:
            rows = ops.reshape(x, (math.prod(x.shape[:place]), math.prod(x.shape[place:])))
            return ops.reshape(apply(Softmax(), rows), x.shape)
        order = [i for i in range(ndim) if i != place] + [place]
        moved = apply(Softmax(), ops.transpose(x, order))
        return ops.transpose(moved, [order.index(i) for i in range(ndim)])

    return run
