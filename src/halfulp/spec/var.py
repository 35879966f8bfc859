"""Variance over axes: with c = x - mean(x), n cells and k = n - correction,

forward   sum(c^2) / k
JVP       2 sum(c t) / k
VJP       2 c g / k to every cell

An exact zero is +0.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from halfulp.records import Var
from halfulp.spec._registry import Functions, register
from halfulp.spec._scalars import filled, total

Array = np.ndarray[Any, Any]


def _rows(op: Any, x: Array) -> list[list[Any]]:
    """The cells that are reduced together."""
    axes = op.axes_of(x.shape)
    kept = [i for i in range(x.ndim) if i not in axes]
    length = prod(x.shape[i] for i in axes)
    return [list(row) for row in x.transpose(*kept, *axes).reshape(prod(x.shape[i] for i in kept), length)]


def _centred(row: list[Any]) -> list[Any]:
    mean = total(row) / len(row)
    return [x - mean for x in row]


def forward(op: Any, inputs: tuple[Array, ...], progress: bool = False) -> Array:
    """The mean square of the distances from the mean."""
    (x,) = inputs
    divisor = op.divisor(x.shape)
    return filled(op.output_shape(x.shape), [total([c * c for c in _centred(row)]) / divisor for row in _rows(op, x)])


def jvp(op: Any, primals: tuple[Array, ...], tangents: tuple[Array, ...], progress: bool = False) -> Array:
    """2 sum(c t) / k."""
    (x,), (t,) = primals, tangents
    divisor = op.divisor(x.shape)
    pairs = zip(_rows(op, x), _rows(op, t), strict=True)
    sums = [total([c * v for c, v in zip(_centred(row), moved, strict=True)]) for row, moved in pairs]
    return filled(op.output_shape(x.shape), [s * 2 / divisor for s in sums])


def vjp(op: Any, primals: tuple[Array, ...], cotangent: Array, progress: bool = False) -> tuple[Array, ...]:
    """2 c g / k."""
    (x,) = primals
    divisor = op.divisor(x.shape)
    cells = [c * 2 * g / divisor for row, g in zip(_rows(op, x), cotangent.ravel(), strict=True) for c in _centred(row)]
    axes = op.axes_of(x.shape)
    kept = [i for i in range(x.ndim) if i not in axes]
    order = (*kept, *axes)
    moved = filled(tuple(x.shape[i] for i in order), cells)
    return (moved.transpose(*np.argsort(order)) if order else moved,)


register(Var, Functions(forward, jvp, vjp, surds=True))
