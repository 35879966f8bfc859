"""Shape, Range, ConstantOfShape, EyeLike, Cast, Dropout: values from shapes and numbers, and other element types."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from halfulp.autograd import TapeOperator, apply, ops
from halfulp.autograd.operators._base import LinearMap, PullbackRule
from halfulp.autograd.traced import is_traced, strip
from halfulp.numbers import exact, float_format, is_float, on_grid, rounded
from halfulp.onnx._nearest import odd_sum
from halfulp.onnx._node import Node
from halfulp.onnx._small import is_small, narrowed, widened
from halfulp.onnx._tensors import dtype_of
from halfulp.onnx.operators._moving import axis_of, integers, scalar


def shape(node: Node) -> Callable[..., Any]:
    """Shape, or a part of it."""
    start = node.integer("start", 0) if node.opset >= 15 else 0
    end = node.integer("end", 0) if node.opset >= 15 and node.has("end") else None
    return lambda x: np.array(tuple(x.shape)[start:end], dtype=np.int64)


def range_(node: Node) -> Callable[..., Any]:
    """Range: start + i * delta before the limit, each element rounded once."""

    def run(start: Any, limit: Any, delta: Any) -> Any:
        node.same_types(start, limit, delta)
        first, last, step = (scalar(node, value, "start, limit, delta") for value in (start, limit, delta))
        dtype = start.dtype
        wide = [value.item() if dtype.kind in "iu" else float(value) for value in (first, last, step)]
        if not all(np.isfinite(wide)) or wide[2] == 0:
            raise node.refusal(f"start, limit, delta={wide}", "must be finite, and delta not 0", "O9")
        if dtype.kind in "iu":
            count = max(0, int(-((wide[0] - wide[1]) // wide[2])))
            node.fits((count,), start)
            with np.errstate(over="ignore"):
                return (int(wide[0]) + np.arange(count, dtype=np.int64) * int(wide[2])).astype(dtype)
        wide[0] += 0.0  # the sum of two zeros is +0
        a, b, d = (Fraction(value) for value in wide)
        count = max(0, int(-((a - b) // d)))
        node.fits((count,), start, 80)
        if dtype != np.float64 and count < 1 << 29:  # i * delta has 53 bits
            return _to_float(odd_sum(np.arange(count) * wide[2], np.full(count, wide[0])), dtype)
        if all(value == 0 or 2.0**-400 < abs(value) < 2.0**400 for value in wide) and count < 1 << 53:
            return _line(wide[0], wide[2], count)
        node.fits((count,), start, 400)
        return rounded(np.array([a + i * d for i in range(count)], dtype=object), dtype)

    return run


def _line(start: float, delta: float, count: int) -> NDArray[np.float64]:
    """start + i * delta in float64, rounded once: an exact product of two parts, and the sum of three numbers.

    Boldo and Melquiond, Emulation of FMA and correctly rounded sums (2008): the two small parts are added with an odd
    last bit, and then the large one.
    """
    i = np.arange(count, dtype=np.float64)
    split = 134217729.0  # 2**27 + 1, which cuts 53 bits into two halves
    high = split * delta - (split * delta - delta)
    left = split * i - (split * i - i)
    product = i * delta
    rest = ((left * high - product) + left * (delta - high) + (i - left) * high) + (i - left) * (delta - high)
    small = start + rest
    back = small - start
    error = (start - (small - back)) + (rest - back)
    total = product + small
    back = total - product
    other = (product - (total - back)) + (small - back)
    return np.asarray(total + odd_sum(error, other))


def constant_of_shape(node: Node) -> Callable[..., Any]:
    """ConstantOfShape: one value in every element; float32 zero where none is given."""
    value = node.tensor("value") if node.has("value") else np.zeros(1, dtype=np.float32)
    if value.size != 1:
        raise node.refusal(f"value shape={value.shape}", "must have one element")

    def run(sizes: Any) -> Any:
        wanted = tuple(integers(node, sizes, "input"))
        if any(size < 0 for size in wanted):
            raise node.refusal(f"input={list(wanted)}", "every size must be >= 0", "O9")
        node.fits(wanted, value)
        return np.full(wanted, value.reshape(-1)[0], dtype=value.dtype)

    return run


def eye_like(node: Node) -> Callable[..., Any]:
    """EyeLike: ones on a diagonal of a matrix of the input's shape."""
    offset = node.integer("k", 0)
    target = _target(node, "dtype") if node.has("dtype") else None

    def run(x: Any) -> Any:
        if len(x.shape) != 2:
            raise node.refusal(f"input shape={tuple(x.shape)}", "must be a matrix", "O9")
        node.fits(tuple(x.shape), x)
        kind = np.dtype(np.float32) if x.dtype == object else x.dtype
        rows, columns = x.shape
        return np.eye(rows, columns, k=max(-rows - 1, min(columns + 1, offset)), dtype=target or kind)

    return run


