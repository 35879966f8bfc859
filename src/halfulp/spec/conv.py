"""Convolution: y[n, o, p] = bias[o] + sum over c, w of weight[o, c, w] * x[n, c, p*stride + w*dilation - before].

The sum runs over real cells: padding contributes no term.

    JVP   sum of weight * dx + sum of dweight * x + dbias
    VJP   dx: the sum at cells; dweight: the sum at taps; dbias: the sum of the cotangent over samples and positions
"""

from __future__ import annotations

from halfulp.records import Conv, Shape
from halfulp.spec._convolution import Array, Form, Maybe, form, pull, push
from halfulp.spec._registry import Functions, register


def forward(op: Conv, inputs: tuple[Maybe, ...], progress: bool = False) -> Array:
    """The convolution of x with the weight, plus the bias."""
    x, weight, bias = inputs
    return push(op, form_of(op, inputs, progress), inputs, [(weight, x)], bias, output_of(op, inputs), transposed=False)


def jvp(op: Conv, primals: tuple[Maybe, ...], tangents: tuple[Maybe, ...], progress: bool = False) -> Array:
    """The derivative along tangents of x, weight and bias; None is a tangent that is not there."""
    x, weight, _ = primals
    dx, dweight, dbias = tangents
    products = [(weight, dx), (dweight, x)]
    return push(op, form_of(op, primals, progress), primals, products, dbias, output_of(op, primals), transposed=False)


def vjp(op: Conv, primals: tuple[Maybe, ...], cotangent: Array, progress: bool = False) -> tuple[Maybe, ...]:
    """The cotangents of x, weight and bias."""
    return pull(op, form_of(op, primals, progress), primals, cotangent, transposed=False)


def form_of(op: Conv, inputs: tuple[Maybe, ...], progress: bool = False) -> Form:
    """The bilinear form of this convolution."""
    x, weight, _ = inputs
    assert x is not None
    assert weight is not None
    spatial = x.shape[x.ndim - op.ndim :]
    axes = op.axes(spatial, weight.shape[2:])
    return form(axes, tuple(axis.output_size for axis in axes), op.groups, op.name if progress else None)


def output_of(op: Conv, inputs: tuple[Maybe, ...]) -> Shape:
    """The output's shape."""
    return op.output_shape(*(None if a is None else a.shape for a in inputs))


register(Conv, Functions(forward, jvp, vjp))
