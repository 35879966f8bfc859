"""The subject ``numpy-naive``: plain loops in the input's own precision, for comparison.

Every sum runs over its terms in row-major order and rounds after each step, which is what a first implementation does.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, ClassVar

import numpy as np

from halfulp.conformance.subjects import _source as source
from halfulp.conformance.subjects._base import Subject, Unsupported
from halfulp.geometry import adaptive_windows, flat_index, windows
from halfulp.records import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AdaptiveOperator,
    Array,
    AvgPool,
    Conv,
    ConvTranspose,
    GlobalAvgPool,
    GlobalMaxPool,
    GlobalOperator,
    MaxPool,
    Operator,
    Shape,
    SmoothMaxPool,
)


def _cells(op: Any, spatial: Shape) -> list[tuple[tuple[int, ...], int]]:
    """(real cells, padded cells) of every window."""
    if isinstance(op, AdaptiveOperator):
        return [(w.cells, 0) for w in adaptive_windows(spatial, op.spatial_output(spatial))]
    if isinstance(op, GlobalOperator):
        return [(tuple(range(int(np.prod(spatial)))), 0)]
    return [(w.cells, w.padded) for w in windows(op.axes(spatial))]


class NumpyNaiveSubject(Subject):
    """Loops over windows, one addition after the other."""

    name: ClassVar[str] = "numpy-naive"
    global_ties: ClassVar[str] = "first"

    @property
    def version(self) -> str:
        return str(np.__version__)

    def takes_large(self, op: Operator) -> bool:
        return False

    def forward(self, op: Operator, inputs: tuple[Array | None, ...]) -> Array:
        with np.errstate(all="ignore"):
            if isinstance(op, (Conv, ConvTranspose)):
                return _convolve(op, inputs)
            return _pooled(op, _only(inputs), _only(inputs))

    def jvp(
        self, op: Operator, primals: tuple[Array | None, ...], tangents: tuple[Array | None, ...]
    ) -> tuple[Array, Array]:
        with np.errstate(all="ignore"):
            if isinstance(op, (Conv, ConvTranspose)):
                by_x = _convolve(op, (tangents[0], primals[1], None))
                by_weight = _convolve(op, (primals[0], tangents[1], tangents[2]))
                return _convolve(op, primals), by_x + by_weight
            x = _only(primals)
            return _pooled(op, x, x), _pooled(op, x, _only(tangents), derivative=True)

    def script(self, op: Operator, mode: str, arrays: Any, indices: bool = False) -> str | None:
        lines = ["import numpy as np", f"from halfulp import {type(op).__name__}"]
        lines += ["from halfulp.conformance import load_subject", "", *source.numpy_arrays(mode, arrays)]
        lines += [*source.inputs_line(arrays, mode), f"op = {op!r}", 'naive = load_subject("numpy-naive")']
        call = {
            "forward": "naive.forward(op, inputs)",
            "jvp": "naive.jvp(op, inputs, tangents)[1]",
            "vjp": "naive.vjp(op, inputs, cotangent)[which]",
        }[mode]
        return "\n".join([*lines, f"got = {call}"])

    def vjp(self, op: Operator, primals: tuple[Array | None, ...], cotangent: Array) -> tuple[Array | None, ...]:
        with np.errstate(all="ignore"):
            if isinstance(op, (Conv, ConvTranspose)):
                return _convolve_back(op, primals, cotangent)
            return (_pooled_back(op, _only(primals), cotangent),)


def _only(arrays: tuple[Array | None, ...]) -> Array:
    (array,) = arrays
    assert array is not None
    return array


def _weights(op: Operator, x: Array, cells: tuple[int, ...], padded: int) -> list[tuple[int, Any]]:
    """(cell, weight) of one window's derivative."""
    one = x.dtype.type(1)
    if not cells:
        return []
    if isinstance(op, (MaxPool, AdaptiveMaxPool, GlobalMaxPool)):
        return [(_winner(x, cells), one)]
    if isinstance(op, SmoothMaxPool):
        beta = x.dtype.type(op.beta)
        terms = [np.exp(beta * x[i]) for i in cells]
        total = sum(terms, x.dtype.type(padded))
        return [(i, term / total) for i, term in zip(cells, terms, strict=True)]
    divisor = _divisor(op, len(cells), padded)
    return [(i, one / x.dtype.type(divisor)) for i in cells]


def _winner(x: Array, cells: tuple[int, ...]) -> int:
    best = cells[0]
    for i in cells[1:]:
        if x[i] > x[best] or (np.isnan(x[i]) and not np.isnan(x[best])):
            best = i
    return best


def _divisor(op: Operator, real: int, padded: int) -> int:
    if not isinstance(op, AvgPool):
        return real
    if op.divisor_override is not None:
        return op.divisor_override
    return real + padded if op.count_include_pad else real


def _value(op: Operator, x: Array, cells: tuple[int, ...], padded: int) -> Any:
    """One window's value."""
    zero = x.dtype.type(0)
    if isinstance(op, (AvgPool, AdaptiveAvgPool, GlobalAvgPool)):
        divisor = _divisor(op, len(cells), padded)
        return sum((x[i] for i in cells), zero) / x.dtype.type(divisor) if divisor else zero
    if isinstance(op, SmoothMaxPool):
        beta = x.dtype.type(op.beta)
        total = sum((np.exp(beta * x[i]) for i in cells), x.dtype.type(padded))
        return np.log(total) / beta if cells or padded else zero
    return x[_winner(x, cells)] if cells else zero


