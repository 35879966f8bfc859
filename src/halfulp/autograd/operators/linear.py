"""Matrix products.

A product of float matrices is a convolution with a kernel of one cell, so it goes through the convolution engine: the
exact value, rounded once, or ordinary accumulation with ``precision="fast"``. No BLAS library decides the order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from halfulp.autograd.operators._base import PullbackRule, TapeOperator
from halfulp.autograd.operators.arithmetic import add
from halfulp.autograd.operators.reduction import sum_, sum_to
from halfulp.autograd.operators.shape import reshape, transpose
from halfulp.autograd.scalars import Array, full
from halfulp.autograd.traced import apply
from halfulp.errors import PolicyError
from halfulp.records import Conv


@lru_cache(maxsize=64)
def _engine(groups: int, precision: str) -> Conv:
    return Conv(1, groups=groups, precision=precision)


def _check_precision(operator: str, precision: str) -> None:
    if precision not in ("correct", "fast"):
        raise PolicyError(operator, f"precision={precision!r}", "must be one of 'correct', 'fast'", "P4")


def _product(a: Array, b: Array, precision: str) -> Array:
    """a (rows, inner) times b (inner, columns): b is an image with a pixel per column, a has a filter per row."""
    if a.dtype == object:
        return _object_product(a, b)
    if 0 in (*a.shape, *b.shape):
        return full((a.shape[0], b.shape[1]), a, 0)
    return np.asarray(_engine(1, precision)(b, np.ascontiguousarray(a)[:, :, None], None))


def _affine(x: Array, weight: Array, bias: Array, precision: str) -> Array:
    """x (rows, inner) times weight (columns, inner) transposed, plus a bias per column, in one rounding."""
    if x.dtype == object or 0 in (*x.shape, *weight.shape):
        return np.asarray(_product(x, weight.T, precision) + bias)
    return np.asarray(_engine(1, precision)(x.T, np.ascontiguousarray(weight)[:, :, None], bias).T)


def _object_product(a: Array, b: Array) -> Array:
    """The matrix product of exact scalars, by its definition."""
    if a.shape[-1] == 0:
        return full((*a.shape[:-1], b.shape[-1]), a, 0)
    return np.asarray(np.matmul(a, b))


def _batched(a: Array, b: Array, precision: str) -> Array:
    """a (batch, rows, inner) times b (batch, inner, columns): one group of channels per matrix."""
    batch, rows, inner = a.shape
    columns = b.shape[2]
    if a.dtype == object:
        return _object_product(a, b)
    if 0 in (batch, rows, inner, columns):
        return full((batch, rows, columns), a, 0)
    filters = np.ascontiguousarray(a).reshape(batch * rows, inner, 1)
    out = _engine(batch, precision)(b.reshape(batch * inner, columns), filters, None)
    return np.asarray(out.reshape(batch, rows, columns))


@dataclass(frozen=True)
class Matmul(TapeOperator):
    """The matrix product of the last two axes, leading axes broadcast; a vector is a row left, a column right."""

    precision: str = "correct"
    name: ClassVar[str] = "matmul"

    def __post_init__(self) -> None:
        _check_precision(self.name, self.precision)

    def forward(self, *inputs: Array) -> Any:
        a, b = inputs
        if a.ndim == 0 or b.ndim == 0 or a.shape[-1] != b.shape[max(0, b.ndim - 2)]:
            raise self._fail(f"input shapes={a.shape} and {b.shape}", "the inner sizes must be equal")
        left = a[None] if a.ndim == 1 else a
        right = b[:, None] if b.ndim == 1 else b
        out = self._matrices(left, right)
        if a.ndim == 1:
            out = out[..., 0, :]
        return out[..., 0] if b.ndim == 1 else out

    def _matrices(self, a: Array, b: Array) -> Array:
        rows, inner = a.shape[-2:]
        if b.ndim == 2:
            flat = _product(a.reshape(math.prod(a.shape[:-1]), inner), b, self.precision)
            return flat.reshape((*a.shape[:-1], b.shape[1]))
        try:
            leading = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        except ValueError as error:
            raise self._fail(f"input shapes={a.shape} and {b.shape}", "the leading axes must broadcast") from error
        batch = math.prod(leading)
        left = np.broadcast_to(a, (*leading, rows, inner)).reshape(batch, rows, inner)
        right = np.broadcast_to(b, (*leading, *b.shape[-2:])).reshape(batch, *b.shape[-2:])
        return _batched(left, right, self.precision).reshape((*leading, rows, b.shape[-1]))

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        (a, b), (da, db) = primals, tangents
        if da is None:
            return apply(self, a, db)
        return apply(self, da, b) if db is None else add(apply(self, da, b), apply(self, a, db))

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        (a, b), (need_a, need_b) = primals, needs
        a_shape, b_shape = a.shape, b.shape
        left = reshape(a, (1, *a_shape)) if len(a_shape) == 1 else a
        right = reshape(b, (*b_shape, 1)) if len(b_shape) == 1 else b
        full_shape = (*output.shape[: len(output.shape) - (len(a_shape) > 1) - (len(b_shape) > 1)],)
        full_shape = (*full_shape, left.shape[-2], right.shape[-1])

        def rule(g: Any) -> tuple[Any, ...]:
            g = reshape(g, full_shape)
            return (
                self._reduced(apply(self, g, _flipped(right)), left.shape, a_shape) if need_a else None,
                self._right(g, left, right, b_shape) if need_b else None,
            )

        return rule

    def _reduced(self, product: Any, matrix_shape: tuple[int, ...], shape: tuple[int, ...]) -> Any:
        return reshape(sum_to(product, matrix_shape), shape)

    def _right(self, g: Any, left: Any, right: Any, shape: tuple[int, ...]) -> Any:
        """The right factor's cotangent: the left factor, flipped, times g; one product if the factor was shared."""
        if len(right.shape) == 2 and len(left.shape) > 2:
            left, g = _rows(left), _rows(g)
        return self._reduced(apply(self, _flipped(left), g), right.shape, shape)


