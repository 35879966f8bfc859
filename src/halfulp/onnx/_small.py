"""Element types of eight bits or less that only carry numbers: float8, float4 and integers of 4 and 2 bits.

They are cast, quantised and moved. No operator computes in them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto

from halfulp.numbers import Format, on_grid


class Small(NamedTuple):
    """A type: its dtype, the bits of an element in a file, and whether it is an integer type."""

    dtype: np.dtype[Any]
    bits: int
    integer: bool


_NAMES = {
    "FLOAT8E4M3FN": ("float8_e4m3fn", 8),
    "FLOAT8E4M3FNUZ": ("float8_e4m3fnuz", 8),
    "FLOAT8E5M2": ("float8_e5m2", 8),
    "FLOAT8E5M2FNUZ": ("float8_e5m2fnuz", 8),
    "FLOAT8E8M0": ("float8_e8m0fnu", 8),
    "FLOAT4E2M1": ("float4_e2m1fn", 4),
    "INT4": ("int4", 4),
    "UINT4": ("uint4", 4),
    "INT2": ("int2", 2),
    "UINT2": ("uint2", 2),
}
SMALL: dict[int, Small] = {
    getattr(TensorProto, name): Small(np.dtype(getattr(ml_dtypes, kind)), bits, "INT" in name)
    for name, (kind, bits) in _NAMES.items()
    if hasattr(TensorProto, name) and hasattr(ml_dtypes, kind)
}
"""Element type -> type, as far as the installed packages know them."""

_integer_info: Any = ml_dtypes.iinfo
_float_info: Any = ml_dtypes.finfo
_BY_DTYPE = {entry.dtype: entry for entry in SMALL.values()}
_EXPONENTS = np.dtype(getattr(ml_dtypes, "float8_e8m0fnu", np.void))

CARRIERS = {
    *("Cast", "CastLike", "Concat", "Constant", "DequantizeLinear", "Expand", "Flatten", "Gather", "Identity", "If"),
    *("Loop", "QuantizeLinear", "Reshape", "Shape", "Size", "Slice", "Split", "Squeeze", "Tile", "Transpose"),
    "Unsqueeze",
}
"""Operators that take these types."""


def is_small(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is one of these."""
    return dtype in _BY_DTYPE


def limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The least and the largest integer of an integer type, small or not.

    >>> limits(np.dtype(ml_dtypes.int4))
    (-8, 7)
    """
    info = _integer_info(dtype) if dtype in _BY_DTYPE else np.iinfo(dtype)
    return int(info.min), int(info.max)


def widened(x: NDArray[Any]) -> NDArray[Any]:
    """The same numbers in a type that computes: int8, uint8 or float32; others as they are."""
    entry = _BY_DTYPE.get(x.dtype)
    if entry is None:
        return x
    if entry.integer:
        return x.astype(np.int8 if limits(x.dtype)[0] < 0 else np.uint8)
    return x.astype(np.float32)


def narrowed(x: NDArray[Any], target: np.dtype[Any], saturate: bool = True, mode: str = "up") -> NDArray[Any]:
    """Numbers in a small type: floats to nearest even, ``saturate`` and ``mode`` as ONNX's Cast has them.

    To integers floats are cut off. Integers beyond the range keep their low bits, as in ONNX's own tests.
    """
    entry, x = _BY_DTYPE[target], widened(x)
    if entry.integer:
        least, most = limits(target)
        if x.dtype.kind not in "iub":
            x = np.where(np.abs(x) < 2.0**62, x.astype(np.float64), 0.0)
        kept = x.astype(np.int64) & (most - least)
        return np.where(kept > most, kept - (most - least + 1), kept).astype(target)
    wide = x.astype(np.float64)
    if target == _EXPONENTS:
        return _powers(wide, saturate, mode)
    info = _float_info(target)
    if saturate or entry.bits < 8:  # a type of 4 bits has nothing beyond its largest number
        end = float(info.max)
        wide = np.clip(wide, -end, end)
    # The cast of ml_dtypes goes through float32 and may round twice; on the grid there is nothing left to round.
    least, most_exponent = (math.frexp(float(number))[1] - 1 for number in (info.smallest_normal, info.max))
    return on_grid(wide, Format(target, int(info.nmant) + 1, least, most_exponent)).astype(target)


def _powers(x: NDArray[np.float64], saturate: bool, mode: str) -> NDArray[Any]:
    """Powers of two from 2**-127 to 2**127, or NaN. Of a negative number, which ONNX leaves open, the magnitude's."""
    fraction, exponent = np.frexp(np.abs(x))  # fraction in [0.5, 1)
    exponent = exponent - 1
    if mode == "up":
        exponent = exponent + (fraction > 0.5)
    elif mode == "nearest":
        exponent = exponent + (fraction >= 0.75)
    beyond = ~np.isfinite(x) | (exponent > 127) | (exponent < -127) | (x == 0)
    code = np.clip(exponent, -127, 127) + 127
    if saturate:
        code = np.where(x == 0, 0, np.where(np.isinf(x), 254, code))
        beyond = np.isnan(x)
    return np.where(beyond, 255, code).astype(np.uint8).view(_EXPONENTS)


def stored(count: int, bits: int) -> int:
    """How many bytes so many elements take in a file.

    >>> stored(3, 4)
    2
    """
    return -(-count * bits // 8)


def unpacked(data: NDArray[np.uint8], count: int, entry: Small) -> NDArray[Any]:
    """Elements from the bytes of a file, the first in the lowest bits."""
    if entry.bits == 8:
        return np.asarray(data.view(entry.dtype))
    shifts = np.arange(0, 8, entry.bits, dtype=np.uint8)
    codes = ((data[:, None] >> shifts) & np.uint8((1 << entry.bits) - 1)).reshape(-1)[:count]
    if entry.integer:
        least, most = limits(entry.dtype)
        signed = codes.astype(np.int64)
        return np.asarray(np.where(signed > most, signed - (most - least + 1), signed).astype(entry.dtype))
    return np.asarray(codes.view(entry.dtype))
