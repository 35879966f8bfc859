"""Transposed convolution: the transpose, in its input, of the convolution with the same weight.

y[n, o, p*stride + w*dilation - before] collects weight[c, o, w] * x[n, c, p]; then the bias is added.

    JVP   sum of weight * dx + sum of dweight * x + dbias
    VJP   dx: the convolution of the cotangent; dweight: the sum at taps; dbias: the sum of the cotangent
"""

from __future__ import annotations

from halfulp.records import ConvTranspose, Shape
from halfulp.spec._convolution import Array, Form, Maybe, form, pull, push
from halfulp.spec._registry import Functions, register


def forward(op: ConvTranspose, inputs: tuple[Maybe, ...], progress: bool = False) -> Array:
    """The transposed convolution of x with the weight, plus the bias."""
    x, weight, bias = inputs
    return push(op, form_of(op, inputs, progress), inputs, [(weight, x)], bias, output_of(op, inputs), transposed=True)


def jvp(op: ConvTranspose, primals: tuple[Maybe, ...], tangents: tuple[Maybe, ...], progress: bool = False) -> Array:
    """The derivative along tangents of x, weight and bias; None is a tangent that is not there."""
    x, weight, _ = primals
    dx, dweight, dbias = tangents
    products = [(weight, dx), (dweight, x)]
    return push(op, form_of(op, primals, progress), primals, products, dbias, output_of(op, primals), transposed=True)


def vjp(op: ConvTranspose, primals: tuple[Maybe, ...], cotangent: Array, progress: bool = False) -> tuple[Maybe, ...]:
    """The cotangents of x, weight and bias."""
    return pull(op, form_of(op, primals, progress), primals, cotangent, transposed=True)


def form_of(op: ConvTranspose, inputs: tuple[Maybe, ...], progress: bool = False) -> Form:
    """The bilinear form of the convolution that this is the transpose of."""
    x, weight, _ = inputs
    assert x is not None
    assert weight is not None
    spatial = x.shape[x.ndim - op.ndim :]
    axes = op.axes(spatial, weight.shape[2:])
    return form(axes, spatial, op.groups, op.name if progress else None)


def output_of(op: ConvTranspose, inputs: tuple[Maybe, ...]) -> Shape:
    """The output's shape."""
    return op.output_shape(*(None if a is None else a.shape for a in inputs))


register(ConvTranspose, Functions(forward, jvp, vjp))
