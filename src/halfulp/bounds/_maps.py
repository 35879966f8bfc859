"""Linear maps between arrays, with their transposes, as float64 code over a leading batch axis.

A map's ``forward`` takes (batch, *source) to (batch, *target), ``transpose`` goes back. Both use ordinary float64
accumulation in some order. If an output is a sum of at most ``n`` products, a computed number differs from the exact
one by at most gamma(n + 1) times the same sum over absolute values; :meth:`Map.absolute` gives the map for that sum.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from halfulp.geometry import resolve_padding
from halfulp.records import Conv, ConvTranspose

Array: TypeAlias = NDArray[Any]
Shape: TypeAlias = tuple[int, ...]


class Map:
    """A linear map from arrays of shape ``source`` to arrays of shape ``target``."""

    source: Shape
    target: Shape
    terms: int
    """The largest number of products in one output."""
    terms_back: int
    """The largest number of products in one output of the transpose."""

    def forward(self, x: Array) -> Array:
        """The map of every array of a batch."""
        raise AssertionError("every map has a forward direction")

    def transpose(self, g: Array) -> Array:
        """The transposed map of every array of a batch."""
        raise AssertionError("every map has a transpose")

    def absolute(self) -> Map:
        """The map whose coefficients are the absolute values of this one's."""
        raise AssertionError("every map has absolute values")

    def fields(self) -> tuple[Any, ...]:
        """What determines the map: words, numbers and arrays, for the network's digest."""
        raise AssertionError("every map says what it is made of")


class Gather(Map):
    """y[j] = sign * x[index[j]], or 0 where index[j] is -1: reshape, transpose, slice, pad, broadcast, negate."""

    def __init__(self, index: Array, source: Shape, sign: int = 1) -> None:
        self.index = np.ascontiguousarray(index, dtype=np.int64)
        self.source, self.target, self.sign = source, self.index.shape, sign
        flat = self.index.reshape(-1)
        self._flat = flat
        self._kept = np.flatnonzero(flat >= 0)
        used = flat[self._kept]
        counts = np.bincount(used, minlength=1) if used.size else np.zeros(1, dtype=np.int64)
        self.terms, self.terms_back = 1, int(counts.max())
        self._whole = self._kept.size == flat.size
        identity = self._whole and flat.size == math.prod(source) and np.array_equal(flat, np.arange(flat.size))
        self._identity = bool(identity)
        self._inverse: Array | None = None
        if used.size == math.prod(source) and self.terms_back <= 1:  # every cell of the source is moved once
            self._inverse = np.empty(used.size, dtype=np.int64)
            self._inverse[used] = self._kept

    def forward(self, x: Array) -> Array:
        batch = len(x)
        rows = x.reshape(batch, -1)
        if self._identity:
            out = rows
        elif self._whole:
            out = rows[:, self._flat]
        else:
            out = np.zeros((batch, self._flat.size), dtype=x.dtype)
            out[:, self._kept] = rows[:, self._flat[self._kept]]
        out = out if self.sign == 1 else -out
        return out.reshape(batch, *self.target)

    def transpose(self, g: Array) -> Array:
        batch = len(g)
        rows = g.reshape(batch, -1)
        if self._identity:
            out = rows
        elif self._inverse is not None:
            out = np.take(rows, self._inverse, axis=1)
        else:
            out = np.zeros((batch, math.prod(self.source)), dtype=g.dtype)
            if self.terms_back <= 1:
                out[:, self._flat[self._kept]] = rows[:, self._kept]
            else:
                np.add.at(out.T, self._flat[self._kept], rows[:, self._kept].T)
        out = out if self.sign == 1 else -out
        return out.reshape(batch, *self.source)

    def absolute(self) -> Map:
        return self if self.sign == 1 else Gather(self.index, self.source)

    def fields(self) -> tuple[Any, ...]:
        return ("gather", self.sign, self.source, self.index)


class Scale(Map):
    """y = factor * x, element by element."""

    def __init__(self, factor: Array) -> None:
        self.factor = np.asarray(factor, dtype=np.float64)
        self.source = self.target = self.factor.shape
        self.terms = self.terms_back = 1

    def forward(self, x: Array) -> Array:
        return np.asarray(x * self.factor)

    def transpose(self, g: Array) -> Array:
        return np.asarray(g * self.factor)

    def absolute(self) -> Map:
        return Scale(np.abs(self.factor))

    def fields(self) -> tuple[Any, ...]:
        return ("scale", self.factor)


class Matrix(Map):
    """y[..., o] = sum over i of weight[o, i] * x[..., i]."""

    def __init__(self, weight: Array, leading: Shape) -> None:
        self.weight = np.ascontiguousarray(weight, dtype=np.float64)
        self.leading = leading
        self.source, self.target = (*leading, weight.shape[1]), (*leading, weight.shape[0])
        self.terms, self.terms_back = weight.shape[1], weight.shape[0]

    def forward(self, x: Array) -> Array:
        return np.asarray(x @ self.weight.T)

    def transpose(self, g: Array) -> Array:
        return np.asarray(g @ self.weight)

    def absolute(self) -> Map:
        return Matrix(np.abs(self.weight), self.leading)

    def fields(self) -> tuple[Any, ...]:
        return ("matrix", self.leading, self.weight)


