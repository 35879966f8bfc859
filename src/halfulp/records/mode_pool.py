"""The record of mode pooling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from halfulp.records import _arguments as arguments
from halfulp.records._base import PaddingLike, PerAxis, hashed_once
from halfulp.records._declaration import NAN_DRAWN, Draw, declare
from halfulp.records._window import WindowOperator


@hashed_once
@dataclass(frozen=True, repr=False)
class ModePool(WindowOperator):
    """The most frequent value of the real cells of every window, the smallest if there are several: for label images.

    Padding is ignored, and a window without a real cell is 0. +0 and -0 are equal. The derivative is that of the first
    cell with this value. ``nan`` is that of :class:`MaxPool`.

    >>> import numpy as np
    >>> ModePool((3,))(np.array([7, 2, 2, 9, 8, 7], np.uint16))
    array([2, 7], dtype=uint16)
    """

    kernel_size: PerAxis
    stride: PerAxis = None
    padding: PaddingLike = 0
    dilation: PerAxis = 1
    ceil_mode: bool = False
    nan: str = "propagate"

    base_name: ClassVar[str] = "mode_pool"

    def __post_init__(self) -> None:
        self._normalise_window()
        arguments.choice(self.name, "nan", self.nan, arguments.NAN, "P2")


declare(
    ModePool,
    kind="selecting",
    curvature="none",
    draw=Draw("window", nan=NAN_DRAWN),
    integers=True,
    keywords=("nan",),
    summary="The most frequent value of every window's real cells, the smallest if there are several",
    note="See :class:`halfulp.ModePool` for ``nan``.",
    torch=False,
)