def _rows(x: Any) -> Any:
    """All axes but the last as one."""
    return reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))


def _flipped(x: Any) -> Any:
    """The last two axes exchanged."""
    n = len(x.shape)
    return transpose(x, (*range(n - 2), n - 1, n - 2))


@dataclass(frozen=True)
class Linear(TapeOperator):
    """x (…, inner) times weight (outer, inner) transposed, plus a bias (outer) or None, in one rounding."""

    precision: str = "correct"
    name: ClassVar[str] = "linear"
    takes_bias: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_precision(self.name, self.precision)

    def forward(self, *inputs: Any) -> Any:
        x, weight, bias = inputs if len(inputs) == 3 else (*inputs, None)
        if weight.ndim != 2 or x.ndim == 0 or x.shape[-1] != weight.shape[1]:
            raise self._fail(
                f"input shape={x.shape}, weight shape={weight.shape}", "must be (…, inner) and (outer, inner)"
            )
        if bias is not None and bias.shape != weight.shape[:1]:
            raise self._fail(f"bias shape={bias.shape}", f"must be {weight.shape[:1]}, one per row of the weight")
        rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
        flat = _product(rows, weight.T, self.precision) if bias is None else _affine(rows, weight, bias, self.precision)
        return flat.reshape((*x.shape[:-1], weight.shape[0]))

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        x, weight = primals[:2]
        dx, dweight = tangents[:2]
        dbias = tangents[2] if len(tangents) == 3 else None
        out = None if dx is None else apply(self, dx, weight, dbias)
        if dweight is not None:
            out = apply(self, x, dweight, dbias) if out is None else add(out, apply(self, x, dweight, None))
        if out is None:
            from halfulp.autograd.operators.shape import broadcast_to

            return broadcast_to(dbias, output.shape)
        return out

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        x, weight = primals[:2]
        product = Matmul(self.precision)
        needs = (*needs, False)
        absent = len(primals) < 3 or primals[2] is None

        def rule(g: Any) -> tuple[Any, ...]:
            rows = _rows(g)
            return (
                apply(product, g, weight) if needs[0] else None,
                apply(product, transpose(rows), _rows(x)) if needs[1] else None,
                sum_(rows, 0) if needs[2] and not absent else None,
            )[: len(primals)]

        return rule


def matmul(a: Any, b: Any, precision: str = "correct") -> Any:
    """The matrix product, correctly rounded unless ``precision="fast"``.

    >>> matmul(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]))
    array([[11.]])
    """
    return apply(Matmul(precision), a, b)


def linear(x: Any, weight: Any, bias: Any = None, precision: str = "correct") -> Any:
    """x times weight transposed, plus bias, correctly rounded unless ``precision="fast"``.

    >>> linear(np.array([1.0, 2.0]), np.array([[3.0, 4.0]]), np.array([0.5]))
    array([11.5])
    """
    return apply(Linear(precision), x, weight, bias)
