"""What the three averages share: they differ only in how their windows are compiled."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import inf, isinf, isnan, nan, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfulp import _core
from halfulp.geometry import Axis
from halfulp.kernels._registry import register
from halfulp.kernels._typed_average import present_vjp, typed_forward, typed_jvp
from halfulp.numbers import flint, float_format, round_rational
from halfulp.records import AvgPool, Operator, Pullback, _inputs


def register_average(record: type[Operator], compiled: Callable[[Any], _core.AvgOperator]) -> None:
    """Register a record whose ``compiled(op)`` is an AvgOperator of the core; that checks all but the counts."""

    def forward(op: Any, *inputs: Any, out: Any = None) -> Any:
        if len(inputs) != 1:
            _inputs.as_arrays(op, inputs)
        if op.dtype is not None or op.nan != "propagate":
            return typed_forward(op, compiled(op), inputs, out)
        return compiled(op).forward(inputs[0]) if out is None else compiled(op).forward_into(inputs[0], out)

    def jvp(op: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
        if op.dtype is not None or op.nan != "propagate":
            return typed_jvp(op, compiled(op), primals, tangents)
        if len(primals) != 1 or len(tangents) != 1:
            _inputs.as_tangents(op, _inputs.as_arrays(op, primals), tangents)
        return compiled(op).jvp(primals[0], tangents[0])

    def vjp(op: Any, *primals: Any) -> tuple[Any, Pullback]:
        if len(primals) != 1:
            _inputs.as_arrays(op, primals)
        if op.dtype is not None or op.nan != "propagate":
            (x,) = _inputs.as_arrays(op, primals)
            assert x is not None
            _inputs.differentiable(op, x)
            _inputs.refuse_nan(op, x)
            if op.nan == "ignore":
                return present_vjp(op, compiled(op), x)
        output, transpose = compiled(op).vjp(primals[0])
        shape = np.shape(primals[0])

        def pullback(cotangent: Any) -> tuple[Any, ...]:
            dx = transpose(cotangent)
            return (exact_transpose(op, shape, np.asarray(cotangent)) if dx is None else dx,)

        return output, pullback

    register(record, forward=forward, jvp=jvp, vjp=vjp)


def exact_transpose(op: AvgPool, shape: tuple[int, ...], cotangent: NDArray[Any]) -> NDArray[Any]:
    """The VJP of an average whose windows have too many different sizes for one common denominator in 64 bits.

    The sum of g / n over the windows of every cell, as a rational number, rounded once.
    """
    axes = op.axes(shape[len(shape) - op.ndim :])
    windows = [_windows_of_cells(axis, op.count_include_pad) for axis in axes]
    if not cotangent.dtype.isnative:
        cotangent = cotangent.astype(cotangent.dtype.newbyteorder("="))
    fmt = float_format(cotangent.dtype)
    flat = cotangent.astype(np.float64).reshape((-1, *cotangent.shape[cotangent.ndim - op.ndim :]))
    planes = np.empty((flat.shape[0], *(axis.size for axis in axes)), cotangent.dtype)
    for plane, g in zip(planes, flat, strict=True):
        for cell in np.ndindex(plane.shape):
            chosen = product(*(per_cell[i] for per_cell, i in zip(windows, cell, strict=True)))
            terms = [(float(g[tuple(o for o, _ in w)]), prod(n for _, n in w)) for w in chosen]
            plane[cell] = _rounded_sum(terms, fmt, cotangent.dtype)
    return planes.reshape(shape)


def _windows_of_cells(axis: Axis, count_include_pad: bool) -> list[list[tuple[int, int]]]:
    """For every cell of an axis, the windows that hold it, each with the factor of its divisor."""
    cells: list[list[tuple[int, int]]] = [[] for _ in range(axis.size)]
    for o in range(axis.output_size):
        real = axis.real_cells(o)
        n = axis.counted(o) if count_include_pad else len(real)
        for cell in real:
            cells[cell].append((o, n))
    return cells


def _rounded_sum(terms: list[tuple[float, int]], fmt: Any, dtype: np.dtype[Any]) -> Any:
    values = [value for value, _ in terms]
    if any(isnan(value) for value in values) or (inf in values and -inf in values):
        return dtype.type(nan)
    for value in values:
        if isinf(value):
            return dtype.type(value)
    total = sum((flint.fmpq(*value.as_integer_ratio()) / n for value, n in terms), flint.fmpq(0))
    if total == 0:
        return dtype.type(-0.0 if values and all(np.signbit(value) for value in values) else 0.0)
    return round_rational(int(total.p), int(total.q), fmt)
