"""QuantizeLinear, QLinearConv, MatMulInteger and their kind: integers are exact, every scaling is rounded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from halfulp.numbers import float_format, on_grid
from halfulp.onnx._nearest import odd_sum
from halfulp.onnx._node import Node
from halfulp.onnx._small import SMALL, limits, narrowed, widened
from halfulp.onnx._tensors import dtype_of
from halfulp.onnx.operators._moving import axis_of
from halfulp.onnx.operators._window import window
from halfulp.onnx.operators.making import converted
from halfulp.records import Conv

_INTEGERS = {
    *map(np.dtype, (np.int8, np.uint8, np.int16, np.uint16, np.int32)),
    *(entry.dtype for entry in SMALL.values() if entry.integer),
}
_POWERS = getattr(TensorProto, "FLOAT8E8M0", 0)  # has no fractions
_FLOATS = {entry.dtype for code, entry in SMALL.items() if not entry.integer and code != _POWERS}


def quantize_linear(node: Node) -> Callable[..., Any]:
    """QuantizeLinear: x / scale to the nearest integer (ties to even), plus the zero point, held in the range.

    ``precision`` names the type of the division; it is the scale's where none is named.
    """
    axis, block = node.integer("axis", 1) if node.opset >= 13 else 1, _block(node)
    kind = node.integer("output_dtype", 0) if node.opset >= 21 else 0
    saturate = node.flag("saturate", 1) if node.opset >= 19 else True
    precision = node.integer("precision", 0) if node.opset >= 23 else 0

    def run(x: Any, scale: Any, zero: Any = None) -> Any:
        if precision:
            scale = converted(scale, dtype_of(node.label, "precision", precision))
        target = zero.dtype if zero is not None else dtype_of(node.label, "output_dtype", kind or TensorProto.UINT8)
        _check_type(node, target)
        by, offset = _per_axis(node, x, scale, zero, axis, block)
        if target in _FLOATS:
            _check_zero(node, zero)
            return narrowed(np.divide(x.astype(by.dtype, copy=False), by), target, saturate)
        return quantized(x, by, offset, target)

    return run


def dequantize_linear(node: Node) -> Callable[..., Any]:
    """DequantizeLinear: (x - zero point) * scale, rounded once."""
    axis, block = node.integer("axis", 1) if node.opset >= 13 else 1, _block(node)
    if node.opset >= 23:
        node.integer("output_dtype", 0)

    def run(x: Any, scale: Any, zero: Any = None) -> Any:
        _check_type(node, x.dtype)
        if zero is not None and zero.dtype != x.dtype:
            raise node.refusal(f"zero point dtype={zero.dtype}", f"must be {x.dtype}", "O9")
        node.fits(tuple(x.shape), scale, 24)
        by, offset = _per_axis(node, x, scale, zero, axis, block)
        if x.dtype in _FLOATS:
            _check_zero(node, zero)
            return converted(widened(x).astype(np.float64) * by.astype(np.float64), scale.dtype)
        return dequantized(widened(x), by, None if offset is None else widened(offset))

    return run


def _block(node: Node) -> int:
    block = node.integer("block_size", 0) if node.opset >= 21 else 0
    if block < 0:
        raise node.refusal(f"block_size={block}", "must be >= 0")
    return block


def _check_type(node: Node, dtype: np.dtype[Any]) -> None:
    if dtype not in _INTEGERS and dtype not in _FLOATS:
        raise node.refusal(f"dtype={dtype}", "must be an integer type of up to 32 bits, or float8", "O9")


def _check_zero(node: Node, zero: Any) -> None:
    if zero is not None and widened(zero).any():
        raise node.refusal("zero point", "must be 0 for a float type", "O9")


def _per_axis(node: Node, x: Any, scale: Any, zero: Any, axis: int, block: int) -> tuple[Any, Any]:
    """Scale and zero point as they meet the input: one for all, one along an axis, or one for every block."""
    if zero is not None and zero.shape != scale.shape and not zero.size == scale.size == 1:
        raise node.refusal(f"zero point shape={zero.shape}", f"must be {scale.shape}", "O9")
    if scale.size == 1 and block == 0:
        return scale.reshape(()), None if zero is None else zero.reshape(())
    place = axis_of(node, axis, len(x.shape))
    if block:
        blocks = -(-x.shape[place] // block)
        wanted = (*x.shape[:place], blocks, *x.shape[place + 1 :])
    else:
        wanted = (x.shape[place],)
    if tuple(scale.shape) != wanted:
        raise node.refusal(f"scale shape={tuple(scale.shape)}", f"must be {wanted}", "O9")

    def spread(value: Any) -> Any:
        if block:
            return np.repeat(value, block, axis=place).take(np.arange(x.shape[place]), axis=place)
        return value.reshape([x.shape[place] if i == place else 1 for i in range(len(x.shape))])

    return spread(scale), None if zero is None else spread(zero)


def quantized(x: NDArray[Any], scale: NDArray[Any], zero: Any, target: np.dtype[Any]) -> NDArray[Any]:
    """x / scale, a division in the scale's type as ONNX has it, to the nearest integer, plus the zero point."""
    least, most = limits(target)
    with np.errstate(all="ignore"):
        nearest = np.rint(x.astype(scale.dtype, copy=False) / scale)
        if target.itemsize > 2 or scale.dtype.itemsize < 4:  # float32 holds the sums of 16-bit integers
            nearest = nearest.astype(np.float64)
        offset = nearest.dtype.type(0) if zero is None else widened(zero).astype(nearest.dtype)
        shifted = np.clip(nearest, least - offset, most - offset) + offset
        if np.isnan(shifted).any():
            shifted = np.where(np.isnan(shifted), offset, shifted)
        return np.asarray(shifted.astype(target))


