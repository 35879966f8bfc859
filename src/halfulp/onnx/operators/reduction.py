"""ReduceSum, ReduceMean, ReduceMax and their kind: each output is one pooling over the reduced axes, rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfulp.autograd import apply, ops
from halfulp.autograd.scalars import full
from halfulp.autograd.traced import is_traced, strip
from halfulp.numbers import is_float, rounded
from halfulp.onnx._node import Node
from halfulp.onnx.operators._moving import axes_input, axes_of
from halfulp.records import GlobalAvgPool, GlobalLpPool, GlobalMaxPool, GlobalMinPool, SmoothMaxPool, SumPool

Rows = Callable[[Node, Any], Any]
"""From (…, terms) to (…)."""


def reduction(rows: Rows, since: int = 18) -> Callable[[Node], Callable[..., Any]]:
    """The builder of a reduction: the reduced axes become the last one, which ``rows`` reduces."""

    def builder(node: Node) -> Callable[..., Any]:
        chosen, keep = axes_input(node, since), node.flag("keepdims", 1)
        nothing = node.flag("noop_with_empty_axes") if node.opset >= since else False

        def run(x: Any, axes: Any = None) -> Any:
            named = chosen(axes)
            ndim = len(x.shape)
            if not named and nothing:
                return x.copy() if isinstance(x, np.ndarray) else x
            reduced = sorted(axes_of(node, named, ndim)) if named else list(range(ndim))
            kept = [axis for axis in range(ndim) if axis not in reduced]
            terms = math.prod(x.shape[axis] for axis in reduced)
            shape = tuple(x.shape[axis] for axis in kept)
            node.fits((*shape, max(1, terms)), x)
            moved = ops.transpose(x, (*kept, *reduced)) if kept + reduced != list(range(ndim)) else x
            out = rows(node, ops.reshape(moved, (*shape, terms)))
            final = tuple(1 if axis in reduced else x.shape[axis] for axis in range(ndim)) if keep else shape
            return ops.reshape(out, final)

        return run

    return builder


def _pooled(record: Callable[[int], Any], empty: float, integers: Callable[..., Any] | None) -> Rows:
    """Rows through a pooling record; integers and rows without terms apart."""

    def run(node: Node, x: Any) -> Any:
        terms, value = x.shape[-1], strip(x)
        if terms == 0:
            if math.isinf(empty) and value.dtype == np.bool_:
                return np.full(x.shape[:-1], empty > 0)
            if math.isinf(empty) and value.dtype.kind in "iu":
                limits = np.iinfo(value.dtype)
                return np.full(x.shape[:-1], limits.min if empty < 0 else limits.max, dtype=value.dtype)
            return np.full(x.shape[:-1], empty, dtype=value.dtype)
        if value.dtype.kind in "iub" and integers is not None:
            with np.errstate(over="ignore"):
                return np.asarray(integers(value, axis=-1, dtype=value.dtype))
        return ops.reshape(apply(record(terms), x), x.shape[:-1])

    return run


rows_sum = _pooled(lambda n: SumPool((n,)), 0.0, np.sum)
rows_mean = _pooled(lambda n: GlobalAvgPool(1), math.nan, None)
rows_max = _pooled(lambda n: GlobalMaxPool(1, ties="first"), -math.inf, None)
rows_min = _pooled(lambda n: GlobalMinPool(1, ties="first"), math.inf, None)
rows_l1 = _pooled(lambda n: GlobalLpPool(1, 1.0), 0.0, lambda x, axis, dtype: np.sum(np.abs(x), axis=axis, dtype=dtype))
rows_l2 = _pooled(lambda n: GlobalLpPool(1, 2.0), 0.0, None)
rows_log_sum_exp = _pooled(lambda n: SmoothMaxPool((n,), 1.0), -math.inf, None)


def rows_mean_of_any(node: Node, x: Any) -> Any:
    """The mean; of integers it is cut off, as ONNX's reference has it."""
    value = strip(x)
    if value.dtype.kind in "iu":
        if x.shape[-1] == 0:
            raise node.refusal(f"input shape={x.shape}", "a mean of no integers is not a number", "O9")
        total = value.astype(object).sum(axis=-1)
        return np.asarray(np.array(total, dtype=object) // x.shape[-1]).astype(value.dtype)
    return rows_mean(node, x)


def rows_sum_square(node: Node, x: Any) -> Any:
    """The sum of squares: a product of every row with itself."""
    value = strip(x)
    if value.dtype.kind in "iu":
        with np.errstate(over="ignore"):
            return np.sum(value * value, axis=-1, dtype=value.dtype)
    if x.shape[-1] == 0:
        return np.zeros(x.shape[:-1], dtype=value.dtype)
    product = ops.matmul(ops.reshape(x, (*x.shape[:-1], 1, x.shape[-1])), ops.reshape(x, (*x.shape, 1)))
    return ops.reshape(product, x.shape[:-1])


def rows_prod(node: Node, x: Any) -> Any:
    """The product, exact and rounded once."""
    value = strip(x)
    if is_traced(x):
        first = ops.index(x, (..., 0)) if x.shape[-1] else full(x.shape[:-1], value, 1)
        for i in range(1, x.shape[-1]):
            first = ops.mul(first, ops.index(x, (..., i)))
        return first
    if not is_float(value.dtype):
        with np.errstate(over="ignore"):
            kind = {} if value.dtype == object else {"dtype": value.dtype}
            return np.asarray(np.prod(value, axis=-1, **kind))
    with np.errstate(all="ignore"):
        plain = np.prod(value.astype(np.float64), axis=-1)
    flat = value.reshape(-1, value.shape[-1]) if value.size else value.reshape(plain.size, value.shape[-1])
    out = np.empty(plain.size, dtype=value.dtype)
    for i, row in enumerate(flat):
        out[i] = _product(row, plain.reshape(-1)[i])
    return out.reshape(plain.shape)


def _product(row: NDArray[Any], plain: float) -> Any:
    wide = row.astype(np.float64)
    if not np.isfinite(wide).all():
        return row.dtype.type(plain)
    negative = bool(np.signbit(wide).sum() % 2)
    exact = math.prod((Fraction(float(v)) for v in wide), start=Fraction(1))
    if exact == 0:
        return row.dtype.type(-0.0 if negative else 0.0)
    return rounded(np.array([exact], dtype=object), row.dtype)[0]
