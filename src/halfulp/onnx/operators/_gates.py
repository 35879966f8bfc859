"""The sums of recurrent gates: products and biases as one sum, rounded once.

For float32 arrays the products are estimated in float64, those of the inputs for many steps at once. A product of two
float32 numbers is exact there, so the error of the sum of n of them is at most n * 2**-53 times the sum of their
magnitudes, in any order; by Cauchy and Schwarz that sum is at most the product of the norms. Where both ends of the
interval round to the same float32, that is the answer. The rest is summed exactly. One bound serves all gates: the
largest norm of a weight's rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfulp.autograd import ops
from halfulp.autograd.scalars import full
from halfulp.autograd.traced import strip
from halfulp.onnx._node import Node
from halfulp.onnx.operators.quantized import dynamically, times

_BLOCK = 1 << 21
"""How many float64 sums of inputs are kept at a time."""


class Sums:
    """All products and biases of some gates as one sum, rounded once; the weights are put together once a sequence.

    The first part of a call is the number of a step, if ``sequence`` (steps, batch, size) is given.
    """

    def __init__(self, weights: Sequence[Any], biases: Sequence[Any], sequence: Any = None) -> None:
        self._sequence = sequence
        rows = list(weights)
        self._ones = len(biases) > 1
        if self._ones:  # the second bias goes as a weight of ones
            rows.append(ops.reshape(biases[1], (*biases[1].shape, 1)))
        self._weight = ops.concatenate(rows, 1)
        self._bias = biases[0] if biases else None

    def __call__(self, *parts: Any) -> Any:
        columns = list(parts)
        if self._sequence is not None:
            columns[0] = ops.index(self._sequence, columns[0])
        if self._ones:
            columns.append(full((columns[0].shape[0], 1), strip(columns[0]), 1))
        return ops.linear(ops.concatenate(columns, 1), self._weight, self._bias)


class Certified:
    """Sums of float32 arrays, with the same bits as :class:`Sums`."""

    def __init__(self, weights: Sequence[Any], biases: Sequence[Any], sequence: Any = None) -> None:
        self._given, self._biases, self._sequence = weights, biases, sequence
        self._wide = [np.asarray(weight, dtype=np.float64).T for weight in weights]
        self._norms = [math.sqrt(np.einsum("ij,ij->j", wide, wide).max(initial=0.0)) for wide in self._wide]
        wide_biases = [bias.astype(np.float64) for bias in biases]
        self._start: Any = sum(wide_biases, np.float64(0))
        self._magnitude = sum(float(np.abs(bias).max(initial=0.0)) for bias in wide_biases)
        terms = sum(weight.shape[1] for weight in weights) + len(biases)
        self._unit = (terms + 8) * 2.0**-53 * (1 + 2.0**-20)
        self._block: tuple[int, int, Any, Any] = (0, 0, None, None)

    def __call__(self, *parts: Any) -> NDArray[np.float32]:
        total: Any = self._start
        magnitude: Any = self._magnitude
        held: Sequence[Any] = parts
        if self._sequence is not None:
            total, norms = self._inputs(parts[0])
            magnitude = magnitude + norms * self._norms[0]
            held = parts[1:]
        for part, wide, norm in zip(held, self._wide[-len(held) :], self._norms[-len(held) :], strict=False):
            state = part.astype(np.float64)
            total = total + state @ wide
            magnitude = magnitude + _norms(state) * norm
        error = magnitude * self._unit
        low: NDArray[np.float32] = (total - error).astype(np.float32)
        high = (total + error).astype(np.float32)
        same = low.view(np.int32) == high.view(np.int32)
        if not (same.all() and magnitude.min() > 0 and magnitude.max() < np.inf):
            decided = same & (magnitude > 0) & (magnitude < np.inf)
            self._decide(low, np.argwhere(~decided), parts)
        return low

    def _inputs(self, step: int) -> tuple[Any, Any]:
        """The products of one step's inputs and the norms of these, from a block of steps."""
        first, end, products, norms = self._block
        if not first <= step < end:
            batch, columns = self._sequence.shape[1], self._wide[0].shape[1]
            first, end = step, min(len(self._sequence), step + max(1, _BLOCK // max(1, batch * columns)))
            rows = self._sequence[first:end].astype(np.float64)
            norms = np.sqrt(np.einsum("ijk,ijk->ij", rows, rows))[:, :, None]
            products = (rows.reshape(-1, rows.shape[2]) @ self._wide[0]).reshape(end - first, batch, columns)
            products = products + self._start
            self._block = first, end, products, norms
        return products[step - first], norms[step - first]

    def _decide(self, out: NDArray[np.float32], places: NDArray[Any], parts: Sequence[Any]) -> None:
        """The sums at these places, exactly."""
        sequence = None if self._sequence is None else self._sequence[parts[0]]
        for row in np.unique(places[:, 0]):
            columns = places[places[:, 0] == row, 1]
            inputs = [part[row : row + 1] for part in (parts if sequence is None else (sequence, *parts[1:]))]
            weights = [weight[columns] for weight in self._given]
            out[row, columns] = Sums(weights, [bias[columns] for bias in self._biases])(*inputs)[0]


class QuantizedSums:
    """The sums of gates whose weights are 8-bit integers, as ONNX Runtime has them.

    All inputs are quantised with one scale as DynamicQuantizeLinear does, and the hidden state in every step with one
    of its own. The integer products are exact. Each is multiplied with the product of the two scales, and the two
    results and the sum of the biases are added from left to right; every step is rounded once to float32.
    """

    def __init__(self, node: Node, weights: Sequence[Any], biases: Sequence[Any], sequence: Any) -> None:
        self._node = node
        self._weights = [(w.astype(np.float64) - _column(zero)).T for w, _, zero in weights]
        self._scales = [scale for _, scale, _ in weights]
        self._bias = np.add(*biases) if biases else None
        steps, batch, size = sequence.shape
        self._inputs = self._product(0, sequence.reshape(-1, size)).reshape(steps, batch, -1) if steps else None

    def _product(self, which: int, x: NDArray[np.float32]) -> NDArray[Any]:
        whole, scale, zero = dynamically(self._node, x)
        sums = (whole.astype(np.float64) - float(zero)) @ self._weights[which]  # integers below 2**53: exact
        return times(sums.astype(np.int64), scale * self._scales[which], np.dtype(np.float32))

    def __call__(self, step: int, hidden: NDArray[np.float32]) -> Any:
        assert self._inputs is not None
        total = np.add(self._inputs[step], self._product(1, hidden))
        return total if self._bias is None else np.add(total, self._bias)


def _column(zero: NDArray[Any]) -> NDArray[np.float64]:
    return zero.astype(np.float64).reshape(-1, 1)


def _norms(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The norm of every row, as a column."""
    if len(rows) == 1:
        return np.array([[math.sqrt(np.vdot(rows, rows))]])
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows)))[:, None]


def few_rows(x: NDArray[np.float32], weight: NDArray[np.float32], bias: Any) -> NDArray[np.float32]:
    """A linear layer on few rows, whose time is that of reading the weight: (rows, in), (out, in) and (out,)."""
    step = max(1, _BLOCK // 8 // max(1, weight.shape[1]))
    out = np.empty((len(x), len(weight)), np.float32)
    for first in range(0, len(weight), step):
        some = slice(first, first + step)
        out[:, some] = Certified((weight[some],), () if bias is None else (bias[some],))(x)
    return out


def are_few(x: Any, weight: Any, bias: Any = None) -> bool:
    """Whether :func:`few_rows` is the faster way for a matrix and a weight."""
    plain = all(v is None or (type(v) is np.ndarray and v.dtype == np.float32) for v in (x, weight, bias))
    return plain and weight.ndim == 2 and 0 < x.size <= 2 * x.shape[-1] and weight.size >= 1 << 14


def sums_for(*values: Any) -> Callable[..., Any]:
    """The class whose sums fit these values."""
    plain = all(v is None or (type(v) is np.ndarray and v.dtype == np.float32) for v in values)
    return Certified if plain else Sums
