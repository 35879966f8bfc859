"""The record of sum pooling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from halfulp.records._declaration import Draw, declare
from halfulp.records._window import SlidingOperator


@dataclass(frozen=True, repr=False, eq=False)
class SumPool(SlidingOperator):
    """The sum of every window; padded cells are zeros.

    ``dtype`` is the element type of the result: the exact sum is rounded once, to nearest even, into any integer or
    float type that can hold it; ``"same"`` keeps the input's. Integers and bool need it. ``nan`` is ``"propagate"``,
    ``"ignore"`` (the sum of the cells that are numbers; NaN where a window has none) or ``"raise"``.

    A sum that the type cannot hold is an error; it never wraps around.

    >>> import numpy as np
    >>> SumPool((2,), stride=1)(np.array([1.0, 2.0, 4.0]))
    array([3., 6.])
    >>> SumPool((2,), dtype="uint16")(np.array([255, 255], np.uint8))
    array([510], dtype=uint16)
    """

    dtype: Any = None
    nan: str = "propagate"


declare(
    SumPool,
    kind="linear",
    curvature="linear",
    draw=Draw("window"),
    keywords=("dtype", "nan"),
    summary="The sum of every window, correctly rounded",
    note="See :class:`halfulp.SumPool` for ``dtype`` and ``nan``.",
    torch=False,
)
