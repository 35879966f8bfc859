"""Numbers by label: each label is a kind of input that implementations often get wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np

from halfulp.records import Array, Shape

__all__ = ["FILLINGS", "LONG_SUMS", "TELLING", "TROUBLESOME", "filled"]

Generator = np.random.Generator


def float_limits(dtype: Any) -> Any:
    """The limits of a float type, bfloat16 included.

    >>> float(float_limits("float16").max)
    65504.0
    """
    return _finfo(dtype)


_finfo: Any = ml_dtypes.finfo  # without type annotations of its own


def normal(shape: Shape, dtype: np.dtype[Any], rng: Generator) -> Array:
    """Standard normal numbers."""
    return rng.standard_normal(shape).astype(dtype)


def integers(shape: Shape, dtype: np.dtype[Any], rng: Generator) -> Array:
    """Integers from -4 to 4: sums and products of them are exact in every float type."""
    return rng.integers(-4, 5, shape).astype(dtype)


def ties(shape: Shape, dtype: np.dtype[Any], rng: Generator) -> Array:
    """Two values only, so that most windows have several equal maxima."""
    return rng.choice([1.0, 1.0, 2.0], shape).astype(dtype)


def constant(shape: Shape, dtype: np.dtype[Any], rng: Generator) -> Array:
    """One value everywhere."""
    return np.full(shape, rng.choice([-1.5, -1.0, 0.5, 3.0])).astype(dtype)


def negative(shape: Shape, dtype: np.dtype[Any], rng: Generator) -> Array:
    """Negative numbers only: padding that counts as zero would win a maximum."""
    return (-1 - np.abs(rng.integers(0, 16, shape)) / 8).astype(dtype)


def signed_zeros(shape: Shape, dtype: np.dtype[Any], rng: Generator) -> Array:
    """+0 and -0, rarely anything else."""
    return rng.choice([0.0, -0.0, -0.0, -1.0], shape, p=[0.4, 0.3, 0.2, 0.1]).astype(dtype)


def nan(shape: Shape, dtype: np.dtype[Any], rng: Generator) -> Array:
    """Small integers with a NaN in some places."""
    return np.where(rng.random(shape) < 0.15, np.nan, rng.integers(-4, 5, shape)).astype(dtype)


def infinities(shape: Shape, dtype: np.dtype[Any], rng: Generator) -> Array:
    """Small integers with +inf, -inf and zeros among them."""
    special = rng.choice([np.inf, -np.inf, 0.0, -0.0], shape)
    return np.where(rng.random(shape) < 0.2, special, rng.integers(-4, 5, shape)).astype(dtype)


def subnormals(shape: Shape, dtype: np.dtype[Any], rng: Generator) -> Array:
    """Numbers below the smallest normal one."""
    tiny = float(float_limits(dtype).smallest_normal)
    return np.asarray(rng.uniform(-1, 1, shape) * tiny).astype(dtype)


def overflow(shape: Shape, dtype: np.dtype[Any], rng: Generator) -> Array:
    """Numbers near the largest finite one: sums of them leave the range."""
    largest = float(float_limits(dtype).max)
    return (rng.choice([1.0, 1.0, -1.0], shape) * rng.uniform(0.5, 1, shape) * largest).astype(dtype)


def cancellation(shape: Shape, dtype: np.dtype[Any], rng: Generator) -> Array:
    """Large numbers of both signs that nearly cancel, over small ones that remain."""
    scale = 2.0 ** (float_limits(dtype).nmant - 1)
    large = rng.choice([scale, -scale, 0.0], shape)
    return (large + rng.standard_normal(shape)).astype(dtype)


def rounding_boundary(shape: Shape, dtype: np.dtype[Any], rng: Generator) -> Array:
    """Numbers whose sums and means fall on, or next to, the middle between two floats."""
    step = 2.0 ** -(int(float_limits(dtype).nmant) + 1)
    return rng.choice([1.0, 1.0 + 2 * step, step, -step, 3 * step, 0.5], shape).astype(dtype)


def wide_range(shape: Shape, dtype: np.dtype[Any], rng: Generator) -> Array:
    """Exponents over a large part of the range."""
    limits = float_limits(dtype)
    low, high = int(limits.minexp) // 2, int(limits.maxexp) // 2
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(
            rng.uniform(1, 2, shape) * rng.choice([1.0, -1.0], shape) * 2.0 ** rng.integers(low, high, shape)
        ).astype(dtype)


def minus_infinity(shape: Shape, dtype: np.dtype[Any], rng: Generator) -> Array:
    """Mostly -inf: a maximum that starts from -inf must still find its winner."""
    return np.where(rng.random(shape) < 0.75, -np.inf, rng.integers(-4, 1, shape)).astype(dtype)


def powers_of_two(shape: Shape, dtype: np.dtype[Any], rng: Generator) -> Array:
    """Powers of two of both signs: products are exact, sums are not."""
    reach = int(float_limits(dtype).nmant) // 2 + 1
    return np.asarray(rng.choice([1.0, -1.0], shape) * 2.0 ** rng.integers(-reach, reach, shape)).astype(dtype)


def large_integers(shape: Shape, dtype: np.dtype[Any], rng: Generator) -> Array:
    """Integers that use every bit of the mantissa: sums of them must round."""
    top = 2 ** (int(float_limits(dtype).nmant) + 1)
    return rng.integers(top // 2, top, shape).astype(dtype)


def one_infinity(shape: Shape, dtype: np.dtype[Any], rng: Generator) -> Array:
    """One infinity among ordinary numbers without zeros: a long sum that meets it is infinite, and not NaN."""
    made = np.asarray(rng.choice([1.0, -1.0], shape) * rng.integers(1, 5, shape)).astype(dtype)
    if made.size:
        made.flat[int(rng.integers(made.size))] = rng.choice([np.inf, -np.inf])
    return made


def overflow_on_the_way(shape: Shape, dtype: np.dtype[Any], rng: Generator) -> Array:
    """Large numbers, two positive ones and then two negative ones: sums of many are finite, sums of some are not."""
    largest = float(float_limits(dtype).max)
    signs = np.resize([1.0, 1.0, -1.0, -1.0], shape)
    return np.asarray(signs * rng.uniform(0.5, 0.75, shape) * largest).astype(dtype)


def signs(shape: Shape, dtype: np.dtype[Any], rng: Generator) -> Array:
    """Ones, few of them negative: weights that keep the size of what they meet."""
    return rng.choice([1.0, 1.0, 1.0, -1.0], shape).astype(dtype)


FILLINGS: Final[dict[str, Callable[[Shape, np.dtype[Any], Generator], Array]]] = {
    "normal": normal,
    "integers": integers,
    "ties": ties,
    "constant": constant,
    "negative": negative,
    "signed zeros": signed_zeros,
    "NaN": nan,
    "infinities": infinities,
    "subnormals": subnormals,
    "overflow": overflow,
    "cancellation": cancellation,
    "rounding boundary": rounding_boundary,
    "wide range": wide_range,
    "minus infinity": minus_infinity,
    "powers of two": powers_of_two,
    "large integers": large_integers,
    "one infinity": one_infinity,
    "overflow on the way": overflow_on_the_way,
}
"""Label -> the function that makes the numbers."""

TELLING: Final = ("normal", "integers", "large integers", "powers of two")
"""Fillings in which almost any wrong element shows."""

TROUBLESOME: Final = tuple(label for label in FILLINGS if label not in TELLING)
"""Fillings with a kind of trouble, which may hide another."""

LONG_SUMS: Final = ("normal", "one infinity", "large integers", "overflow on the way", "integers", "cancellation")
"""Fillings for sums of many terms."""

_WEIGHT: Final[dict[str, Callable[[Shape, np.dtype[Any], Generator], Array]]] = {
    "one infinity": signs,
    "overflow on the way": signs,
}
"""Where weights like the input would turn every sum into NaN: what they are instead."""

_DERIVATIVE: Final = {
    "ties": "integers",
    "constant": "integers",
    "negative": "integers",
    "NaN": "integers",
    "minus infinity": "integers",
    "one infinity": "integers",
}
"""Where the trouble is in the choice of a winner, tangents and cotangents are small integers, whose sums are exact."""


def filled(
    label: str, shape: Shape, dtype: np.dtype[Any], rng: Generator, derivative: bool = False, weight: bool = False
) -> Array:
    """An array of this shape and element type, filled by a label.

    ``derivative`` is for tangents and cotangents, ``weight`` for the inputs after the first.

    >>> filled("ties", (3,), np.dtype("float32"), np.random.default_rng(0)).dtype
    dtype('float32')
    """
    if dtype.kind in "iub":
        return _whole_numbers(label, shape, dtype, rng)
    if weight and label in _WEIGHT:
        return _WEIGHT[label](shape, dtype, rng)
    return FILLINGS[_DERIVATIVE.get(label, label) if derivative else label](shape, dtype, rng)


def _whole_numbers(label: str, shape: Shape, dtype: np.dtype[Any], rng: Generator) -> Array:
    """Integers of an integer type: few values for ties, else the ends of the range and all between."""
    limits = np.iinfo(dtype)
    if label in ("ties", "constant", "signed zeros"):
        return rng.choice(np.array([1, 1, 2], dtype), shape)
    if label in ("overflow", "infinities", "wide range"):
        return rng.choice(np.array([limits.min, limits.min + 1, 0, limits.max - 1, limits.max], dtype), shape)
    return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
