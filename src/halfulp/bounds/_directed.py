"""Sums and products of float64 arrays, rounded up or down.

NumPy rounds to nearest. The error of a sum or product is itself a float64 (Knuth's and Dekker's error-free
transformations), so its sign says whether the rounded result lies below or above the exact one. Where the error
cannot be represented (underflow of a product, overflow), the result is moved by one float in the wanted direction in
any case.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "add_down",
    "add_up",
    "mul_down",
    "mul_up",
    "sub_down",
    "sub_up",
    "sum_down",
    "sum_up",
]

Floats = NDArray[np.float64]

_SPLIT = 134217729.0  # 2**27 + 1: halves a 53-bit significand
_LARGE = 2.0**990  # above, splitting overflows
_SMALL = 2.0**-960  # below, the error of a product underflows


def _add(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The rounded sum, and exact sum - rounded sum (NaN after an overflow)."""
    with np.errstate(all="ignore"):
        total = a + b
        part = total - a
        return total, (a - (total - part)) + (b - part)


def _halves(a: Floats) -> tuple[Floats, Floats]:
    big = _SPLIT * a
    high = big - (big - a)
    return high, a - high


def _mul(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The rounded product, and exact product - rounded product (NaN where float64 cannot hold it)."""
    with np.errstate(all="ignore"):
        product = a * b
        (ah, al), (bh, bl) = _halves(a), _halves(b)
        error = ((ah * bh - product) + ah * bl + al * bh) + al * bl
        trusted = (np.abs(a) < _LARGE) & (np.abs(b) < _LARGE) & (np.abs(product) > _SMALL)
        exact = (a == 0) | (b == 0)
        return product, np.where(exact, 0.0, np.where(trusted, error, np.nan))


def _up(value: Floats, error: Floats) -> Floats:
    with np.errstate(all="ignore"):
        return np.where(error <= 0, value, np.nextafter(value, np.inf))


def _down(value: Floats, error: Floats) -> Floats:
    with np.errstate(all="ignore"):
        return np.where(error >= 0, value, np.nextafter(value, -np.inf))


def add_up(a: Floats, b: Floats) -> Floats:
    """The least float64 that is not below a + b, or the one after it."""
    return _up(*_add(a, b))


def add_down(a: Floats, b: Floats) -> Floats:
    """The greatest float64 that is not above a + b, or the one before it."""
    return _down(*_add(a, b))


def sub_up(a: Floats, b: Floats) -> Floats:
    """A float64 that is not below a - b."""
    return add_up(a, np.negative(b))


def sub_down(a: Floats, b: Floats) -> Floats:
    """A float64 that is not above a - b."""
    return add_down(a, np.negative(b))


def mul_up(a: Floats, b: Floats) -> Floats:
    """A float64 that is not below a · b."""
    return _up(*_mul(a, b))


def mul_down(a: Floats, b: Floats) -> Floats:
    """A float64 that is not above a · b."""
    return _down(*_mul(a, b))


def _tree(values: Floats, add: Callable[[Floats, Floats], Floats]) -> Floats:
    """The sum along the last axis, in pairs."""
    while values.shape[-1] > 1:
        half = values.shape[-1] // 2
        paired = add(values[..., :half], values[..., half : 2 * half])
        values = np.concatenate([paired, values[..., 2 * half :]], axis=-1)
    return values[..., 0] if values.shape[-1] else np.zeros(values.shape[:-1])


def sum_up(values: Floats) -> Floats:
    """Floats that are not below the sums along the last axis."""
    return _tree(values, add_up)


def sum_down(values: Floats) -> Floats:
    """Floats that are not above the sums along the last axis."""
    return _tree(values, add_down)
