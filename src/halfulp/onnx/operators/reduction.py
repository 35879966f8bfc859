"""ReduceSum, ReduceMean, ReduceMax and their kind: each output is one pooling over the reduced axes, rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from halfulp.autograd import apply, ops
from halfulp.autograd.scalars import full
from halfulp.autograd.traced import is_traced, strip
from halfulp.numbers import Format, is_float, round_rational
from halfulp.onnx._nearest import nearest
from halfulp.onnx._node import Node
from halfulp.onnx.operators._moving import axes_input, axes_of
from halfulp.onnx.operators._plain import index, reshape, transpose
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
            moved = transpose(x, (*kept, *reduced)) if kept + reduced != list(range(ndim)) else x
            out = rows(node, reshape(moved, (*shape, terms)))
            final = tuple(1 if axis in reduced else x.shape[axis] for axis in range(ndim)) if keep else shape
            return reshape(out, final)

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
        return reshape(apply(record(terms), x), x.shape[:-1])

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
    if type(x) is np.ndarray and x.dtype == np.float32:
        return _squares(x)
    product = ops.matmul(reshape(x, (*x.shape[:-1], 1, x.shape[-1])), reshape(x, (*x.shape, 1)))
    return reshape(product, x.shape[:-1])


def _squares(x: NDArray[np.float32]) -> NDArray[Any]:
    """Sums of squares: each square is exact in float64, and n additions err by n * 2**-53 of the sum at most."""
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        estimate = np.einsum("...i,...i->...", wide, wide)
        error = estimate * ((x.shape[-1] + 2) * 2.0**-53)
    rows = x.reshape(-1, x.shape[-1])

    def exactly(place: int, target: Format) -> float:
        total = sum((Fraction(float(v)) ** 2 for v in rows[place]), Fraction(0))
        return round_rational(total.numerator, total.denominator, target)

    return nearest(estimate, error, x.dtype, exactly, (estimate == 0) | ~np.isfinite(estimate))


def rows_prod(node: Node, x: Any) -> Any:
    """The product, exact and rounded once."""
    value = strip(x)
    if is_traced(x):
        first = index(x, (..., 0)) if x.shape[-1] else full(x.shape[:-1], value, 1)
        for i in range(1, x.shape[-1]):
            first = ops.mul(first, index(x, (..., i)))
        return first
    if not is_float(value.dtype):
        with np.errstate(over="ignore"):
            kind = {} if value.dtype == object else {"dtype": value.dtype}
            return np.asarray(np.prod(value, axis=-1, **kind))
    node.fits(value.shape, value, 48)
    with np.errstate(all="ignore"):
        wide = np.ascontiguousarray(value, dtype=np.float64)
        plain = np.prod(wide, axis=-1)  # decides NaN and infinities
        estimate, error = _scaled_product(wide)
    stands = np.asarray(~np.isfinite(wide).all(axis=-1))
    rows = wide.reshape(plain.size, value.shape[-1])
    return nearest(np.where(stands, plain, estimate), error, value.dtype, lambda i, t: _product(rows[i], t), stands)


def _scaled_product(x: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Products of rows with a bound of their error; exponents are summed apart, so nothing overflows on the way."""
    part, exponent = np.frexp(x)
    total = exponent.sum(axis=-1, dtype=np.int64)
    while part.shape[-1] > 1:  # 512 numbers of [0.5, 1) have a product that float64 holds
        short = -(-part.shape[-1] // 512)
        padding = [(0, 0)] * (part.ndim - 1) + [(0, short * 512 - part.shape[-1])]
        groups = np.pad(part, padding, constant_values=1.0).reshape(*part.shape[:-1], short, 512)
        part, exponent = np.frexp(groups.prod(axis=-1))
        total = total + exponent.sum(axis=-1)
    first = part[..., 0] if part.shape[-1] else np.ones(part.shape[:-1])
    estimate = np.ldexp(first, np.clip(total, -4000, 4000).astype(np.int32))
    return estimate, np.abs(estimate) * ((x.shape[-1] + 4) * 2.0**-52) + 2.0**-1074


def _product(row: NDArray[np.float64], target: Format) -> float:
    """The product of finite numbers, exact and rounded once."""
    negative = bool(np.signbit(row).sum() % 2)
    if not row.all():
        return -0.0 if negative else 0.0
    tops, bottoms = zip(*(float(v).as_integer_ratio() for v in row), strict=True) if len(row) else ((1,), (1,))
    return round_rational(int(_tree(tops)), int(_tree(bottoms)), target)


def _tree(numbers: Sequence[int]) -> Any:
    """A product of many integers, of factors of like sizes."""
    level = [flint.fmpz(n) for n in numbers]
    while len(level) > 1:
        pairs = [a * b for a, b in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[len(level) - len(level) % 2 :]
    return level[0]
