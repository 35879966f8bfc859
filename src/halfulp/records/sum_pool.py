"""The record of sum pooling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from halfulp.records._base import PaddingLike, PerAxis, hashed_once
from halfulp.records._declaration import Draw, declare
from halfulp.records._window import WindowOperator


@hashed_once
@dataclass(frozen=True, repr=False)
class SumPool(WindowOperator):
    """The sum of every window; padded cells are zeros.

    >>> import numpy as np
    >>> SumPool((2,), stride=1)(np.array([1.0, 2.0, 4.0]))
    array([3., 6.])
    """

    kernel_size: PerAxis
    stride: PerAxis = None
    padding: PaddingLike = 0
    dilation: PerAxis = 1
    ceil_mode: bool = False

    base_name: ClassVar[str] = "sum_pool"

    def __post_init__(self) -> None:
        self._normalise_window()


declare(
    SumPool,
    kind="linear",
    curvature="linear",
    draw=Draw("window"),
    summary="The sum of every window, correctly rounded",
    torch=False,
)