def _target(node: Node, name: str) -> np.dtype[Any]:
    code = node.integer(name, TensorProto.FLOAT)
    return dtype_of(node.label, f"{name}={code}", code)


def cast(node: Node) -> Callable[..., Any]:
    """Cast. Floats are rounded to nearest even; to integers they are cut off, and beyond the range stay at its end.

    NaN becomes the integer 0. (ONNX leaves both open, and processors differ.)
    """
    rules, target = _rules(node), _target(node, "to")
    return lambda x: convert(node, x, target, *rules)


def cast_like(node: Node) -> Callable[..., Any]:
    """CastLike: Cast to the type of the second input."""
    rules = _rules(node)
    return lambda x, like: convert(node, x, np.dtype(like.dtype), *rules)


def _rules(node: Node) -> tuple[bool, str]:
    """What casts to float8 obey: whether they saturate, and the rounding of FLOAT8E8M0."""
    saturate = node.flag("saturate", 1) if node.opset >= 19 else True
    mode = node.text("round_mode", "up") if node.opset >= 24 else "up"
    if mode not in ("up", "down", "nearest"):
        raise node.refusal(f"round_mode={mode!r}", "must be up, down or nearest")
    return saturate, mode


class Converted(TapeOperator):
    """A float in another float type; the derivative is converted, too."""

    name = "cast"

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype

    def forward(self, *inputs: NDArray[Any]) -> Any:
        return converted(inputs[0], self.dtype)

    def _map(self, source: np.dtype[Any]) -> LinearMap:
        return LinearMap(lambda t: converted(t, self.dtype), lambda g: converted(g, source), self.name)

    def tangent(self, primals: Any, output: Any, tangents: Any) -> Any:
        return apply(self._map(strip(primals[0]).dtype), tangents[0])

    def pullback(self, primals: Any, output: Any, needs: Any) -> PullbackRule:
        back = LinearMap(lambda g: converted(g, strip(primals[0]).dtype), lambda t: converted(t, self.dtype), self.name)
        return lambda g: (apply(back, g),)


def convert(node: Node, x: Any, target: np.dtype[Any], saturate: bool = True, mode: str = "up") -> Any:
    """The input in another element type."""
    node.fits(tuple(x.shape), np.empty(0, dtype=target), 16)
    if is_small(target):
        if x.dtype == object:
            raise node.refusal("exact numbers", f"cannot be converted to {target}", "O9")
        return strip(x).copy() if x.dtype == target else narrowed(strip(x), target, saturate, mode)
    if x.dtype == object:
        if is_float(target):
            return x  # exact numbers stand for every float type
        return converted(np.array(strip(x), dtype=object), target)
    if not is_traced(x):
        return converted(x, target)
    if is_float(target):
        return apply(Converted(target), x)
    return converted(strip(x), target)


