"""Interpolation: with the taps (cell, weight) of every output along every spatial axis,

forward   the sum of weight * x over the taps of an output, the product of the weights of its axes
JVP       the same of t: interpolation is linear
VJP       to every cell the sum of weight * g over the outputs that use it; 0 where there is none
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np

from halfulp.records import Interpolate
from halfulp.spec._registry import Functions, register
from halfulp.spec._scalars import filled, total, zero_of

Array = np.ndarray[Any, Any]


def _terms(op: Any, shape: tuple[int, ...]) -> list[list[tuple[int, int, int]]]:
    """For every output of a plane: (flat cell, numerator, denominator) of its terms."""
    axes = op.spatial(shape)
    strides = [prod(n for n, _, _ in axes[i + 1 :]) for i in range(len(axes))]
    found = []
    for taps in product(*(op.taps(*axis) for axis in axes)):
        terms = []
        for chosen in product(*taps):
            cell = sum(c * stride for (c, _), stride in zip(chosen, strides, strict=True))
            weight = prod((w for _, w in chosen), start=1)
            terms.append((cell, weight.numerator, weight.denominator))
        found.append(terms)
    return found


def _scaled(value: Any, numerator: int, denominator: int) -> Any:
    value = value if numerator == 1 else value * numerator
    return value if denominator == 1 else value / denominator


def _planes(op: Any, shape: tuple[int, ...], array: Array) -> list[list[Any]]:
    rank = op.spatial_rank(shape)
    leading, spatial = array.shape[: array.ndim - rank], array.shape[array.ndim - rank :]
    return [list(row) for row in array.reshape(prod(leading), prod(spatial))]


def forward(op: Any, inputs: tuple[Array, ...], progress: bool = False) -> Array:
    """The weighted sums."""
    (x,) = inputs
    terms = _terms(op, x.shape)
    values = [
        total([_scaled(plane[cell], top, bottom) for cell, top, bottom in own])
        for plane in _planes(op, x.shape, x)
        for own in terms
    ]
    return filled(op.output_shape(x.shape), values)


def jvp(op: Any, primals: tuple[Array, ...], tangents: tuple[Array, ...], progress: bool = False) -> Array:
    """The same of the tangent."""
    return forward(op, tangents)


def vjp(op: Any, primals: tuple[Array, ...], cotangent: Array, progress: bool = False) -> tuple[Array, ...]:
    """The transposed sums."""
    shape = primals[0].shape
    back: list[list[tuple[int, int, int]]] = [[] for _ in range(prod(n for n, _, _ in op.spatial(shape)))]
    for output, own in enumerate(_terms(op, shape)):
        for cell, top, bottom in own:
            back[cell].append((output, top, bottom))
    zero = zero_of((cotangent, *primals))
    values = [
        total([_scaled(plane[output], top, bottom) for output, top, bottom in own]) if own else zero
        for plane in _planes(op, shape, cotangent)
        for own in back
    ]
    return (filled(shape, values),)


register(Interpolate, Functions(forward, jvp, vjp))
