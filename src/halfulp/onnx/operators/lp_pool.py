"""LpPool for every integer p >= 1, correctly rounded."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from halfulp.autograd import TapeOperator, apply, ops
from halfulp.autograd.operators._base import PullbackRule
from halfulp.autograd.traced import strip
from halfulp.geometry import windows
from halfulp.numbers import Format
from halfulp.onnx._nearest import nearest, rationals, root
from halfulp.onnx._node import Node
from halfulp.onnx.operators._window import check_rank, kernel_shape, window
from halfulp.records import AvgPool

_UNIT = 2.0**-53


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
        if self.p == 1:
            return self.sums(np.abs(x))
        if x.dtype == object:
            raise self._fail(f"p={self.p}", "the root of a rational is not rational; give floats")
        axes = self.sums.axes(x.shape[-self.sums.ndim :])
        # Powers of 2 take the largest magnitude to 1, so that no p-th power overflows; scaling back is exact.
        magnitude = np.abs(x.astype(np.float64))
        finite = np.where(np.isfinite(magnitude), magnitude, 0.0)
        shift = int(np.frexp(finite.max(initial=0.0))[1])
        total = _window_sums(np.ldexp(magnitude, -shift) ** self.p, axes)
        estimate = np.ldexp(total ** (1.0 / self.p), shift)
        cells = np.prod([axis.kernel for axis in axes])
        # 1/p is rounded: that changes the root by at most |log(total)| / p < 320 units.
        error = estimate * (_UNIT * (cells + 352.0 + 8.0 * self.p))
        error[(total < 2.0**-900) & (total != 0)] = np.inf  # powers below this may have lost digits
        error[total == 0] = np.inf if (finite != 0).any() else 0.0
        planes = x.reshape(-1, int(np.prod(x.shape[-self.sums.ndim :]))) if x.size else x
        each: list[Any] = []

        def exactly(index: int, target: Format) -> float:
            if not each:
                each.extend(window.cells for window in windows(axes))
            plane, position = divmod(index, len(each))
            numbers = rationals(planes[plane][list(each[position])].astype(np.float64))
            return root(sum((abs(value) ** self.p for value in numbers), start=rationals([0.0])[0]), self.p, target)

        stands = _window_sums((~np.isfinite(magnitude)).astype(np.float64), axes) != 0
        return nearest(estimate, error, x.dtype, exactly, stands)

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


def _window_sums(values: NDArray[np.float64], axes: Sequence[Any]) -> NDArray[np.float64]:
    """Sums over every window in float64, one shifted view of the zero-padded array per cell of the window."""
    leading = values.ndim - len(axes)
    reach = [max(a.padded_size, (a.output_size - 1) * a.stride + a.extent) for a in axes]
    padding = [(0, 0)] * leading + [(a.before, r - a.before - a.size) for a, r in zip(axes, reach, strict=True)]
    padded = np.pad(values, padding)
    total: NDArray[np.float64] = np.zeros((*values.shape[:leading], *(a.output_size for a in axes)))
    for offsets in itertools.product(*(range(a.kernel) for a in axes)):
        cells = tuple(
            slice(o * a.dilation, o * a.dilation + (a.output_size - 1) * a.stride + 1, a.stride)
            for o, a in zip(offsets, axes, strict=True)
        )
        view: Any = (Ellipsis, *cells)
        total += padded[view]
    return total


def lp_pool(node: Node) -> Callable[..., Any]:
    """LpPool. Padding adds nothing to a norm."""
    kernel, shared = kernel_shape(node), window(node)
    ceil_mode = node.flag("ceil_mode") and not shared.automatic
    p = node.integer("p", 2)
    if not 1 <= p <= 64:
        raise node.refusal(f"p={p}", "must be an integer from 1 to 64")
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