class Dense(Map):
    """y = weight x, where x and y are flattened: a linear record that is known by its coefficients."""

    def __init__(self, weight: Array, source: Shape, target: Shape) -> None:
        self.weight = np.ascontiguousarray(weight, dtype=np.float64)
        self.source, self.target = source, target
        self.terms, self.terms_back = weight.shape[1], weight.shape[0]
        self.monotone = bool((self.weight >= 0).all() or (self.weight <= 0).all())
        """Whether all coefficients have the same sign."""

    def forward(self, x: Array) -> Array:
        return np.asarray(x.reshape(len(x), -1) @ self.weight.T).reshape(len(x), *self.target)

    def transpose(self, g: Array) -> Array:
        return np.asarray(g.reshape(len(g), -1) @ self.weight).reshape(len(g), *self.source)

    def absolute(self) -> Map:
        return Dense(np.abs(self.weight), self.source, self.target)

    def fields(self) -> tuple[Any, ...]:
        return ("dense", self.source, self.target, self.weight)


TABLE = 1 << 20
"""Up to this many coefficients a convolution is one product with a matrix, which is faster than its kernel."""


class Convolution(Map):
    """A convolution or transposed convolution with a constant weight."""

    _table: Array | None = None

    def __init__(self, record: Any, weight: Array, source: Shape) -> None:
        self.record, self.weight, self.source = record, np.ascontiguousarray(weight, dtype=np.float64), source
        self.target = record.output_shape(source, weight.shape, None)
        ndim = record.ndim
        kernel = weight.shape[2:]
        taps, groups = math.prod(kernel), record.groups
        spatial = source[len(source) - ndim :]
        if isinstance(record, Conv):
            pairs = resolve_padding(record.padding, spatial, kernel, record.stride, record.dilation)
            self.terms, self.terms_back = weight.shape[1] * taps, weight.shape[0] // groups * taps
            extra = tuple(
                (n + before + after - d * (k - 1) - 1) % s
                for n, (before, after), k, s, d in zip(
                    spatial, pairs, kernel, record.stride, record.dilation, strict=True
                )
            )
            self._push: Any = replace(record, padding=pairs, precision="fast")
            self._pull: Any = ConvTranspose(
                ndim, record.stride, pairs, extra, record.dilation, groups, precision="fast"
            )
        else:
            self.terms, self.terms_back = weight.shape[0] // groups * taps, weight.shape[1] * taps
            self._push = replace(record, precision="fast")
            self._pull = Conv(ndim, record.stride, record.padding, record.dilation, groups, precision="fast")

    def table(self) -> Array | None:
        """The matrix (target, source), made once; None if it is too large. Zeros in it round nothing."""
        size = math.prod(self.source)
        if self._table is None and 0 < size * math.prod(self.target) <= TABLE:
            units = np.eye(size).reshape(size, *self.source)
            self._table = np.ascontiguousarray(self._pushed(units).reshape(size, -1).T)
        return self._table

    def forward(self, x: Array) -> Array:
        table = self.table()
        if table is not None:
            return np.asarray(x.reshape(len(x), -1) @ table.T).reshape(-1, *self.target)
        return self._pushed(x)

    def _pushed(self, x: Array) -> Array:
        return np.asarray(self._push(self._images(x, self.source), self.weight, None)).reshape(-1, *self.target)

    def transpose(self, g: Array) -> Array:
        table = self.table()
        if table is not None:
            return np.asarray(g.reshape(len(g), -1) @ table).reshape(-1, *self.source)
        out = np.asarray(self._pull(self._images(g, self.target), self.weight, None))
        ndim = self.record.ndim
        spatial = self.source[len(self.source) - ndim :]
        # An output padding of at least the stride makes more windows than the input has cells.
        key: Any = (Ellipsis, *(slice(0, n) for n in spatial))
        out = out[key]
        return np.ascontiguousarray(out).reshape(-1, *self.source)

    def _images(self, x: Array, shape: Shape) -> Array:
        return np.ascontiguousarray(x).reshape(-1, *shape[len(shape) - self.record.ndim - 1 :])

    def absolute(self) -> Map:
        return Convolution(self.record, np.abs(self.weight), self.source)

    def fields(self) -> tuple[Any, ...]:
        return ("convolution", repr(replace(self.record, precision="correct")), self.source, self.weight)


class Mean(Map):
    """An average or sum over windows: a record of which every leading axis is free."""

    def __init__(self, record: Any, source: Shape, terms: int, sign: int = 1) -> None:
        self.record, self.source, self.sign = record, source, sign
        self.target = record.output_shape(source)
        self.terms, self.terms_back = terms, terms * max(1, math.prod(source))
        self.terms_back = min(self.terms_back, math.prod(self.target))

    def forward(self, x: Array) -> Array:
        return self.sign * np.asarray(self.record(np.ascontiguousarray(x)))

    def transpose(self, g: Array) -> Array:
        _, pullback = self.record.vjp(np.zeros((len(g), *self.source)))
        return self.sign * np.asarray(pullback(np.ascontiguousarray(g))[0])

    def absolute(self) -> Map:
        negative = (getattr(self.record, "divisor_override", None) or 1) < 0
        return Mean(self.record, self.source, self.terms, -1 if negative else 1)

    def fields(self) -> tuple[Any, ...]:
        return ("mean", repr(self.record), self.sign, self.source)
