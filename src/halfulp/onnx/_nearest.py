"""Correct rounding of functions that halfulp's kernels do not have: a float64 estimate decides nearly every element.

An estimate with an error bound decides an element where both ends of its interval round to the same float. The rest
is evaluated exactly: as a rational where the value is one, else with balls of growing precision, which must end because
an irrational number is never half-way between two floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from halfulp.numbers import Format, float_format, on_grid, round_ball


def nearest(
    estimate: NDArray[np.float64],
    error: NDArray[np.float64],
    dtype: Any,
    exactly: Callable[[int, Format], float],
    stands: NDArray[np.bool_],
) -> NDArray[Any]:
    """The estimate rounded to ``dtype``; elements it does not decide are ``exactly(flat index in C order, format)``.

    Where ``stands`` is set, the element is made of NaN or infinities, and the estimate is its value. An estimate that
    overflows for another reason decides nothing. ``error`` is an absolute bound; an infinite one decides nothing.
    The result is C-ordered, whatever the layout of the estimate.
    """
    target = float_format(dtype)
    stands = np.broadcast_to(stands, estimate.shape)
    with np.errstate(all="ignore"):
        low = on_grid(np.nextafter(estimate - error, -np.inf), target)
        high = on_grid(np.nextafter(estimate + error, np.inf), target)
        decided = (low == high) & (np.signbit(low) == np.signbit(high)) & np.isfinite(estimate)
        # reshape(-1) copies what is not C-ordered, so the flat result is made first and shaped last
        flat = np.where(stands, estimate, low).astype(target.dtype, order="C").reshape(-1)
    if target.precision == 53:
        decided = np.zeros_like(decided)  # the estimate has no digits to spare
    for index in np.flatnonzero(~decided & ~stands):
        flat[index] = exactly(int(index), target)
    return flat.reshape(estimate.shape)


def odd_sum(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """a + b; a sum that float64 does not hold gets an odd last bit, so that one more rounding rounds the exact sum."""
    total = a + b
    other = total - a
    error = (a - (total - other)) + (b - other)
    even = (total.view(np.int64) & 1) == 0
    nudged = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where((error != 0) & even & np.isfinite(total), nudged, total)


def by_balls(ball: Callable[[], Any], target: Format) -> float:
    """Round an irrational number that ``ball`` encloses at flint's working precision, whatever that is."""
    precision = 128
    while True:
        with flint.ctx.workprec(precision):
            result = round_ball(ball(), target)
        if result is not None:
            return result
        precision *= 2


def rationals(values: Iterable[float]) -> list[Any]:
    """Finite floats as exact rationals."""
    return [flint.fmpq(*float(value).as_integer_ratio()) for value in values]