def converted(x: Any, target: np.dtype[Any]) -> Any:
    """One rounding for floats, saturation for integers."""
    if x.dtype == target:
        return x.copy()
    x = widened(x)
    if target == np.bool_:
        return np.asarray(x != 0, dtype=np.bool_)
    if x.dtype == object:  # exact numbers are cut off, too
        return np.array([int(value) for value in x.flat], dtype=object).astype(target).reshape(x.shape)
    with np.errstate(all="ignore"):
        if is_float(target):
            return _to_float(x, target)
        if is_float(x.dtype):
            wide, limits = np.trunc(x.astype(np.float64)), np.iinfo(target)
            above, below = wide >= float(limits.max) + 1, wide <= float(limits.min) - 1  # of 64 bits: 2.0**63 itself
            out = np.where(above | below | (wide != wide), 0.0, wide).astype(target)
            out[above], out[below] = limits.max, limits.min
            return out
        return x.astype(target)


def _to_float(x: NDArray[Any], target: np.dtype[Any]) -> NDArray[Any]:
    """To nearest even in one rounding; NumPy's own casts to half types may round twice."""
    if target in (np.float64, np.float32):
        return x.astype(target)
    return np.asarray(on_grid(_odd(x), float_format(target)).astype(target))


def _odd(x: NDArray[Any]) -> NDArray[np.float64]:
    """As float64. A 64-bit integer that is not exact there gets an odd last bit, so that the next rounding is right."""
    wide = x.astype(np.float64)
    if x.dtype.itemsize < 8 or is_float(x.dtype):
        return wide
    near = np.clip(wide, -(2.0**63), 2.0**63 - 1024) if x.dtype == np.int64 else np.clip(wide, 0, 2.0**64 - 2048)
    rest = x.astype(object) - near.astype(x.dtype).astype(object)
    inexact = np.array(rest != 0, dtype=bool)
    even = (near.view(np.int64) & 1) == 0
    toward = np.where(np.array(rest > 0, dtype=bool), np.inf, -np.inf)
    return np.where(inexact & even, np.nextafter(near, toward), near)


def dropout(node: Node) -> Callable[..., Any]:
    """Dropout in inference: the input, and a mask of ones."""
    if node.opset < 12:
        node.number("ratio", 0.5)
        if node.opset < 7:
            node.flag("is_test")
    else:
        node.integer("seed", 0)

    def run(x: Any, ratio: Any = None, training: Any = None) -> Any:
        drops = ratio is None or float(scalar(node, ratio, "ratio")) != 0
        if training is not None and bool(scalar(node, training, "training_mode")) and drops:
            raise node.refusal("training_mode=True", "only inference is computed: the mask is random", "O3")
        kept = x.copy() if isinstance(x, np.ndarray) else x
        mask = np.ones(tuple(x.shape), dtype=np.bool_)
        return (kept, mask) if len(node.outputs) > 1 else kept

    return run


def cum_sum(node: Node) -> Callable[..., Any]:
    """CumSum: every element is a sum of its own, rounded once."""
    exclusive, reverse = node.flag("exclusive"), node.flag("reverse")

    def run(x: Any, axis: Any) -> Any:
        place = axis_of(node, int(scalar(node, axis, "axis")), len(x.shape))
        if strip(x).dtype.kind in "iu":
            value = np.flip(x, place) if reverse else x
            total = np.cumsum(value, axis=place, dtype=value.dtype)
            total = total - value if exclusive else total
            return np.ascontiguousarray(np.flip(total, place) if reverse else total)
        size = x.shape[place]
        ones = np.tri(size, k=-1 if exclusive else 0, dtype=np.float64)
        weight = (ones.T if reverse else ones).astype(np.float32)
        order = [i for i in range(len(x.shape)) if i != place] + [place]
        lines = exact(weight) if x.dtype == object else weight.astype(x.dtype)
        out = ops.linear(ops.transpose(x, order), lines, None)
        return ops.transpose(out, [order.index(i) for i in range(len(order))])

    return run
