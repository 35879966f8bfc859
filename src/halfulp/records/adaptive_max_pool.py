"""The record of adaptive max pooling."""

from __future__ import annotations

from dataclasses import dataclass

from halfulp.records import _arguments as arguments
from halfulp.records._base import PerAxis
from halfulp.records._declaration import NAN_DRAWN, Draw, declare
from halfulp.records.adaptive_pool import AdaptiveOperator


@dataclass(frozen=True, repr=False, eq=False)
class AdaptiveMaxPool(AdaptiveOperator):
    """The maximum of every bin; ``output_size`` is the number of bins, None keeps the size of an axis.

    >>> import numpy as np
    >>> AdaptiveMaxPool((2,))(np.array([1.0, 2.0, 6.0]))
    array([2., 6.])
    """

    output_size: PerAxis
    ties: str = "first"
    nan: str = "propagate"


declare(
    AdaptiveMaxPool,
    kind="selecting",
    curvature="none",
    draw=Draw("adaptive", ties=arguments.TIES, nan=NAN_DRAWN),
    integers=True,
    indices=True,
    keywords=("ties", "nan"),
    summary="The maximum of ``output_size`` bins; None keeps the size of an axis",
)
