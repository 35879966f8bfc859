"""Sums and means over axes: both are linear.

forward   the sum of the cells, divided by their number for a mean
JVP       the same of t
VJP       g, divided by the number for a mean, to every cell
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from halfulp.records import Mean, Sum
from halfulp.spec._registry import Functions, register
from halfulp.spec._scalars import filled, total, zero_of

Array = np.ndarray[Any, Any]


def forward(op: Any, inputs: tuple[Array, ...], progress: bool = False) -> Array:
    """The sum over the axes, divided."""
    (x,) = inputs
    axes = op.axes_of(x.shape)
    kept = [i for i in range(x.ndim) if i not in axes]
    length = prod(x.shape[i] for i in axes)
    rows = x.transpose(*kept, *axes).reshape(prod(x.shape[i] for i in kept), length)
    divisor, zero = op.divisor(x.shape), zero_of((x,))
    sums = [total(list(row)) if length else zero for row in rows]
    return filled(op.output_shape(x.shape), [s if divisor == 1 else s / divisor for s in sums])


def jvp(op: Any, primals: tuple[Array, ...], tangents: tuple[Array, ...], progress: bool = False) -> Array:
    """The same of the tangent."""
    return forward(op, tangents)


def vjp(op: Any, primals: tuple[Array, ...], cotangent: Array, progress: bool = False) -> tuple[Array, ...]:
    """The cotangent at every cell, divided."""
    shape = primals[0].shape
    axes, divisor = op.axes_of(shape), op.divisor(shape)
    g = cotangent.reshape([1 if i in axes else n for i, n in enumerate(shape)])
    spread = np.broadcast_to(g, shape)
    return (filled(shape, [v if divisor == 1 else v / divisor for v in spread.ravel()]),)


for _record in (Sum, Mean):
    register(_record, Functions(forward, jvp, vjp))
