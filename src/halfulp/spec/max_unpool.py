"""Max unpooling: y[index[i]] = v[i], and 0 in every other cell.

Of equal indices the last in row-major order counts; -1 drops its value. It is linear in the values:

    JVP   the tangents, placed as the values are
    VJP   g[index[i]] to the values that count, 0 to the others
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from halfulp.records import MaxUnpool
from halfulp.spec._pooling import planes
from halfulp.spec._registry import Functions, register
from halfulp.spec._scalars import filled, zero_of

Array = np.ndarray[Any, Any]


def owners(op: MaxUnpool, indices: Array) -> list[dict[int, int]]:
    """For every plane: cell -> the position of the value that counts there."""
    spatial = indices.shape[indices.ndim - op.ndim :]
    cells = prod(op.spatial_output(spatial))
    out = []
    for number, plane in enumerate(planes(indices, spatial)):
        placed: dict[int, int] = {}
        for position, index in enumerate(map(int, plane)):
            if not -1 <= index < cells:
                raise op.refused_index(np.unravel_index(number * len(plane) + position, indices.shape), index, cells)
            placed[index] = position
        placed.pop(-1, None)
        out.append(placed)
    return out


def forward(op: MaxUnpool, inputs: tuple[Array, ...], progress: bool = False) -> Array:
    """The values in their cells."""
    values, indices = inputs
    spatial = values.shape[values.ndim - op.ndim :]
    zero, cells = zero_of((values,)), prod(op.spatial_output(spatial))
    out: list[Any] = []
    for plane, placed in zip(planes(values, spatial), owners(op, indices), strict=True):
        out.extend(plane[placed[cell]] if cell in placed else zero for cell in range(cells))
    return filled(op.output_shape(values.shape, indices.shape), out)


def jvp(op: MaxUnpool, primals: tuple[Array, ...], tangents: tuple[Array, ...], progress: bool = False) -> Array:
    """The tangents in the cells of their values."""
    return forward(op, (tangents[0], primals[1]))


def vjp(op: MaxUnpool, primals: tuple[Array, ...], cotangent: Array, progress: bool = False) -> tuple[Any, ...]:
    """The cotangent of the cell that each value has."""
    values, indices = primals
    spatial = values.shape[values.ndim - op.ndim :]
    zero, count = zero_of((cotangent, values)), prod(spatial)
    cells = cotangent.shape[cotangent.ndim - op.ndim :]
    out: list[Any] = []
    for plane, placed in zip(planes(cotangent, cells), owners(op, indices), strict=True):
        picked = {position: plane[cell] for cell, position in placed.items()}
        out.extend(picked.get(position, zero) for position in range(count))
    return (filled(values.shape, out),)


register(MaxUnpool, Functions(forward, jvp, vjp))
