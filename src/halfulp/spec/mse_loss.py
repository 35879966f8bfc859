"""Squared error: with d = x - y and n the number of cells for a mean, else 1,

forward   the sum of d^2, over n; every d^2 with reduction "none"
JVP       the sum of 2 d (dx - dy), over n
VJP       2 d g / n to x, the same with the other sign to y

An exact zero is +0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from halfulp.records import MSELoss
from halfulp.spec._registry import Functions, register
from halfulp.spec._scalars import filled, total, zero_of

Array = np.ndarray[Any, Any]


def _differences(x: Array, y: Array) -> list[Any]:
    return [a - b for a, b in zip(x.ravel(), y.ravel(), strict=True)]


def _reduced(op: Any, primals: tuple[Array, ...], cells: list[Any]) -> Array:
    shape = op.output_shape(*(p.shape for p in primals))
    if op.reduction == "none":
        return filled(shape, cells)
    whole = total(cells) if cells else zero_of(primals)
    n = op.divisor(primals[0].shape)
    return filled(shape, [whole if n == 1 else whole / n])


def forward(op: Any, inputs: tuple[Array, ...], progress: bool = False) -> Array:
    """The squares."""
    return _reduced(op, inputs, [d * d for d in _differences(*inputs)])


def jvp(op: Any, primals: tuple[Array, ...], tangents: tuple[Any, ...], progress: bool = False) -> Array:
    """2 d (dx - dy)."""
    dx, dy = tangents
    d = _differences(*primals)
    if dx is None and dy is None:
        return _reduced(op, primals, [v * 0 for v in d])
    moved = [-v for v in dy.ravel()] if dx is None else list(dx.ravel()) if dy is None else _differences(dx, dy)
    return _reduced(op, primals, [v * 2 * m for v, m in zip(d, moved, strict=True)])


def vjp(op: Any, primals: tuple[Array, ...], cotangent: Array, progress: bool = False) -> tuple[Array, ...]:
    """2 d g / n, and its negative."""
    shape = primals[0].shape
    n = op.divisor(shape)
    g = np.broadcast_to(cotangent, shape).ravel()
    shares = [v * 2 * h if n == 1 else v * 2 * h / n for v, h in zip(_differences(*primals), g, strict=True)]
    return filled(shape, shares), filled(shape, [-v for v in shares])


register(MSELoss, Functions(forward, jvp, vjp, surds=True))