def _planes(op: Any, x: Array) -> tuple[Array, list[tuple[tuple[int, ...], int]]]:
    if op.elementwise:
        raise Unsupported(f"the subject has no call for {op.name}")
    spatial = x.shape[x.ndim - op.ndim :]
    return x.reshape(-1, int(np.prod(spatial))), _cells(op, spatial)


def _pooled(op: Operator, x: Array, values: Array, derivative: bool = False) -> Array:
    flat, table = _planes(op, x)
    directions = values.reshape(flat.shape)
    out = np.zeros((len(flat), len(table)), x.dtype)
    for row, (plane, direction) in enumerate(zip(flat, directions, strict=True)):
        for column, (cells, padded) in enumerate(table):
            if derivative:
                weights = _weights(op, plane, cells, padded)
                out[row, column] = sum((w * direction[i] for i, w in weights), x.dtype.type(0))
            else:
                out[row, column] = _value(op, plane, cells, padded)
    return out.reshape(op.output_shape(x.shape))


def _pooled_back(op: Operator, x: Array, cotangent: Array) -> Array:
    flat, table = _planes(op, x)
    back = np.zeros(flat.shape, x.dtype)
    given = cotangent.reshape(len(flat), len(table))
    for row, plane in enumerate(flat):
        for column, (cells, padded) in enumerate(table):
            for i, weight in _weights(op, plane, cells, padded):
                back[row, i] += weight * given[row, column]
    return back.reshape(x.shape)


def _taps(op: Conv | ConvTranspose, spatial: Shape, kernel: Shape) -> Iterator[tuple[int, int, int]]:
    """(output cell, tap, input cell) of every product in one plane."""
    axes = op.axes(spatial, kernel)
    sizes = tuple(a.size for a in axes)
    outputs = tuple(a.output_size for a in axes) if isinstance(op, Conv) else spatial
    for position in product(*(range(n) for n in outputs)):
        ranges = [list(enumerate(a.cells(o))) for a, o in zip(axes, position, strict=True)]
        for choice in product(*ranges):
            if all(0 <= cell < n for (_, cell), n in zip(choice, sizes, strict=True)):
                near = flat_index(position, outputs)
                far = flat_index([cell for _, cell in choice], sizes)
                tap = flat_index([t for t, _ in choice], kernel)
                yield (near, tap, far) if isinstance(op, Conv) else (far, tap, near)


def _products(op: Conv | ConvTranspose, x: Shape, weight: Shape) -> Iterator[tuple[int, ...]]:
    """(output channel, output cell, weight's two channels, tap, input channel, input cell) of every product."""
    taps = list(_taps(op, x[-op.ndim :], weight[2:]))
    for first, second in product(range(weight[0]), range(weight[1])):
        if isinstance(op, Conv):
            out_channel, in_channel = first, first // (weight[0] // op.groups) * weight[1] + second
        else:
            out_channel, in_channel = first // (weight[0] // op.groups) * weight[1] + second, first
        for out, tap, cell in taps:
            yield out_channel, out, first, second, tap, in_channel, cell


def _convolve(op: Conv | ConvTranspose, inputs: tuple[Array | None, ...]) -> Array:
    x, weight, bias = inputs if len(inputs) == 3 else (*inputs, None)
    assert x is not None
    assert weight is not None
    shape = op.output_shape(x.shape, weight.shape)
    batch = x.reshape(-1, x.shape[-op.ndim - 1], int(np.prod(x.shape[-op.ndim :])))
    taps = weight.reshape(*weight.shape[:2], -1)
    out = np.zeros((len(batch), shape[-op.ndim - 1], int(np.prod(shape[-op.ndim :]))), x.dtype)
    for o, cell, a, b, tap, c, near in _products(op, x.shape, weight.shape):
        out[:, o, cell] += taps[a, b, tap] * batch[:, c, near]
    if bias is not None:
        out += bias[:, None]
    return out.reshape(shape)


def _convolve_back(
    op: Conv | ConvTranspose, primals: tuple[Array | None, ...], cotangent: Array
) -> tuple[Array | None, ...]:
    x, weight, bias = primals if len(primals) == 3 else (*primals, None)
    if x is None or weight is None:
        raise Unsupported("a convolution needs an input and a weight")
    batch = x.reshape(-1, x.shape[-op.ndim - 1], int(np.prod(x.shape[-op.ndim :])))
    taps = weight.reshape(*weight.shape[:2], -1)
    given = cotangent.reshape(len(batch), cotangent.shape[-op.ndim - 1], -1) if cotangent.size else None
    back, back_weight = np.zeros_like(batch, order="C"), np.zeros_like(taps, order="C")
    if given is not None:
        for o, cell, a, b, tap, c, near in _products(op, x.shape, weight.shape):
            back[:, c, near] += taps[a, b, tap] * given[:, o, cell]
            for row in range(len(batch)):
                back_weight[a, b, tap] += batch[row, c, near] * given[row, o, cell]
    back_bias = None
    if bias is not None:
        back_bias = np.zeros_like(bias) if given is None else _summed(given)
    return back.reshape(x.shape), back_weight.reshape(weight.shape), back_bias


def _summed(given: Array) -> Array:
    """The sum over batch and cells, one after the other."""
    total = np.zeros(given.shape[1], given.dtype)
    for row, cell in product(range(given.shape[0]), range(given.shape[2])):
        total += given[row, :, cell]
    return total
