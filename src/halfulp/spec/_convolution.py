"""The one bilinear form behind convolution and its transpose.

A *link* (position, tap, cell) says that kernel tap ``tap`` of the window at ``position`` lies on the real cell ``cell``
of the larger side; padding has no link, so it contributes no term. With channels of one group a (larger side) and
b (position side), samples n and weights w[b, a, tap], everything is one of three sums over the links:

    at positions   y[n, b, position] = sum of w[b, a, tap] * x[n, a, cell]
    at cells       x[n, a, cell]     = sum of w[b, a, tap] * y[n, b, position]
    at taps        w[b, a, tap]      = sum of y[n, b, position] * x[n, a, cell]

A convolution maps cells to positions, a transposed convolution positions to cells, and each product is the derivative
of another. Rationals take the same sums as products of integer matrices, in ``_integer_matrices``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple, TypeVar

import numpy as np

from halfulp.geometry import Axis, flat_index
from halfulp.numbers import flint
from halfulp.records import ConvolutionOperator, Shape
from halfulp.spec import _integer_matrices
from halfulp.spec._progress import track
from halfulp.spec._scalars import filled, total, zero_of

Array = np.ndarray[Any, Any]
Maybe = np.ndarray[Any, Any] | None
T = TypeVar("T")


class Link(NamedTuple):
    """Tap ``tap`` of the window at ``position`` lies on ``cell``; all three are flat indices."""

    position: int
    tap: int
    cell: int


class Form(NamedTuple):
    """The sizes and links of one convolution; arrays are (samples, channels, flat positions) and (b, a/groups, taps).

    ``progress`` is the label of the progress bars that the sums show, if they are to show any.
    """

    links: list[Link]
    groups: int
    cells: int
    positions: int
    taps: int
    progress: str | None = None

    def at_positions(self, weight: Array, x: Array) -> Array:
        """y[n, b, position] = sum of w[b, a, tap] * x[n, a, cell]; None where there is no term."""
        if _rational(weight, x):
            return _integer_matrices.at_positions(self, weight, x)
        y = _empty((x.shape[0], weight.shape[0], self.positions))
        for n, b, a, local in self._channels(x.shape[0], weight.shape):
            for position, tap, cell in self.links:
                _add(y, (n, b, position), weight[b, local, tap] * x[n, a, cell])
        return y

    def at_cells(self, weight: Array, y: Array) -> Array:
        """x[n, a, cell] = sum of w[b, a, tap] * y[n, b, position]; None where there is no term."""
        if _rational(weight, y):
            return _integer_matrices.at_cells(self, weight, y)
        x = _empty((y.shape[0], weight.shape[1] * self.groups, self.cells))
        for n, b, a, local in self._channels(y.shape[0], weight.shape):
            for position, tap, cell in self.links:
                _add(x, (n, a, cell), weight[b, local, tap] * y[n, b, position])
        return x

    def at_taps(self, y: Array, x: Array) -> Array:
        """w[b, a, tap] = sum of y[n, b, position] * x[n, a, cell]; None where there is no term."""
        if _rational(y, x):
            return _integer_matrices.at_taps(self, y, x)
        weight = _empty((y.shape[1], x.shape[1] // self.groups, self.taps))
        for n, b, a, local in self._channels(y.shape[0], weight.shape):
            for position, tap, cell in self.links:
                _add(weight, (b, local, tap), y[n, b, position] * x[n, a, cell])
        return weight

    def _channels(self, samples: int, weight: tuple[int, ...]) -> Iterable[tuple[int, int, int, int]]:
        """(sample, channel b, channel a, a within its group) for every pair of channels of one group."""
        per_group = weight[0] // self.groups
        return self.track(
            [
                (n, b, (b // per_group) * weight[1] + local, local)
                for n in range(samples)
                for b in range(weight[0])
                for local in range(weight[1])
            ]
        )

    def track(self, items: Sequence[T]) -> Iterable[T]:
        """``items``, with a progress bar while they are consumed if this form shows one."""
        return track(items, self.progress or "", self.progress is not None)


def form(axes: Sequence[Axis], outputs: Shape, groups: int, progress: str | None = None) -> Form:
    """The form of a convolution whose larger side has these axes and whose windows number ``outputs`` per axis."""
    sizes = tuple(axis.size for axis in axes)
    kernel = tuple(axis.kernel for axis in axes)
    per_axis = [
        [(o, tap, cell) for o in range(count) for tap, cell in enumerate(axis.cells(o)) if 0 <= cell < axis.size]
        for axis, count in zip(axes, outputs, strict=True)
    ]
    links = []
    for choice in product(*per_axis):
        position, tap, cell = zip(*choice, strict=True)
        links.append(Link(flat_index(position, outputs), flat_index(tap, kernel), flat_index(cell, sizes)))
    return Form(links, groups, prod(sizes), prod(outputs), prod(kernel), progress)


def push(
    op: ConvolutionOperator,
    shape: Form,
    primals: tuple[Maybe, ...],
    products: Sequence[tuple[Maybe, Maybe]],
    bias: Maybe,
    output: Shape,
    transposed: bool,
) -> Array:
    """The sum of several products (weight, x) and a bias, as one sum of terms at the outputs of a convolution."""
    multiply = shape.at_cells if transposed else shape.at_positions
    present = [(w, v) for w, v in products if w is not None and v is not None]
    parts = [multiply(flat_weight(w), flat(v, op.ndim)) for w, v in present]
    flat_shape = (prod(output[: -op.ndim - 1]), output[-op.ndim - 1], shape.cells if transposed else shape.positions)
    if bias is not None:
        parts.append(np.broadcast_to(bias[None, :, None], flat_shape))
    if not parts:
        parts.append(_empty(flat_shape))
    return gather(parts, zero_of(primals)).reshape(output)


def pull(
    op: ConvolutionOperator, shape: Form, primals: tuple[Maybe, ...], cotangent: Array, transposed: bool
) -> tuple[Maybe, ...]:
    """The cotangents of x, weight and bias."""
    x, weight, bias = primals
    assert x is not None
    assert weight is not None
    zero = zero_of((x, weight, cotangent))
    g, v = flat(cotangent, op.ndim), flat(x, op.ndim)
    multiply = shape.at_positions if transposed else shape.at_cells
    dx = gather([multiply(flat_weight(weight), g)], zero).reshape(x.shape)
    dweight = gather([shape.at_taps(v, g) if transposed else shape.at_taps(g, v)], zero).reshape(weight.shape)
    return dx, dweight, None if bias is None else channel_sums(g, zero)


def gather(parts: Sequence[Array], zero: Any) -> Array:
    """The sum of several arrays of sums, in which None stands for no term; zero where no array has one."""
    out = []
    for values in zip(*(part.ravel() for part in parts), strict=True):
        terms = [value for value in values if value is not None]
        out.append(total(terms) if terms else zero)
    return filled(parts[0].shape, out)


def flat(x: Array, ndim: int) -> Array:
    """(samples, channels, flat positions)."""
    samples = 1 if x.ndim == ndim + 1 else x.shape[0]
    return x.reshape(samples, x.shape[x.ndim - ndim - 1], prod(x.shape[x.ndim - ndim :]))


def flat_weight(weight: Array) -> Array:
    """(channels, channels per group, flat taps)."""
    return weight.reshape(*weight.shape[:2], prod(weight.shape[2:]))


def channel_sums(y: Array, zero: Any) -> Array:
    """The sum over samples and positions, per channel: the cotangent of a bias."""
    channels = [list(y[:, channel].ravel()) for channel in range(y.shape[1])]
    return filled((y.shape[1],), [total(terms) if terms else zero for terms in channels])


def _rational(*arrays: Array) -> bool:
    """Whether every scalar is an ``fmpq``; their kinds have been unified, so one of each tells."""
    return all(array.size > 0 and isinstance(array.flat[0], flint.fmpq) for array in arrays)


def _empty(shape: tuple[int, ...]) -> Array:
    return np.full(shape, None, dtype=object)


def _add(array: Array, index: tuple[int, ...], term: Any) -> None:
    held = array[index]
    array[index] = term if held is None else held + term
