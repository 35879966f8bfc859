"""Windows by enumeration, for tests: every cell of every window is looked at, in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from halfulp.errors import HalfulpError

Array = np.ndarray[Any, Any]


class Cells(NamedTuple):
    """The values of a window in row-major order, and how many of its cells lie in the padding."""

    values: list[Any]
    padded: int


def enumerated(x: Array, op: Any) -> Iterator[tuple[tuple[int, ...], Cells]]:
    """(position of the output, cells of its window) for a sliding window with padding in numbers."""
    leading = x.ndim - op.ndim
    shape = op.output_shape(x.shape)
    for position in np.ndindex(*shape):
        values, padded = [], 0
        for offset in product(*(range(k) for k in op.kernel_size)):
            at = [
                o * s - before + w * d
                for o, s, (before, _), w, d in zip(
                    position[leading:], op.stride, op.padding, offset, op.dilation, strict=True
                )
            ]
            sizes = x.shape[leading:]
            if all(0 <= i < n for i, n in zip(at, sizes, strict=True)):
                values.append(x[(*position[:leading], *at)].item())
            elif all(-b <= i < n + a for i, n, (b, a) in zip(at, sizes, op.padding, strict=True)):
                padded += 1
        yield position, Cells(values, padded)


def nearest(value: Fraction, dtype: np.dtype[Any]) -> Any:
    """The nearest number of an integer type or float64, ties to even; None if it does not fit."""
    if dtype.kind == "f":
        assert dtype == np.float64
        return value.numerator / value.denominator  # correctly rounded by Python
    low, high = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    whole = round(value)
    return whole if low <= whole <= high else None


def attempt(call: Callable[[], Any]) -> tuple[Any, HalfulpError | None]:
    """(the result, None), or (None, the refusal)."""
    try:
        return call(), None
    except HalfulpError as error:
        return None, error
