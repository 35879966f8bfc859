"""The record of adaptive average pooling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from halfulp.records._base import PerAxis
from halfulp.records._declaration import Draw, declare
from halfulp.records.adaptive_pool import AdaptiveOperator


@dataclass(frozen=True, repr=False, eq=False)
class AdaptiveAvgPool(AdaptiveOperator):
    """The mean of every bin; ``output_size`` is the number of bins, None keeps the size of an axis.

    ``dtype`` is the element type of the result: the exact mean is rounded once, to nearest even, into any integer or
    float type that can hold it; ``"same"`` keeps the input's. Integers and bool need it. ``nan`` is ``"propagate"``,
    ``"ignore"`` (the mean of the cells that are numbers; NaN where a window has none) or ``"raise"``.

    >>> import numpy as np
    >>> AdaptiveAvgPool((2,))(np.array([1.0, 2.0, 6.0]))
    array([1.5, 4. ])
    """

    output_size: PerAxis
    dtype: Any = None
    nan: str = "propagate"


declare(
    AdaptiveAvgPool,
    kind="linear",
    curvature="linear",
    draw=Draw("adaptive"),
    keywords=("dtype", "nan"),
    summary="The mean of ``output_size`` bins, correctly rounded; None keeps the size of an axis",
    note="See :class:`halfulp.AdaptiveAvgPool` for ``dtype`` and ``nan``.",
)
