"""BatchNormalization in inference mode, correctly rounded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import flint
import numpy as np
from numpy.typing import NDArray

from halfulp.autograd import TapeOperator, apply, ops
from halfulp.autograd.operators._base import PullbackRule
from halfulp.autograd.traced import strip
from halfulp.numbers import Format, exact, round_rational
from halfulp.onnx._nearest import by_balls, nearest, rationals
from halfulp.onnx._node import Node

_UNIT = 2.0**-53


@dataclass(frozen=True, eq=False)
class Normalize(TapeOperator):
    """(x - mean) / sqrt(variance + epsilon) * scale + shift with one number of each per channel (axis 1).

    Inputs: x, scale, shift. The mean and the variance are constants. The value is exact and rounded once; the
    derivative multiplies by scale / sqrt(variance + epsilon), itself rounded once.
    """

    mean: NDArray[Any]
    variance: NDArray[Any]
    epsilon: float
    name: ClassVar[str] = "batch_normalization"

    def forward(self, *inputs: NDArray[Any]) -> Any:
        x, scale, shift = inputs
        shape = (1, -1, *(1,) * (x.ndim - 2))
        if x.dtype == object:
            factor = self._exact_factor(scale).reshape(shape)
            return (x - self.mean.reshape(shape)) * factor + shift.reshape(shape)
        mean, variance, slope, offset = (
            a.astype(np.float64).reshape(shape) for a in (self.mean, self.variance, scale, shift)
        )
        values, square = x.astype(np.float64), variance + self.epsilon
        centred = _within(values - mean, values, mean)
        scaled = _within(centred / np.sqrt(square), centred, np.where(square > 0, square, np.inf))
        scaled = _within(scaled * slope, scaled, slope)
        estimate = scaled + offset
        # NaN, infinities and a root of nothing or less have their IEEE value, without an overflow on the way.
        usual = np.isfinite(values) & np.isfinite(mean + slope * 0 + offset * 0) & np.isfinite(square) & (square > 0)
        error = 8 * _UNIT * (np.abs(scaled) + np.abs(offset)) + 2.0**-1040
        channel = np.broadcast_to(np.arange(x.shape[1]).reshape(shape), x.shape).reshape(-1)
        cells = x.reshape(-1)

        def exactly(index: int, target: Format) -> float:
            return self._one(float(cells[index]), int(channel[index]), scale, shift, target)

        return nearest(estimate, error, x.dtype, exactly, ~usual)

    def _one(self, cell: float, channel: int, scale: Any, shift: Any, target: Format) -> float:
        parameters = (self.mean, self.variance, scale, shift)
        x, epsilon = rationals((cell, self.epsilon))
        mean, variance, slope, offset = rationals(float(a[channel]) for a in parameters)
        product, square = (x - mean) * slope, variance + epsilon
        if product == 0:
            # Only signs of zero are left: the IEEE sum of a zero product and the offset.
            zero = math.copysign(0.0, cell - float(self.mean[channel])) * math.copysign(1.0, float(scale[channel]))
            return zero + float(shift[channel])
        if square.p.is_square() and square.q.is_square():
            value = product * square.q.isqrt() / square.p.isqrt() + offset
            return round_rational(int(value.p), int(value.q), target)
        return by_balls(lambda: flint.arb(product) / flint.arb(square).sqrt() + flint.arb(offset), target)

    def _exact_factor(self, scale: Any) -> Any:
        (epsilon,) = rationals([self.epsilon])
        squares = [flint.fmpq(v.p, v.q) + epsilon for v in exact(self.variance)]
        if not all(s.p.is_square() and s.q.is_square() for s in squares):
            raise self._fail("exact numbers", "the square root of variance + epsilon is not rational; give floats")
        return scale / np.array([flint.fmpq(s.p.isqrt(), s.q.isqrt()) for s in squares], dtype=object)

    def _factor(self, x: Any, scale: Any) -> tuple[Any, tuple[int, ...]]:
        """1 / sqrt(variance + epsilon) as an array like x, and the shape that spreads a channel's number."""
        shape = (1, -1, *(1,) * (len(x.shape) - 2))
        if x.dtype == object:
            unit = strip(scale) * 0 + flint.fmpq(1)
            return self._exact_factor(unit).reshape(shape), shape
        return Normalize(np.zeros_like(self.mean), self.variance, self.epsilon)(
            np.ones((1, len(self.mean)), dtype=x.dtype), np.ones_like(self.mean), np.zeros_like(self.mean)
        ).reshape(shape), shape

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        (x, scale, _), (dx, dscale, dshift) = primals, tangents
        factor, shape = self._factor(x, scale)
        parts = []
        if dx is not None:
            parts.append(ops.mul(ops.mul(dx, factor), ops.reshape(scale, shape)))
        if dscale is not None:
            parts.append(ops.mul(self._centred(x, factor, shape), ops.reshape(dscale, shape)))
        if dshift is not None:
            parts.append(ops.broadcast_to(ops.reshape(dshift, shape), x.shape))
        total = parts[0]
        for part in parts[1:]:
            total = ops.add(total, part)
        return total

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        x, scale, _ = primals
        factor, shape = self._factor(x, scale)
        others = (0, *range(2, len(x.shape)))
        return lambda g: (
            ops.mul(ops.mul(g, factor), ops.reshape(scale, shape)) if needs[0] else None,
            ops.sum(ops.mul(g, self._centred(x, factor, shape)), axis=others) if needs[1] else None,
            ops.sum(g, axis=others) if needs[2] else None,
        )

    def _centred(self, x: Any, factor: Any, shape: tuple[int, ...]) -> Any:
        return ops.mul(ops.sub(x, ops.reshape(self.mean, shape)), factor)


def _within(value: NDArray[np.float64], *operands: NDArray[np.float64]) -> NDArray[np.float64]:
    """A result of finite operands as a finite number: one that overflows is the largest."""
    finite = np.isfinite(operands[0]) & np.isfinite(operands[1])
    largest = np.finfo(np.float64).max
    return np.where(finite, np.clip(value, -largest, largest), value)


def batch_normalization(node: Node) -> Callable[..., Any]:
    """BatchNormalization with given statistics; training mode is refused."""
    epsilon = node.number("epsilon", 1e-5)
    node.number("momentum", 0.9)  # of no effect in inference mode
    if node.opset >= 14 and node.flag("training_mode"):
        raise node.refusal("training_mode=1", "only inference with given statistics is computed")
    if node.opset < 9 and not node.flag("spatial", 1):
        raise node.refusal("spatial=0", "only statistics per channel are computed")
    if node.opset < 7 and not node.flag("is_test"):
        raise node.refusal("is_test=0", "only inference with given statistics is computed")
    if sum(name != "" for name in node.outputs) > 1:
        raise node.refusal(f"outputs={node.outputs[1:]}", "only inference with given statistics is computed")

    def run(x: Any, scale: Any, shift: Any, mean: Any, variance: Any) -> Any:
        node.same_types(x, scale, shift, mean, variance)
        channels = (x.shape[1],) if len(x.shape) > 1 else ()
        if any(tuple(a.shape) != channels for a in (scale, shift, mean, variance)):
            raise node.refusal(f"input shape={x.shape}", "must have channels in axis 1, and parameters one each", "O9")
        for name, statistic in (("input_mean", mean), ("input_var", variance)):
            if not isinstance(statistic, np.ndarray):
                raise node.refusal(name, "the statistics are constants: no derivative is taken in them", "O9")
        return apply(Normalize(mean, variance, epsilon), x, scale, shift)

    return run
