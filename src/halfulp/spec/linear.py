"""Matrix products: y[r, c] = sum over k of a[r, k] * b[k, c]; a linear layer adds a bias to every column.

    JVP   da b + a db (+ dbias), one sum
    VJP   da = g b^T, db = a^T g, summed over the leading axes that were broadcast; dbias = the sum of g over the rows

A linear layer is the product with a = weight and b = the rows of x as columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from halfulp.records import Linear, Matmul
from halfulp.spec._convolution import Form, Link, gather
from halfulp.spec._registry import register
from halfulp.spec._scalars import filled, total, zero_of

Array = np.ndarray[Any, Any]
Maybe = np.ndarray[Any, Any] | None


def form(columns: int) -> Form:
    """A product with so many columns as a convolution with one tap: a is the weight, b an image of one row."""
    return Form([Link(c, 0, c) for c in range(columns)], 1, columns, columns, 1)


def products(pairs: Sequence[tuple[Array, Array]], bias: Maybe, zero: Any) -> Array:
    """The sum of the products of the pairs, and of a bias for every row, as one sum of terms."""
    a, b = pairs[0]
    shape = (1, a.shape[0], b.shape[1])
    parts = [form(b.shape[1]).at_positions(a[:, :, None], b[None]) for a, b in pairs]
    if bias is not None:
        parts.append(np.broadcast_to(bias[None, :, None], shape))
    return np.asarray(gather([part.reshape(shape) for part in parts], zero)[0])


def left(g: Array, b: Array, zero: Any) -> Array:
    """The sum of g_n b_n^T over n."""
    return gather([form(b.shape[2]).at_taps(g, b)], zero)[:, :, 0]


def right(a: Array, g: Array, zero: Any) -> Array:
    """a^T g."""
    return np.asarray(gather([form(g.shape[1]).at_cells(a[:, :, None], g[None])], zero)[0])


class LinearRule:
    """The weight times the rows of x as columns."""

    @staticmethod
    def forward(op: Linear, inputs: tuple[Maybe, ...], progress: bool = False) -> Array:
        x, weight, bias = inputs
        assert x is not None
        assert weight is not None
        y = products([(weight, _rows(x).T)], bias, zero_of(inputs))
        return np.asarray(y.T.reshape(*x.shape[:-1], weight.shape[0]))

    @staticmethod
    def jvp(op: Linear, primals: tuple[Maybe, ...], tangents: tuple[Maybe, ...], progress: bool = False) -> Array:
        x, weight, _ = primals
        dx, dweight, dbias = tangents
        assert x is not None
        assert weight is not None
        shape, zero = (weight.shape[0], prod(x.shape[:-1])), zero_of(primals)
        pairs = [(w, _rows(v).T) for w, v in ((weight, dx), (dweight, x)) if w is not None and v is not None]
        if pairs:
            y = products(pairs, dbias, zero)
        else:
            y = filled(shape, [zero] * prod(shape)) if dbias is None else np.broadcast_to(dbias[:, None], shape)
        return np.asarray(y.T.reshape(*x.shape[:-1], weight.shape[0]))

    @staticmethod
    def vjp(op: Linear, primals: tuple[Maybe, ...], cotangent: Array, progress: bool = False) -> tuple[Maybe, ...]:
        x, weight, bias = primals
        assert x is not None
        assert weight is not None
        zero, g, rows = zero_of((x, weight, cotangent)), _rows(cotangent), _rows(x)
        dx = right(weight, g.T, zero).T.reshape(x.shape)
        sums = [total(list(g[:, o])) if len(g) else zero for o in range(weight.shape[0])]
        return dx, left(g.T[None], rows.T[None], zero), None if bias is None else filled(bias.shape, sums)


class MatmulRule:
    """One product for every index of the broadcast leading axes."""

    @staticmethod
    def forward(op: Matmul, inputs: tuple[Array, ...], progress: bool = False) -> Array:
        return MatmulRule._sum(op, inputs, [inputs])

    @staticmethod
    def jvp(op: Matmul, primals: tuple[Array, ...], tangents: tuple[Maybe, ...], progress: bool = False) -> Array:
        (a, b), (da, db) = primals, tangents
        pairs = [(u, v) for u, v in ((da, b), (a, db)) if u is not None and v is not None]
        return MatmulRule._sum(op, primals, pairs)

    @staticmethod
    def vjp(op: Matmul, primals: tuple[Array, ...], cotangent: Array, progress: bool = False) -> tuple[Array, ...]:
        a, b = _matrix_left(primals[0]), _matrix_right(primals[1])
        leading = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        g = cotangent.reshape(*leading, a.shape[-2], b.shape[-1])
        zero = zero_of((a, b, cotangent))
        da, db = np.empty(a.shape, dtype=object), np.empty(b.shape, dtype=object)
        for index in np.ndindex(a.shape[:-2]):
            meeting = _meeting(leading, index, a.shape[:-2])
            da[index] = left(_stack(g, meeting), _stack(b, _of(meeting, b)), zero)
        for index in np.ndindex(b.shape[:-2]):
            meeting = _meeting(leading, index, b.shape[:-2])
            above, below = (_stack(m, _of(meeting, m)) for m in (a, g))
            db[index] = right(_joined(above), _joined(below), zero)
        return da.reshape(primals[0].shape), db.reshape(primals[1].shape)

    @staticmethod
    def _sum(op: Matmul, primals: tuple[Array, ...], pairs: Sequence[tuple[Array, ...]]) -> Array:
        shape = op.output_shape(*(p.shape for p in primals))
        a, b = _matrix_left(primals[0]), _matrix_right(primals[1])
        leading = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        zero = zero_of(primals)
        out = np.empty((*leading, a.shape[-2], b.shape[-1]), dtype=object)
        matrices = [(_matrix_left(u), _matrix_right(v)) for u, v in pairs]
        for index in np.ndindex(leading):
            out[index] = products([(u[_own(index, u)], v[_own(index, v)]) for u, v in matrices], None, zero)
        return out.reshape(shape)


def _rows(x: Array) -> Array:
    return x.reshape(prod(x.shape[:-1]), x.shape[-1])


def _matrix_left(a: Array) -> Array:
    return a[None] if a.ndim == 1 else a


def _matrix_right(b: Array) -> Array:
    return b[:, None] if b.ndim == 1 else b


def _own(index: tuple[int, ...], matrices: Array) -> tuple[int, ...]:
    """The index of a factor's matrix at an index of the broadcast leading axes."""
    sizes = matrices.shape[:-2]
    return tuple(0 if n == 1 else i for i, n in zip(index[len(index) - len(sizes) :], sizes, strict=True))


def _meeting(leading: tuple[int, ...], index: tuple[int, ...], sizes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The indices of the broadcast leading axes at which a factor's matrix takes part."""
    like = np.empty((*sizes, 1, 1))
    return [position for position in np.ndindex(leading) if _own(position, like) == index]


def _joined(matrices: Array) -> Array:
    """The rows of several matrices, one after the other."""
    return matrices.reshape(prod(matrices.shape[:2]), matrices.shape[2])


def _of(positions: list[tuple[int, ...]], matrices: Array) -> list[tuple[int, ...]]:
    return [_own(position, matrices) for position in positions]


def _stack(matrices: Array, positions: list[tuple[int, ...]]) -> Array:
    """The matrices at these positions, one after the other."""
    out = np.empty((len(positions), *matrices.shape[-2:]), dtype=object)
    for i, position in enumerate(positions):
        out[i] = matrices[position]
    return out


register(Linear, LinearRule)
register(Matmul, MatmulRule)
