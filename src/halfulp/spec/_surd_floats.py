"""Float arrays of operators with square roots: lift to numbers with roots, evaluate, round once. Exact zeros are +0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from halfulp.numbers import as_doubles, float_format
from halfulp.numbers._surds import Surd
from halfulp.spec._scalars import filled

Array = np.ndarray[Any, Any]


def lifted(array: Array | None) -> Array | None:
    """The numbers that floats mean; objects stay as they are."""
    if array is None or array.dtype.kind == "O":
        return array
    return filled(array.shape, [Surd.of(v) for v in as_doubles(array).ravel().tolist()])


def over_floats(compute: Callable[..., tuple[Any, ...]], dtype: Any, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """The results of ``compute`` on lifted arrays, each rounded once; None stays None."""
    target = float_format(dtype)
    results = compute(*(lifted(array) for array in arrays))
    return tuple(None if result is None else _rounded(result, target) for result in results)


def _rounded(result: Array, target: Any) -> Array:
    floats = [value.rounded(target) for value in result.ravel().tolist()]
    with np.errstate(over="ignore"):
        return np.asarray(np.array(floats, dtype=np.float64).astype(target.dtype).reshape(result.shape))
