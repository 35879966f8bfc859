"""Cross entropy: with p = softmax(x) of a sample, coefficients A of its classes, S their sum, and a divisor D,

    forward   -sum(A log p), summed over the samples and divided by D; for every sample with reduction "none"
    JVP       sum((S p - A) t), likewise
    VJP       (S p - A) g / D to every cell

A is weight * ((1 - s) q + s / classes) with the smoothing s and the target probabilities q, which are 1 at a class
index and 0 elsewhere. A sample that is left out has no part; a cell with A = 0 has none in the value. D is 1, or for a
mean the sum of the weights at the class indices, or the number of samples. A NaN or +inf in a sample, nothing but -inf,
or a factor that is not finite gives NaN; so does D = 0.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from halfulp.numbers import _entropies as exactly
from halfulp.numbers import as_doubles, float_format
from halfulp.records import CrossEntropy
from halfulp.spec._registry import Functions, register
from halfulp.spec._scalars import exp, filled, log, require_exp, total

Array = np.ndarray[Any, Any]


def _rows(op: Any, array: Array) -> list[list[Any]]:
    """The classes of every sample."""
    axis = op.class_axis(array.shape)
    moved = np.moveaxis(array, axis, -1)
    return [list(row) for row in moved.reshape(prod(moved.shape[:-1]), moved.shape[-1])]


def _back(op: Any, shape: tuple[int, ...], cells: list[Any]) -> Array:
    axis = op.class_axis(shape)
    return np.moveaxis(filled((*op.samples(shape), shape[axis]), cells), -1, axis)


def _weights(row: list[Any]) -> list[Any]:
    return [(own * 0 + 1) / total([exp(x - own) for x in row]) for own in row]


def _over(op: Any, shape: tuple[int, ...], sums: list[Any], divisor: Any, zero: Any) -> Array:
    if op.reduction == "none":
        return filled(op.samples(shape), sums)
    return filled((), [(total(sums) if sums else zero) / divisor])


def _problem(op: Any, primals: tuple[Any, ...]) -> tuple[list[list[Any]], Any]:
    """The rows, and the coefficients of each as rationals (None: left out) with the divisor."""
    x, target, weight = primals
    rows = _rows(op, x)
    if rows:
        require_exp(op.name, rows[0][0])
    return rows, exactly.coefficients(op, x.shape, target, weight)


def _number(sample: Any, value: Any) -> Any:
    """A rational, or what the coefficients are, as a scalar of the kind of another one."""
    if hasattr(value, "p") and hasattr(value, "q"):
        return (sample * 0 + int(value.p)) / int(value.q)
    return value


def forward(op: Any, inputs: tuple[Any, ...], progress: bool = False) -> Array:
    """-sum(A log p)."""
    rows, found = _problem(op, inputs)
    sums = []
    for row, own in zip(rows, found.rows, strict=True):
        if own is None:
            sums.append(row[0] * 0)
            continue
        terms = [_number(x, a) * log(total([exp(v - x) for v in row])) for x, a in zip(row, own, strict=True) if a != 0]
        sums.append(total(terms) if terms else row[0] * 0)
    zero = _zero(rows)
    return _over(op, inputs[0].shape, sums, _number(zero, found.divisor), zero)


def _zero(rows: list[list[Any]]) -> Any:
    return rows[0][0] * 0 if rows else 0.0


def _shares(row: list[Any], own: list[Any]) -> list[Any]:
    """S p - A."""
    whole = total([_number(row[0], a) for a in own])
    return [whole * p - _number(row[0], a) for p, a in zip(_weights(row), own, strict=True)]


def jvp(op: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...], progress: bool = False) -> Array:
    """sum((S p - A) t)."""
    rows, found = _problem(op, primals)
    sums = []
    for row, own, t in zip(rows, found.rows, _rows(op, tangents[0]), strict=True):
        if own is None:
            sums.append(row[0] * 0)
        else:
            sums.append(total([s * v for s, v in zip(_shares(row, own), t, strict=True)]))
    zero = _zero(rows)
    return _over(op, primals[0].shape, sums, _number(zero, found.divisor), zero)


def vjp(op: Any, primals: tuple[Any, ...], cotangent: Array, progress: bool = False) -> tuple[Any, ...]:
    """(S p - A) g / D."""
    rows, found = _problem(op, primals)
    g = np.broadcast_to(cotangent, op.samples(primals[0].shape)).ravel()
    divisor = _number(_zero(rows), found.divisor)
    cells: list[Any] = []
    for row, own, factor in zip(rows, found.rows, g, strict=True):
        cells += [v * 0 for v in row] if own is None else [s * factor / divisor for s in _shares(row, own)]
    return (_back(op, primals[0].shape, cells),)


def over_floats(op: Any, work: str, primals: tuple[Any, ...], factor: Array | None = None) -> Array:
    """Float arrays: every result is rounded once."""
    x, target, weight = primals
    op.output_shape(*(None if a is None else a.shape for a in primals))
    shape, dtype, fmt = x.shape, x.dtype, float_format(x.dtype)
    rows, found = _rows(op, as_doubles(x)), exactly.coefficients(op, shape, target, weight)
    sample = op.samples(shape)
    if work == "vjp":
        assert factor is not None
        g = np.broadcast_to(as_doubles(factor), sample).ravel().tolist()
        parts = zip(rows, found.rows, g, strict=True)
        cells = [exactly.cell(row, own, found.divisor, h, i, fmt) for row, own, h in parts for i in range(len(row))]
        return _rounded(_back(op, shape, cells), dtype)
    along = [None] * len(rows) if factor is None else _rows(op, as_doubles(factor))
    samples = list(zip(rows, found.rows, along, strict=True))
    groups = [[s] for s in samples] if op.reduction == "none" else [samples]
    values = [exactly.value(group, found.divisor, fmt) for group in groups]
    return _rounded(filled(sample if op.reduction == "none" else (), values), dtype)


def _rounded(values: Array, dtype: Any) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(values.astype(np.float64).astype(dtype))


register(CrossEntropy, Functions(forward, jvp, vjp))
