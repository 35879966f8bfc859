"""Softmax and log-softmax along an axis: with p_i = exp(x_i) / sum(exp(x_j)),

    forward   p_i                       x_i - log(sum(exp(x_j)))
    JVP       p_i (t_i - sum(p t))      t_i - sum(p t)
    VJP       p_i (g_i - sum(p g))      g_i - p_i sum(g)

Floats are rounded once, an exact zero to +0. A NaN or +inf in a row, nothing but -inf, or a tangent that is not finite
gives NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from halfulp.numbers import _exponentials as exactly
from halfulp.numbers import as_doubles, float_format
from halfulp.records import LogSoftmax, Softmax
from halfulp.spec._registry import Functions, register
from halfulp.spec._scalars import exp, filled, log, require_exp, total

Array = np.ndarray[Any, Any]


def rows(op: Any, *arrays: Array) -> tuple[list[list[Any]], ...]:
    """Each array as a list of rows along the axis."""
    return tuple(_moved(op, a).reshape(-1, a.shape[op.dim]).tolist() if a.size else [] for a in arrays)


def _moved(op: Any, a: Array) -> Array:
    return np.moveaxis(a, op.dim, -1)


def _back(op: Any, like: Array, values: list[Any]) -> Array:
    moved = _moved(op, like)
    return np.moveaxis(filled(moved.shape, values), -1, op.dim)


def weights(op: Any, row: list[Any]) -> list[Any]:
    """p, from the differences to each cell, so that nothing overflows."""
    require_exp(op.name, row[0])
    return [(own * 0 + 1) / total([exp(x - own) for x in row]) for own in row]


def _value(op: Any, row: list[Any]) -> list[Any]:
    require_exp(op.name, row[0])
    if isinstance(op, Softmax):
        return weights(op, row)
    return [-log(total([exp(x - own) for x in row])) for own in row]


def _tangent(op: Any, row: list[Any], t: list[Any]) -> list[Any]:
    p = weights(op, row)
    mean = total([a * b for a, b in zip(p, t, strict=True)])
    return [a * (b - mean) for a, b in zip(p, t, strict=True)] if isinstance(op, Softmax) else [b - mean for b in t]


def _cotangent(op: Any, row: list[Any], g: list[Any]) -> list[Any]:
    if isinstance(op, Softmax):
        return _tangent(op, row, g)
    whole = total(g)
    return [b - a * whole for a, b in zip(weights(op, row), g, strict=True)]


def _each(op: Any, compute: Callable[..., list[Any]], *arrays: Array) -> Array:
    values = [v for given in zip(*rows(op, *arrays), strict=True) for v in compute(op, *given)]
    return _back(op, arrays[0], values)


def forward(op: Any, inputs: tuple[Array, ...], progress: bool = False) -> Array:
    """The value."""
    return _each(op, _value, inputs[0])


def jvp(op: Any, primals: tuple[Array, ...], tangents: tuple[Array, ...], progress: bool = False) -> Array:
    """The tangent."""
    return _each(op, _tangent, primals[0], tangents[0])


def vjp(op: Any, primals: tuple[Array, ...], cotangent: Array, progress: bool = False) -> tuple[Array, ...]:
    """The cotangent."""
    return (_each(op, _cotangent, primals[0], cotangent),)


def over_floats(op: Any, work: str, *arrays: Array) -> Array:
    """Float arrays: every result is rounded once."""
    plain = isinstance(op, Softmax)
    function: Any = {
        "forward": exactly.softmax if plain else exactly.log_softmax,
        "jvp": exactly.softmax_derivative if plain else exactly.log_softmax_tangent,
        "vjp": exactly.softmax_derivative if plain else exactly.log_softmax_cotangent,
    }[work]
    target = float_format(arrays[0].dtype)
    found = [
        function(*given, i, target)
        for given in zip(*rows(op, *(as_doubles(a) for a in arrays)), strict=True)
        for i in range(len(given[0]))
    ]
    with np.errstate(over="ignore"):
        return np.asarray(_back(op, arrays[0], found).astype(np.float64).astype(arrays[0].dtype))


for _record in (Softmax, LogSoftmax):
    register(_record, Functions(forward, jvp, vjp))
