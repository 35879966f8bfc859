"""The three sums of a convolution over rationals, as products of integer matrices.

Rationals with a common denominator are integers, and FLINT multiplies integer matrices far faster than any loop over
rationals. The result is the same number: a test holds these functions equal to the plain sums of ``_convolution``.
"""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING, Any

import numpy as np

from halfulp.numbers import flint

if TYPE_CHECKING:
    from halfulp.spec._convolution import Form

Array = np.ndarray[Any, Any]


def at_positions(form: Form, weight: Array, x: Array) -> Array:
    """y = w · columns(x), per sample and group."""
    (w, x), denominator = _integers(weight, x)
    y = np.full((x.shape[0], w.shape[0], form.positions), None, dtype=object)
    outputs, inputs = w.shape[0] // form.groups, w.shape[1]
    for n, group in form.track(_blocks(x.shape[0], form.groups)):
        rows = slice(group * outputs, (group + 1) * outputs)
        columns = _columns(form, x[n, group * inputs : (group + 1) * inputs])
        _store(y[n, rows], _matrix(w[rows].reshape(outputs, -1)) * columns, denominator)
    return _without_terms(y, form, "position")


def at_cells(form: Form, weight: Array, y: Array) -> Array:
    """x = sum over taps of w^T · y, per sample and group."""
    (w, y), denominator = _integers(weight, y)
    outputs, inputs = w.shape[0] // form.groups, w.shape[1]
    x = np.full((y.shape[0], inputs * form.groups, form.cells), None, dtype=object)
    for n, group in form.track(_blocks(y.shape[0], form.groups)):
        rows = slice(group * outputs, (group + 1) * outputs)
        transposed = _matrix(w[rows].reshape(outputs, -1).T)
        spread = np.array((transposed * _matrix(y[n, rows])).tolist(), dtype=object)
        spread = spread.reshape(inputs, form.taps, form.positions)
        sums = np.zeros((inputs, form.cells), dtype=object)
        for position, tap, cell in form.links:
            sums[:, cell] += spread[:, tap, position]
        _store(x[n, group * inputs : (group + 1) * inputs], sums, denominator)
    return _without_terms(x, form, "cell")


def at_taps(form: Form, y: Array, x: Array) -> Array:
    """w = sum over samples of y · columns(x)^T, per group."""
    (y, x), denominator = _integers(y, x)
    outputs, inputs = y.shape[1] // form.groups, x.shape[1] // form.groups
    w = np.full((y.shape[1], inputs, form.taps), None, dtype=object)
    for group in form.track(range(form.groups)):
        rows, channels = (slice(group * k, (group + 1) * k) for k in (outputs, inputs))
        sums = None
        for n in range(y.shape[0]):
            part = _matrix(y[n, rows]) * _columns(form, x[n, channels]).transpose()
            sums = part if sums is None else sums + part
        _store(w[rows].reshape(outputs, -1), sums, denominator)
    return _without_terms(w, form, "tap")


def _blocks(samples: int, groups: int) -> list[tuple[int, int]]:
    """Every (sample, group)."""
    return [(n, group) for n in range(samples) for group in range(groups)]


def _integers(*arrays: Array) -> tuple[list[Array], int]:
    """Each array times its common denominator, and the product of those denominators."""
    scaled, overall = [], 1
    for array in arrays:
        values = [(int(v.p), int(v.q)) for v in array.ravel()]
        denominator = lcm(*{q for _, q in values})
        out = np.empty(len(values), dtype=object)
        out[:] = [p * (denominator // q) for p, q in values]
        scaled.append(out.reshape(array.shape))
        overall *= denominator
    return scaled, overall


def _columns(form: Form, x: Array) -> Any:
    """The matrix with a row for every (channel, tap) and a column for every position; 0 where there is no link."""
    columns = np.zeros((x.shape[0], form.taps, form.positions), dtype=object)
    if form.links:
        positions, taps, cells = map(list, zip(*form.links, strict=True))
        columns[:, taps, positions] = x[:, cells]
    return _matrix(columns.reshape(-1, form.positions))


def _matrix(rows: Array) -> Any:
    height, width = rows.shape
    return flint.fmpz_mat(height, width, [int(v) for v in rows.ravel()])


def _store(target: Array, numerators: Any, denominator: int) -> None:
    """Write numerators / denominator into an array of the same shape."""
    rows = numerators if isinstance(numerators, np.ndarray) else np.array(numerators.tolist(), dtype=object)
    flat = np.empty(rows.size, dtype=object)
    flat[:] = [flint.fmpq(int(v), denominator) for v in rows.ravel()]
    target[...] = flat.reshape(target.shape)


def _without_terms(sums: Array, form: Form, end: str) -> Array:
    """None where no link touches, as the plain sums have it."""
    touched = {getattr(link, end) for link in form.links}
    for index in range(sums.shape[-1]):
        if index not in touched:
            sums[..., index] = None
    return sums
