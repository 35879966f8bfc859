"""The record of hard min pooling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from halfulp.records import _arguments as arguments
from halfulp.records._base import PaddingLike, PerAxis, hashed_once
from halfulp.records._declaration import NAN_DRAWN, Draw, declare
from halfulp.records._window import WindowOperator


@hashed_once
@dataclass(frozen=True, repr=False)
class MinPool(WindowOperator):
    """The smallest real cell of every window; padding is ignored, and a window without a real cell is 0.

    ``ties`` and ``nan`` are those of :class:`MaxPool`: a minimum is the negative of the maximum of the negatives.

    >>> import numpy as np
    >>> MinPool((2,), stride=1)(np.array([3.0, 1.0, 1.0, 2.0]))
    array([1., 1., 1.])
    >>> output, pullback = MinPool((2,), stride=1).vjp(np.array([3.0, 1.0, 1.0, 2.0]))
    >>> pullback(np.array([1.0, 10.0, 100.0]))
    (array([  0.,  11., 100.,   0.]),)
    """

    kernel_size: PerAxis
    stride: PerAxis = None
    padding: PaddingLike = 0
    dilation: PerAxis = 1
    ceil_mode: bool = False
    ties: str = "first"
    nan: str = "propagate"

    base_name: ClassVar[str] = "min_pool"

    def __post_init__(self) -> None:
        self._normalise_window()
        arguments.choice(self.name, "ties", self.ties, arguments.TIES, "P1")
        arguments.choice(self.name, "nan", self.nan, arguments.NAN, "P2")


declare(
    MinPool,
    kind="selecting",
    curvature="none",
    draw=Draw("window", ties=arguments.TIES, nan=NAN_DRAWN),
    integers=True,
    indices=True,
    keywords=("ties", "nan"),
    summary="The smallest real cell of every window",
    note="See :class:`halfulp.MaxPool` for ``ties`` and ``nan``.",
    torch=False,
)
