"""The record of adaptive max pooling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from halfulp.records import _arguments as arguments
from halfulp.records._base import PerAxis, hashed_once
from halfulp.records._declaration import NAN_DRAWN, Draw, declare
from halfulp.records.adaptive_pool import AdaptiveOperator


@hashed_once
@dataclass(frozen=True, repr=False)
class AdaptiveMaxPool(AdaptiveOperator):
    """The maximum of every bin; ``output_size`` is the number of bins, None keeps the size of an axis.

    >>> import numpy as np
    >>> AdaptiveMaxPool((2,))(np.array([1.0, 2.0, 6.0]))
    array([2., 6.])
    """

    output_size: PerAxis
    ties: str = "first"
    nan: str = "propagate"

    base_name: ClassVar[str] = "adaptive_max_pool"

    def __post_init__(self) -> None:
        self._normalise_output_size()
        arguments.choice(self.name, "ties", self.ties, arguments.TIES, "P1")
        arguments.choice(self.name, "nan", self.nan, arguments.NAN, "P2")


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
