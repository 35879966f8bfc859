"""What convolution and transposed convolution share: each is one of three products of the same core.

The core knows one convolution, from cells (its input) to positions (its output). A convolution maps cells to positions
and a transposed convolution positions to cells; the derivative of either in its input is the other product, and both
have the same product for the weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from halfulp import _core
from halfulp.kernels._keeping import kept
from halfulp.records import Conv, ConvolutionOperator, ConvTranspose, Pullback, _inputs

Array = np.ndarray[Any, Any]
Maybe = np.ndarray[Any, Any] | None


class Call:
    """A convolution on inputs of given shapes, as the core wants it."""

    __slots__ = ("_fast", "_groups", "_name", "_ndim", "_transposed", "axes", "output_shape")

    def __init__(
        self,
        op: ConvolutionOperator,
        transposed: bool,
        axes: tuple[tuple[int, int, int, int, int, int], ...],
        output_shape: tuple[int, ...],
    ) -> None:
        self.axes, self.output_shape = axes, output_shape
        self._name, self._ndim, self._groups, self._transposed = op.name, op.ndim, op.groups, transposed
        self._fast = op.precision == "fast"

    def push(self, products: Sequence[tuple[Array, Array]], bias: Maybe, out: Any = None) -> Any:
        """The sum of the products (planes, weight) and the bias, as an output, in ``out`` if that fits."""
        planes, filters = zip(*products, strict=True)
        return self._gather(planes, filters, bias, self.output_shape, self._transposed, out)

    def value(self, x: Array, weight: Array, bias: Maybe, out: Any = None) -> Any:
        """The operator's value, in ``out`` if that fits."""
        return self._gather((x,), (weight,), bias, self.output_shape, self._transposed, out)

    def pull_input(self, cotangent: Array, weight: Array, shape: tuple[int, ...]) -> Any:
        """The cotangent of the input."""
        return self._gather((cotangent,), (weight,), None, shape, not self._transposed)

    def pull_weight(self, cotangent: Array, x: Array, weight: Array) -> Any:
        """The cotangent of the weight."""
        cells, positions = (cotangent, x) if self._transposed else (x, cotangent)
        return _core.conv_weight(self._name, self.axes, self._groups, cells, positions, weight, self._fast)

    def pull_bias(self, cotangent: Array) -> Any:
        """The cotangent of the bias."""
        return _core.conv_channel_sums(self._name, self._ndim, cotangent)

    def _gather(
        self,
        planes: tuple[Array, ...],
        filters: tuple[Array, ...],
        bias: Maybe,
        shape: tuple[int, ...],
        transposed: bool,
        out: Any = None,
    ) -> Any:
        return _core.conv_gather(
            self._name, self.axes, self._groups, transposed, planes, filters, bias, shape, self._fast, out
        )


def call_of(op: Conv | ConvTranspose, inputs: Sequence[Maybe]) -> Call:
    """Check the shapes and find the axes of the convolution underneath."""
    return call_for(op, *(None if a is None else a.shape for a in inputs))


@lru_cache(maxsize=1024)
def call_for(op: Conv | ConvTranspose, *shapes: tuple[int, ...] | None) -> Call:
    """The call for inputs of these shapes."""
    x, weight = shapes[0], shapes[1]
    assert x is not None
    assert weight is not None
    output_shape = op.output_shape(*shapes)
    spatial = x[len(x) - op.ndim :]
    axes = op.axes(spatial, weight[2:])
    transposed = isinstance(op, ConvTranspose)
    positions = spatial if transposed else output_shape[len(output_shape) - op.ndim :]
    numbers = tuple(
        (axis.size, axis.kernel, axis.stride, axis.dilation, axis.before, n)
        for axis, n in zip(axes, positions, strict=True)
    )
    return Call(op, transposed, numbers, output_shape)


def forward(op: Any, *inputs: Any, out: Any = None) -> Any:
    """The operator's value."""
    arrays = _inputs.as_arrays(op, inputs)
    x, weight, bias = arrays
    assert x is not None
    assert weight is not None
    return call_of(op, arrays).value(x, weight, bias, out)


def jvp(op: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    """The value, and weight * dx + dweight * x + dbias as one sum, without the terms whose tangent is None."""
    arrays = _inputs.as_arrays(op, primals)
    x, weight, bias = arrays
    assert x is not None
    assert weight is not None
    call = call_of(op, arrays)
    dx, dweight, dbias = _inputs.as_tangents(op, arrays, tangents)
    products = [(a, w) for a, w in ((dx, weight), (x, dweight)) if a is not None and w is not None]
    output = call.value(x, weight, bias)
    if products:
        return output, call.push(products, dbias)
    return output, _constant(output, dbias, op.ndim)


def vjp(op: Any, *primals: Any, wanted: Sequence[bool] = (True, True, True)) -> tuple[Any, Pullback]:
    """The value, and a pullback that keeps x and the weight (copies, unless lent); unwanted cotangents are None."""
    arrays = _inputs.as_arrays(op, primals)
    x, weight, bias = (None if a is None else kept(a) for a in arrays)
    assert x is not None
    assert weight is not None
    call = call_of(op, arrays)
    output = call.value(x, weight, bias)
    has_bias, dtype = bias is not None, x.dtype

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        g = _inputs.as_cotangent(op, cotangent, call.output_shape, dtype)
        return (
            call.pull_input(g, weight, x.shape) if wanted[0] else None,
            call.pull_weight(g, x, weight) if wanted[1] else None,
            call.pull_bias(g) if has_bias and wanted[2] else None,
        )

    return output, pullback


def _constant(like: Array, bias: Maybe, ndim: int) -> Array:
    """An array of the bias's elements, or of zeros: a tangent without products."""
    result = np.zeros_like(like, order="K")
    if bias is not None:
        result[...] = bias.reshape(-1, *(1,) * ndim)
    return result
