"""LayerNormalization, GroupNormalization and InstanceNormalization: each one operator, rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from halfulp.autograd import apply, ops
from halfulp.autograd.traced import strip
from halfulp.numbers import Format, float_format, round_rational
from halfulp.onnx._nearest import by_balls, rationals
from halfulp.onnx._node import Node
from halfulp.onnx.operators._moving import axis_of
from halfulp.onnx.operators._plain import direct
from halfulp.records import GlobalAvgPool, GroupNorm, InstanceNorm, LayerNorm


def layer_normalization(node: Node) -> Callable[..., Any]:
    """LayerNormalization over the axes from ``axis`` on."""
    axis, epsilon = node.integer("axis", -1), node.number("epsilon", 1e-5)
    _single_precision(node)

    def run(x: Any, scale: Any, shift: Any = None) -> Any:
        node.same_types(x, scale, shift)
        place = axis_of(node, axis, len(x.shape))
        shape = tuple(x.shape[place:])
        y = layer_normalized(node, x, scale, shift, place, epsilon)
        if sum(name != "" for name in node.outputs) < 2:
            return y
        rows = ops.reshape(x, (*x.shape[:place], math.prod(shape)))
        kept = (*x.shape[:place], *(1,) * len(shape))
        mean = ops.reshape(apply(GlobalAvgPool(1), rows), kept)
        return (y, mean, _deviations(strip(rows), epsilon).reshape(kept))[: len(node.outputs)]

    return run


def layer_normalized(node: Node, x: Any, scale: Any, shift: Any, place: int, epsilon: float) -> Any:
    """The axes from ``place`` on, normalised."""
    shape = tuple(x.shape[place:])
    node.fits(tuple(x.shape), x)
    weight, bias = (None if v is None else _spread(node, v, shape) for v in (scale, shift))
    return _layer(shape, epsilon)(x, weight, bias)


@lru_cache(maxsize=256)
def _layer(shape: tuple[int, ...], epsilon: float) -> Callable[..., Any]:
    return direct(LayerNorm(shape, epsilon))


def _deviations(rows: NDArray[Any], epsilon: float) -> NDArray[Any]:
    """1 / sqrt(variance + epsilon) of every row, exact and rounded once."""
    (eps,) = rationals([epsilon])
    target = float_format(rows.dtype)
    flat = rows.reshape(-1, rows.shape[-1])
    out = np.full(len(flat), np.nan, dtype=rows.dtype)
    for i, row in enumerate(flat):
        if np.isfinite(row.astype(np.float64)).all():
            cells = rationals(row)
            mean = sum(cells, flint.fmpq(0)) / len(cells)
            square = sum(((c - mean) ** 2 for c in cells), flint.fmpq(0)) / len(cells) + eps
            out[i] = _inverse_root(square, target)
    return out


def _inverse_root(square: Any, target: Format) -> float:
    if square == 0:
        return math.inf
    if square.p.is_square() and square.q.is_square():
        return round_rational(int(square.q.isqrt()), int(square.p.isqrt()), target)
    return by_balls(lambda: 1 / flint.arb(square).sqrt(), target)


def _spread(node: Node, value: Any, shape: tuple[int, ...]) -> Any:
    if tuple(value.shape) == shape:
        return value
    if np.broadcast_shapes(tuple(value.shape), shape) != shape:
        raise node.refusal(f"scale or bias shape={tuple(value.shape)}", f"must broadcast to {shape}", "O9")
    return ops.broadcast_to(value, shape)


def instance_normalization(node: Node) -> Callable[..., Any]:
    """InstanceNormalization: every channel of every batch entry by itself."""
    op = InstanceNorm(node.number("epsilon", 1e-5))

    def run(x: Any, scale: Any, shift: Any) -> Any:
        node.same_types(x, scale, shift)
        node.fits(tuple(x.shape), x)
        return apply(op, x, scale, shift)

    return run


def group_normalization(node: Node) -> Callable[..., Any]:
    """GroupNormalization; before operator set 21 scale and bias have one number for each group."""
    groups, epsilon = node.integer("num_groups", 0), node.number("epsilon", 1e-5)
    if node.opset >= 21:
        _single_precision(node)
    op = GroupNorm(groups, epsilon)

    def run(x: Any, scale: Any, shift: Any) -> Any:
        node.same_types(x, scale, shift)
        node.fits(tuple(x.shape), x)
        if node.opset < 21 and groups and x.shape[1] % groups == 0:
            repeat = np.repeat(np.arange(math.prod(scale.shape)), x.shape[1] // groups)
            scale, shift = (ops.index(v, repeat) for v in (scale, shift))
        return apply(op, x, scale, shift)

    return run


def _single_precision(node: Node) -> None:
    """``stash_type`` names the type of intermediate sums; here every sum is exact."""
    kind = node.integer("stash_type", TensorProto.FLOAT)
    if kind not in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16):
        raise node.refusal(f"stash_type={kind}", "must be a float type")
