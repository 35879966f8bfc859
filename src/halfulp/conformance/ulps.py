"""Differences between floats, counted in floats.

The distance of two floats is the number of steps from one to the other along the ordered floats of their type; one step
is one ulp. The correctly rounded value has distance 0, the float beside it distance 1, and infinity is one step past
the largest finite float.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from halfulp.records import Array

__all__ = ["BUCKETS", "Difference", "compare", "distance", "same_bits"]

BUCKETS: Final = 10
"""Buckets of an error histogram: 0, 1, 2, 3-4, 5-8, … ulps; the last holds everything larger."""

_UNSIGNED: Final = {2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True)
class Difference:
    """How an answer differs from the right one, element by element."""

    elements: int
    correct: int
    histogram: tuple[int, ...]
    worst: float = 0.0
    nan: int = 0
    infinity: int = 0
    zero: int = 0
    value: int = 0
    position: tuple[int, ...] | None = None

    @property
    def same(self) -> bool:
        """Whether every element is right."""
        return self.correct == self.elements


def same_bits(a: Array, b: Array) -> bool:
    """Same shape, type and bits; any NaN equals any NaN.

    >>> same_bits(np.array([0.0]), np.array([-0.0])), same_bits(np.array([np.nan]), np.array([-np.nan]))
    (False, True)
    """
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.tobytes() == b.tobytes():
        return True
    if a.dtype.kind in "iub":
        return False
    wrong = _bits(a) != _bits(b)
    return not bool(np.any(wrong & ~(np.isnan(a) & np.isnan(b))))


def _bits(array: Array) -> Array:
    bits: Array = np.ascontiguousarray(array).view(_UNSIGNED[array.dtype.itemsize]).reshape(array.shape)
    return bits


def distance(a: Array, b: Array) -> Array:
    """The distance of floats of one type, elementwise, as uint64; NaN has no place in the order and counts as 0.

    >>> distance(np.array([1.0]), np.array([1.0 + 2**-52]))
    array([1], dtype=uint64)
    >>> distance(np.array([-0.0]), np.array([0.0]))
    array([0], dtype=uint64)
    """
    sign = 1 << (8 * a.dtype.itemsize - 1)
    bits_a, bits_b = _bits(a).astype(np.uint64), _bits(b).astype(np.uint64)
    size_a, size_b = bits_a & np.uint64(sign - 1), bits_b & np.uint64(sign - 1)
    opposite = (bits_a ^ bits_b) >= np.uint64(sign)
    steps = np.where(opposite, size_a + size_b, np.maximum(size_a, size_b) - np.minimum(size_a, size_b))
    counted: Array = np.where(np.isnan(a) | np.isnan(b), np.uint64(0), steps)
    return counted


def histogram_of(steps: Array) -> tuple[int, ...]:
    """Counts of distances by bucket.

    >>> histogram_of(np.array([0, 1, 4, 5], np.uint64))
    (1, 1, 0, 1, 1, 0, 0, 0, 0, 0)
    """
    edges = np.array([0, 1, 2, *(2**i for i in range(2, BUCKETS - 2))], np.uint64)  # the largest of each bucket
    buckets = np.searchsorted(edges, steps.ravel(), side="left")
    return tuple(int(n) for n in np.bincount(np.minimum(buckets, BUCKETS - 1), minlength=BUCKETS))


def compare(got: Array, want: Array) -> Difference:
    """Compare an answer with the right one, both of the same shape and type.

    >>> compare(np.array([1.0, np.inf]), np.array([1.0, 2.0])).infinity
    1
    """
    count = int(want.size)
    if got.tobytes() == want.tobytes():
        return Difference(count, count, (count, *(0,) * (BUCKETS - 1)))
    if want.dtype.kind in "iub":
        return _compare_integers(got, want)
    with np.errstate(invalid="ignore"):
        return _compare_floats(got, want)


def _compare_integers(got: Array, want: Array) -> Difference:
    wrong = got != want
    steps = np.array([abs(int(g) - int(w)) for g, w in zip(got.ravel(), want.ravel(), strict=True)], dtype=float)
    number = int(wrong.sum())
    return Difference(
        want.size,
        want.size - number,
        histogram_of(np.minimum(steps, 2.0**62).astype(np.uint64)),
        worst=float(steps.max(initial=0.0)),
        value=number,
        position=_first(wrong, steps.reshape(want.shape)),
    )


def _compare_floats(got: Array, want: Array) -> Difference:
    got_nan, want_nan = np.isnan(got), np.isnan(want)
    wrong = (_bits(got) != _bits(want)) & ~(got_nan & want_nan)
    nan = wrong & (got_nan != want_nan)
    infinity = wrong & ~nan & (np.isinf(got) | np.isinf(want))
    zero = wrong & (got == 0) & (want == 0)
    value = wrong & ~nan & ~infinity & ~zero
    steps = np.where(value, distance(got, want), np.uint64(0))
    severity = np.where(nan | infinity, np.inf, steps.astype(float))
    return Difference(
        want.size,
        int(want.size - wrong.sum()),
        histogram_of(steps[~(nan | infinity)]),
        worst=float(steps.max(initial=0)),
        nan=int(nan.sum()),
        infinity=int(infinity.sum()),
        zero=int(zero.sum()),
        value=int(value.sum()),
        position=_first(wrong, severity),
    )


def _first(wrong: Array, severity: Array) -> tuple[int, ...] | None:
    """The position of the worst element, the first one among equals."""
    if not wrong.any():
        return None
    ranked: Any = np.where(wrong, severity, -1.0)
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(ranked)), wrong.shape))
