"""LpPool for every integer p >= 1, correctly rounded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from halfulp.autograd import TapeOperator, apply, ops
from halfulp.autograd.operators._base import PullbackRule
from halfulp.autograd.traced import strip
from halfulp.onnx._node import Node
from halfulp.onnx.operators._window import check_rank, kernel_shape, window
from halfulp.records import AvgPool, LpPool


@dataclass(frozen=True)
class LpNorm(TapeOperator):
    """(sum |x|^p)^(1/p) over every window: the exact value, rounded once.

    ``sums`` is the pooling that adds up a window. The derivative is the sum of (|x|/y)^(p-1) * sign(x) * t, each of
    its steps rounded once; a window of zeros has derivative 0.
    """

    p: int
    sums: AvgPool
    name: ClassVar[str] = "lp_pool"

    def forward(self, *inputs: NDArray[Any]) -> Any:
        (x,) = inputs
        pool = self.sums
        return LpPool(pool.kernel_size, self.p, pool.stride, pool.padding, pool.dilation, pool.ceil_mode)(x)

    def _weights(self, x: Any) -> Any:
        """x * |x|^(p-2), the numerator of the derivative; sign(x) for p = 1."""
        value = strip(x)
        sign = np.asarray(_object_sign(value) if value.dtype == object else np.sign(value))
        return ops.mul(sign, ops.power(ops.mul(x, sign), self.p - 1))

    def _safe(self, output: Any) -> Any:
        """The denominator of the derivative, 1 in a window of zeros, whose numerator is 0."""
        value = strip(output)
        holes = np.where(value == 0, value.dtype.type(1), value.dtype.type(0))
        return ops.power(ops.add(output, holes), self.p - 1)

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        top = apply(self.sums, ops.mul(self._weights(primals[0]), tangents[0]))
        return top if self.p == 1 else ops.div(top, self._safe(output))

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        x = primals[0]
        transpose = _Transpose(self.sums, tuple(x.shape))

        def rule(g: Any) -> tuple[Any, ...]:
            share = g if self.p == 1 else ops.div(g, self._safe(output))
            return (ops.mul(self._weights(x), apply(transpose, share)),)

        return rule


# The sign as a number of the scalar's own kind.
_object_sign = np.frompyfunc(lambda v: v * 0 + 1 if v > 0 else v * 0 - 1 if v < 0 else v * 0, 1, 1)


@dataclass(frozen=True)
class _Transpose(TapeOperator):
    """The transpose of a window sum: every cell gets the sum of its windows' numbers."""

    sums: AvgPool
    shape: tuple[int, ...]
    name: ClassVar[str] = "lp_pool"

    def forward(self, *inputs: NDArray[Any]) -> Any:
        g = inputs[0]
        zeros = np.zeros(self.shape, dtype=g.dtype) if g.dtype != object else np.full(self.shape, g.flat[0] * 0)
        return self.sums.vjp(zeros)[1](g)[0]

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        return apply(self, tangents[0])

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        return lambda g: (apply(self.sums, g),)


def lp_pool(node: Node) -> Callable[..., Any]:
    """LpPool. Padding adds nothing to a norm."""
    kernel, shared = kernel_shape(node), window(node)
    ceil_mode = node.flag("ceil_mode") and not shared.automatic
    p = node.integer("p", 2)
    if p < 1:
        raise node.refusal(f"p={p}", "must be an integer >= 1")
    if math.prod(kernel) > 1 << 20:
        raise node.refusal(f"kernel_shape={kernel}", "must have at most 2**20 cells")
    sums = AvgPool(kernel, shared.stride, shared.padding, ceil_mode, divisor_override=1, dilation=shared.dilation)
    op = LpNorm(p, sums)

    def run(x: Any) -> Any:
        check_rank(node, x, op.sums.ndim)
        node.fits(op.sums.output_shape(x.shape), x, scratch=0 if x.dtype == object else 128)
        axes = op.sums.axes(tuple(x.shape[2:]))
        node.fits((*x.shape[:2], *(axis.padded_size + axis.extent for axis in axes)), np.empty(0))
        return apply(op, x)

    return run
