"""Matrix products in the compiled core: a product is a convolution with a kernel of one cell.

The filters are the rows of the left factor and the image has a pixel for every column of the right one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from halfulp import _core
from halfulp.kernels import _convolution
from halfulp.kernels._keeping import kept
from halfulp.kernels._registry import register
from halfulp.records import Conv, Linear, Matmul, Pullback, _inputs

Array = np.ndarray[Any, Any]
Maybe = np.ndarray[Any, Any] | None


@lru_cache(maxsize=256)
def _engine(precision: str, groups: int = 1) -> Conv:
    return Conv(1, groups=groups, precision=precision)


def _as_convolution(arrays: Sequence[Maybe]) -> tuple[Maybe, ...]:
    """(x, weight, bias) of a linear layer as those of a convolution: a pixel for every row of x."""
    x, weight, bias = arrays
    return (
        None if x is None else x.reshape(prod(x.shape[:-1]), x.shape[-1]).T,
        None if weight is None else weight[:, :, None],
        bias,
    )


def _linear(op: Any, *inputs: Any, out: Any = None) -> Any:
    arrays = _inputs.as_arrays(op, inputs)
    shape = _shape(op, arrays)
    if _empty(arrays[:2]):
        return _constant(shape, arrays[0], arrays[2])
    return _convolution.forward(_engine(op.precision), *_as_convolution(arrays)).T.reshape(shape)


def _linear_jvp(op: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    arrays = _inputs.as_arrays(op, primals)
    shape = _shape(op, arrays)
    given = _inputs.as_tangents(op, arrays, tangents)
    if _empty(arrays[:2]):
        return _constant(shape, arrays[0], arrays[2]), _constant(shape, arrays[0], given[2])
    parts = _convolution.jvp(_engine(op.precision), _as_convolution(arrays), _as_convolution(given))
    return parts[0].T.reshape(shape), parts[1].T.reshape(shape)


def _linear_vjp(op: Any, *primals: Any, wanted: Sequence[bool] = (True, True, True)) -> tuple[Any, Pullback]:
    x, weight, bias = arrays = _inputs.as_arrays(op, primals)
    assert x is not None
    assert weight is not None
    shape, dtype, has_bias = _shape(op, arrays), x.dtype, bias is not None
    if _empty(arrays[:2]):

        def pullback_of_nothing(cotangent: Any) -> tuple[Any, ...]:
            g = _inputs.as_cotangent(op, cotangent, shape, dtype).reshape(-1, shape[-1] if shape[-1] else 1)
            sums = (
                _core.conv_channel_sums(op.name, 1, np.ascontiguousarray(g.T)) if g.size else np.zeros(shape[-1], dtype)
            )
            return np.zeros(x.shape, dtype), np.zeros(weight.shape, dtype), sums if has_bias else None

        return _constant(shape, x, bias), pullback_of_nothing
    # The weight's cotangent is the matrix product of g and x. Its correctly rounded value is the same in every engine,
    # and a convolution's value is faster than its weight product. Fast sums keep their order.
    first, second, *third = wanted  # without a bias there may be two
    direct = bool(second) and op.precision == "correct"
    others = (first, bool(second) and not direct, *(third or [False]))
    output, pull = _convolution.vjp(_engine(op.precision), *_as_convolution(arrays), wanted=others)
    x_shape = x.shape
    rows = kept(x, "C").reshape(-1, x_shape[-1]) if direct else None

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        g = _inputs.as_cotangent(op, cotangent, shape, dtype).reshape(-1, shape[-1])
        dx, dweight, dbias = pull(g.T)
        if rows is not None:
            dweight = _convolution.forward(_engine(op.precision), rows, np.ascontiguousarray(g.T)[:, :, None], None)
        elif dweight is not None:
            dweight = dweight[:, :, 0]
        return None if dx is None else dx.T.reshape(x_shape), dweight, dbias

    return output.T.reshape(shape), pullback


def _shape(op: Any, arrays: Sequence[Maybe]) -> tuple[int, ...]:
    shape: tuple[int, ...] = op.output_shape(*(None if a is None else a.shape for a in arrays))
    return shape


def _empty(arrays: Sequence[Maybe]) -> bool:
    return any(array is not None and array.size == 0 for array in arrays)


def _constant(shape: tuple[int, ...], like: Maybe, bias: Maybe) -> Array:
    """The bias in every row, or zeros: a product without terms."""
    assert like is not None
    out = np.zeros(shape, like.dtype)
    if bias is not None:
        out[...] = bias
    return out


class _Product:
    """Matrices of given shapes as one convolution: how the factors and the product lie in it.

    ``shared`` says which factor is the same for all of the leading axes: the right one (its image has the rows of every
    left matrix for filters), the left one (a sample for every right matrix), or neither (a group for each pair).
    """

    def __init__(self, op: Matmul, a: tuple[int, ...], b: tuple[int, ...]) -> None:
        self.shape = op.output_shape(a, b)
        self.a, self.b = (1, *a) if len(a) == 1 else a, (*b, 1) if len(b) == 1 else b
        self.leading = tuple(np.broadcast_shapes(self.a[:-2], self.b[:-2]))
        self.full = (*self.leading, self.a[-2], self.b[-1])
        self.empty = 0 in (*self.a, *self.b)
        batch = prod(self.leading)
        if prod(self.b[:-2]) == 1:
            self.shared, groups = "right", 1
        elif prod(self.a[:-2]) == 1:
            self.shared, groups = "left", 1
        else:
            self.shared, groups = "none", max(1, batch)
        self.engine = _engine(op.precision, groups)
        self.partial = self.shared == "none" and not prod(self.a[:-2]) == prod(self.b[:-2]) == batch

    def filters(self, a: Array) -> Array:
        if self.shared == "none":
            a = np.broadcast_to(a.reshape(self.a), (*self.leading, *self.a[-2:]))
        return np.ascontiguousarray(a).reshape(-1, self.a[-1], 1)

    def image(self, b: Array) -> Array:
        inner, columns = self.b[-2:]
        if self.shared == "right":
            return b.reshape(inner, columns)
        if self.shared == "left":
            return b.reshape(-1, inner, columns)
        return np.broadcast_to(b.reshape(self.b), (*self.leading, inner, columns)).reshape(-1, columns)

    def cotangent(self, g: Array) -> Array:
        rows, columns = self.full[-2:]
        return g.reshape(-1, rows, columns) if self.shared == "left" else g.reshape(-1, columns)


@lru_cache(maxsize=256)
def _product(op: Matmul, a: tuple[int, ...], b: tuple[int, ...]) -> _Product:
    return _Product(op, a, b)


def _pair(op: Any, inputs: Sequence[Any]) -> tuple[Array, Array]:
    a, b = _inputs.as_arrays(op, inputs)
    assert a is not None
    assert b is not None
    return a, b


def _matmul(op: Any, *inputs: Any, out: Any = None) -> Any:
    a, b = _pair(op, inputs)
    return _push(op, [(a, b)])


def _push(op: Any, pairs: Sequence[tuple[Array, Array]]) -> Any:
    """The sum of several products of factors of the same shapes."""
    a, b = pairs[0]
    way = _product(op, a.shape, b.shape)
    if way.empty:
        return np.zeros(way.shape, a.dtype)
    planes = [(way.image(v), way.filters(u)) for u, v in pairs]
    return _convolution.call_of(way.engine, (*planes[0], None)).push(planes, None).reshape(way.shape)


def _matmul_jvp(op: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    a, b = _pair(op, primals)
    da, db = _inputs.as_tangents(op, (a, b), tangents)
    pairs = [(u, v) for u, v in ((da, b), (a, db)) if u is not None and v is not None]
    output = _push(op, [(a, b)])
    return output, _push(op, pairs) if pairs else np.zeros_like(output)


def _matmul_vjp(op: Any, *primals: Any, wanted: Sequence[bool] = (True, True)) -> tuple[Any, Pullback]:
    a, b = (kept(array, "C") for array in _pair(op, primals))
    way, dtype = _product(op, a.shape, b.shape), a.dtype

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        g = _inputs.as_cotangent(op, cotangent, way.shape, dtype)
        if way.empty:
            return np.zeros(a.shape, dtype), np.zeros(b.shape, dtype)
        if way.partial:
            return tuple(_pull_partial(op, way, a, b, g, left) if wanted[not left] else None for left in (True, False))
        image, filters, planes = way.image(b), way.filters(a), way.cotangent(g)
        call = _convolution.call_of(way.engine, (image, filters, None))
        return (
            call.pull_weight(planes, image, filters).reshape(a.shape) if wanted[0] else None,
            call.pull_input(planes, filters, image.shape).reshape(b.shape) if wanted[1] else None,
        )

    return _push(op, [(a, b)]), pullback


def _pull_partial(op: Any, way: _Product, a: Array, b: Array, g: Array, left: bool) -> Array:
    """The cotangent of one factor where some leading axes are broadcast: per matrix, a sum over those that meet it."""
    own = way.a if left else way.b
    kept = (*(1,) * (len(way.leading) - len(own) + 2), *own[:-2])
    repeated = [i for i, n in enumerate(kept) if n == 1]
    order = [i for i in range(len(kept)) if i not in repeated] + repeated

    def sorted_matrices(x: Array, shape: tuple[int, ...]) -> Array:
        """(own matrices, those that meet each, rows, columns)."""
        whole = np.broadcast_to(x.reshape(shape), (*way.leading, *shape[-2:]))
        moved = whole.transpose(*order, len(order), len(order) + 1)
        return np.asarray(moved.reshape(prod(kept), -1, *shape[-2:]))

    rights, products = sorted_matrices(b, way.b), sorted_matrices(g, way.full)
    lefts = sorted_matrices(a, way.a)
    parts = []
    for u, v, h in zip(lefts, rights, products, strict=True):
        if left:  # the matrices that meet are samples
            filters, image, planes = np.ascontiguousarray(u[0])[:, :, None], v, h
        else:  # their rows are filters
            filters = np.ascontiguousarray(u).reshape(-1, u.shape[-1], 1)
            image, planes = v[0], h.reshape(-1, h.shape[-1])
        call = _convolution.call_of(_engine(op.precision), (image, filters, None))
        pulled = call.pull_weight(planes, image, filters) if left else call.pull_input(planes, filters, image.shape)
        parts.append(pulled.reshape(own[-2:]))
    return np.asarray(np.stack(parts).reshape((a if left else b).shape))


register(Linear, forward=_linear, jvp=_linear_jvp, vjp=_linear_vjp)
register(Matmul, forward=_matmul, jvp=_matmul_jvp, vjp=_matmul_vjp)