def dequantized(x: NDArray[Any], scale: NDArray[Any], zero: Any) -> NDArray[Any]:
    """(x - zero point) * scale, rounded once."""
    if x.dtype.itemsize <= 2 and scale.dtype == np.float32:  # the difference has 17 bits
        steps = x.astype(np.float32)
        return np.asarray(np.multiply(steps if zero is None else steps - zero.astype(np.float32), scale))
    return times(x.astype(np.int64) - (0 if zero is None else zero.astype(np.int64)), scale, scale.dtype)


def times(steps: NDArray[np.int64], scale: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """An integer of at most 33 bits times a scale, rounded once."""
    with np.errstate(all="ignore"):
        wide = np.broadcast_to(scale.astype(np.float64), steps.shape)
        # Both halves of the integer times 24 bits are exact; the last bit of their sum is odd if it is not.
        high = (steps >> 16 << 16).astype(np.float64) * wide
        low = (steps & 0xFFFF).astype(np.float64) * wide
        sums = high + low if dtype.itemsize == 8 else odd_sum(high, low)
        return np.asarray(on_grid(sums, float_format(dtype)).astype(dtype))


def dynamic_quantize_linear(node: Node) -> Callable[..., Any]:
    """DynamicQuantizeLinear: uint8 with a scale and zero point from the range of the input, which holds 0."""

    return lambda x: dynamically(node, x)


def dynamically(node: Node, x: Any) -> tuple[Any, Any, Any]:
    """x as uint8, the scale, and the zero point."""
    if x.size == 0 or x.dtype != np.float32:
        raise node.refusal(f"input {x.dtype}{list(x.shape)}", "must be float32 and have elements", "O9")
    low, high = min(np.float32(0), x.min()), max(np.float32(0), x.max())
    with np.errstate(all="ignore"):  # ONNX defines it by these steps, each rounded once
        scale = np.asarray((high - low) / np.float32(255))
        zero = np.float32(0) if scale == 0 else np.clip(np.rint(np.float32(0) - low / scale), 0, 255)
        point = np.asarray(zero).astype(np.uint8)
    if scale == 0:
        return np.zeros(x.shape, dtype=np.uint8), scale, point
    return quantized(x, scale, point, np.dtype(np.uint8)), scale, point


def centred(node: Node, x: Any, zero: Any, along: int | None) -> NDArray[np.float64]:
    """Integers minus their zero point, as float64, which holds them exactly."""
    if x.dtype not in (np.int8, np.uint8):
        raise node.refusal(f"dtype={x.dtype}", "must be int8 or uint8", "O9")
    if zero is None:
        return np.asarray(x.astype(np.float64))
    offset = zero.astype(np.float64)
    if offset.size == 1:
        offset = offset.reshape(())
    elif along is not None:
        offset = (
            offset.reshape([-1 if i == along % x.ndim else 1 for i in range(x.ndim)]) if offset.ndim == 1 else offset
        )
    return np.asarray(x.astype(np.float64) - offset)


def mat_mul_integer(node: Node) -> Callable[..., Any]:
    """MatMulInteger: products of 8-bit matrices in int32, which wraps around."""

    def run(a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
        return _wrapped(integer_product(node, centred(node, a, a_zero, -2), centred(node, b, b_zero, -1)))

    return run


def integer_product(node: Node, a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """A matrix product of integers, exact."""
    if a.ndim == 0 or b.ndim == 0 or a.shape[-1] != b.shape[max(0, b.ndim - 2)]:
        raise node.refusal(f"input shapes={a.shape} and {b.shape}", "the inner sizes must be equal", "O9")
    leading = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    node.fits((*leading, *a.shape[-2:-1], *(b.shape[-1:] if b.ndim > 1 else ())), a)
    return np.asarray(np.matmul(a, b))  # sums below 2**53 of integers are exact in any order


def _wrapped(sums: NDArray[np.float64]) -> NDArray[np.int32]:
    return sums.astype(np.int64).astype(np.int32)


def conv_integer(node: Node) -> Callable[..., Any]:
    """ConvInteger: a convolution of 8-bit integers in int32."""
    convolve = _convolution(node)

    def run(x: Any, weight: Any, x_zero: Any = None, w_zero: Any = None) -> Any:
        return _wrapped(convolve(centred(node, x, x_zero, None), centred(node, weight, w_zero, 0)))

    return run


def _convolution(node: Node) -> Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]:
    kernel, shared, groups = node.integers("kernel_shape"), window(node), node.integer("group", 1)

    def run(x: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
        if kernel is not None and kernel != weight.shape[2:]:
            raise node.refusal(f"kernel_shape={kernel}", f"must be {weight.shape[2:]}, the weight's")
        op = Conv(weight.ndim - 2, shared.stride, shared.padding, shared.dilation, groups)
        node.fits(op.output_shape(x.shape, weight.shape, None), x, 8)
        if x.size and weight.size and np.abs(x).max() * np.abs(weight).reshape(len(weight), -1).sum(1).max() <= 2**24:
            short = op(x.astype(np.float32), weight.astype(np.float32), None)  # float32 holds every sum
            return np.asarray(short.astype(np.float64))
        return np.asarray(op(x, weight, None))

    return run


def q_linear_conv(node: Node) -> Callable[..., Any]:
    """QLinearConv: an exact integer convolution with bias, scaled and rounded once to the output's integers."""
    convolve = _convolution(node)

    def run(x: Any, xs: Any, xz: Any, w: Any, ws: Any, wz: Any, ys: Any, yz: Any, bias: Any = None) -> Any:
        sums = convolve(centred(node, x, xz, None), centred(node, w, wz, 0))
        column = (-1, *(1,) * (sums.ndim - 2))
        if bias is not None:
            sums = sums + bias.astype(np.float64).reshape(column)
        scale = ws.reshape(column) if ws.size > 1 else ws.reshape(())
        return requantized(sums, (xs.reshape(()), scale), ys.reshape(()), yz)

    return run


def q_linear_mat_mul(node: Node) -> Callable[..., Any]:
    """QLinearMatMul: an exact integer product, scaled and rounded once to the output's integers."""

    def run(a: Any, a_s: Any, az: Any, b: Any, bs: Any, bz: Any, ys: Any, yz: Any) -> Any:
        sums = integer_product(node, centred(node, a, az, -2), centred(node, b, bz, -1))
        rows = a_s.reshape(-1, 1) if a_s.ndim == 1 and a_s.size > 1 else a_s if a_s.size > 1 else a_s.reshape(())
        return requantized(sums, (rows, bs if bs.size > 1 else bs.reshape(())), ys.reshape(()), yz)

    return run


def requantized(sums: NDArray[np.float64], scales: Any, target_scale: Any, zero: Any) -> NDArray[Any]:
    """sums * scales / target scale to the nearest integer, decided exactly where float64 leaves a doubt."""
    least, most = limits(zero.dtype)
    with np.errstate(all="ignore"):
        factor = scales[0].astype(np.float64) * scales[1].astype(np.float64)  # 48 bits: exact
        value = sums * factor / target_scale.astype(np.float64)
        nearest = np.rint(value)
        doubt = np.abs(np.abs(value - nearest) - 0.5) <= np.abs(value) * 2.0**-50 + 2.0**-60
    if doubt.any():
        pairs = np.stack([sums[doubt], np.broadcast_to(factor, sums.shape)[doubt]])
        different, back = np.unique(pairs, axis=1, return_inverse=True)
        bottom = Fraction(float(target_scale))
        exactly = [round(Fraction(s) * Fraction(f) / bottom) for s, f in different.T.tolist()]
        nearest[doubt] = np.array(exactly, dtype=np.float64)[back.reshape(-1)]
    shifted = np.nan_to_num(nearest) + zero.astype(np.float64)
    return np.asarray(np.clip(shifted, least, most).astype(zero.dtype))


def nearest_quotient(terms: Sequence[tuple[Any, Any]], scale: Any, zero: NDArray[Any]) -> NDArray[Any]:
    """The sum of integers times their scales, over a scale, to the nearest integer, ties to even, plus a zero point."""
    least, most = limits(zero.dtype)
    with np.errstate(all="ignore"):
        products = np.broadcast_arrays(*(whole * by.astype(np.float64) for whole, by in terms))  # 33 bits: exact
        value = sum(products) / scale.astype(np.float64)
        nearest = np.rint(value)
        size = sum(map(np.abs, products)) / scale.astype(np.float64)
        doubt = np.abs(np.abs(value - nearest) - 0.5) <= size * 2.0**-50 + 2.0**-60
    if doubt.any():
        different, back = np.unique(np.stack([p[doubt] for p in products]), axis=1, return_inverse=True)
        bottom = Fraction(float(scale))
        exactly = [round(sum(map(Fraction, terms), Fraction(0)) / bottom) for terms in different.T.tolist()]
        nearest[doubt] = np.array(exactly, dtype=np.float64)[back.reshape(-1)]
    shifted = np.nan_to_num(nearest) + zero.astype(np.float64)
    return np.asarray(np.clip(shifted, least, most).astype(zero.dtype))
