"""Numbers from a counter: splitmix64 over integers, turned into floats by their bits alone."""

from __future__ import annotations

from math import prod
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# name: (dtype, unsigned integer of its size, bits of the exponent, bits of the fraction)
FORMATS: dict[str, tuple[Any, Any, int, int]] = {
    "float16": (np.dtype(np.float16), np.uint16, 5, 10),
    "bfloat16": (np.dtype(ml_dtypes.bfloat16), np.uint16, 8, 7),
    "float32": (np.dtype(np.float32), np.uint32, 8, 23),
    "float64": (np.dtype(np.float64), np.uint64, 11, 52),
}
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")


def words(seed: int, count: int) -> Array:
    """``count`` words of 64 bits; word i of a seed depends on the seed and i only.

    >>> [hex(word) for word in words(0, 2).tolist()]
    ['0xe220a8397b1dcdaf', '0x6e789e6aa1b965f4']
    """
    with np.errstate(over="ignore"):
        z = (np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed << 32)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def array(dtype: str, shape: tuple[int, ...], kind: str, seed: int) -> Array:
    """An array of one kind of numbers.

    ``near``: seven binades around 1. ``wide``: every finite exponent, subnormals included. ``ties``: small integers,
    so that sums cancel and cells tie. ``hard``: near, with one cell in eight a zero of either sign, an infinity, a NaN,
    a subnormal or the largest number. ``finite``: the same without infinities and NaN.
    """
    found = words(seed, prod(shape))
    cells = integers(dtype, found, kind) if dtype in INTEGERS else floats(dtype, found, kind)
    return cells.reshape(shape)


def integers(dtype: str, found: Array, kind: str) -> Array:
    """Few different values where ties are wanted, else every value of the type."""
    if dtype == "bool":
        return (found & np.uint64(1)).astype(bool)
    if kind == "ties":
        return (found % np.uint64(5)).astype(dtype)
    return found.astype(f"uint{8 * np.dtype(dtype).itemsize}").view(dtype)


def floats(dtype: str, found: Array, kind: str) -> Array:
    """Sign, exponent and fraction put together."""
    real, unsigned, exponent_bits, fraction_bits = FORMATS[dtype]
    bias, largest = (1 << exponent_bits - 1) - 1, (1 << exponent_bits) - 2
    if kind == "ties":
        small = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0]).astype(real)
        chosen: Array = small[(found % np.uint64(8)).astype(np.int64)]
        return chosen
    sign = found >> np.uint64(63)
    fraction = found & np.uint64((1 << fraction_bits) - 1)
    choice = (found >> np.uint64(52)) & np.uint64(0x7FF)
    exponent = choice % np.uint64(largest + 1) if kind == "wide" else np.uint64(bias - 3) + choice % np.uint64(7)
    bits = (sign << np.uint64(exponent_bits + fraction_bits)) | (exponent << np.uint64(fraction_bits)) | fraction
    if kind in ("hard", "finite"):
        infinity = (largest + 1) << fraction_bits
        specials = [0, 0, 1, (1 << fraction_bits) - 1, infinity - 1]
        specials += [infinity, infinity | 1 << fraction_bits - 1] if kind == "hard" else []
        mark = words(int(found[0]) & 0xFFFF if found.size else 0, found.size)
        special = np.array(specials, np.uint64)[((mark >> np.uint64(8)) % np.uint64(len(specials))).astype(np.int64)]
        special |= sign << np.uint64(exponent_bits + fraction_bits)
        bits = np.where(mark % np.uint64(8) == 0, special, bits)
    cells: Array = bits.astype(unsigned).view(real)
    return cells
