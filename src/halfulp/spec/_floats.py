"""Float arrays in the specification: lift exactly, evaluate, round once.

Finite floats are rationals. Rationals know no sign of zero, so where a zero goes in and a zero comes out the
evaluation is repeated over extended reals, which do; so it is where an infinity or NaN goes in. A sum that cancels is
+0, which is the zero that rationals round to, unless the operator divides by a negative number.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from halfulp.numbers import Extended, as_doubles, exact, lift, rounded
from halfulp.records import AvgPool, Operator
from halfulp.records._missing import does_not_fit, output_dtype

Array = np.ndarray[Any, Any]
Arrays = tuple[Array | None, ...]


def over_floats(op: Operator, compute: Callable[..., Arrays], arrays: Arrays) -> Arrays:
    """The results of ``compute`` on lifted arrays, rounded to the operator's dtype; None stays None."""
    present = [array for array in arrays if array is not None]
    dtype = output_dtype(op, present[0].dtype)
    if present[0].dtype.kind in "iub":
        results = compute(
            *(None if a is None else exact(a.astype(np.int64) if a.dtype.kind == "b" else a) for a in arrays)
        )
        return tuple(None if r is None else rounded_into(op, r, dtype) for r in results)
    doubles = [as_doubles(array) for array in present]
    if all(np.isfinite(d).all() for d in doubles):
        results = compute(*(None if a is None else exact(a) for a in arrays))
        signs_matter = _divides_by_negative(op) or any((d == 0).any() for d in doubles)
        if not (signs_matter and any(_has_zero(r) for r in results)):
            return _rounded(op, results, dtype)
    return _rounded(op, compute(*(None if a is None else lift(a) for a in arrays)), dtype)


def _divides_by_negative(op: Operator) -> bool:
    return isinstance(op, AvgPool) and op.divisor_override is not None and op.divisor_override < 0


def _has_zero(result: Array | None) -> bool:
    return result is not None and any(value == 0 for value in result.ravel())


def _rounded(op: Operator, results: Arrays, dtype: np.dtype[Any]) -> Arrays:
    return tuple(None if r is None else rounded_into(op, r, dtype) for r in results)


def rounded_into(op: Operator, result: Array, dtype: np.dtype[Any]) -> Array:
    """Exact numbers rounded once, to nearest even; an integer type must hold them."""
    if dtype.kind not in "iub":
        return rounded(result, dtype)
    least, most = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    whole: list[int] = []
    for place, value in enumerate(result.ravel()):
        rational = value.value if isinstance(value, Extended) else value  # None for NaN and infinities
        if rational is None or not least <= (nearest := round(Fraction(int(rational.p), int(rational.q)))) <= most:
            raise does_not_fit(op, place, result.shape, dtype)
        whole.append(nearest)
    integers: Array = np.array(whole, dtype=object).astype(dtype)
    integers.shape = result.shape
    return integers
