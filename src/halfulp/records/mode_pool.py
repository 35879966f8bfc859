"""The record of mode pooling."""

from __future__ import annotations

from dataclasses import dataclass

from halfulp.records._declaration import NAN_DRAWN, Draw, declare
from halfulp.records._window import SlidingOperator


@dataclass(frozen=True, repr=False, eq=False)
class ModePool(SlidingOperator):
    """The most frequent value of the real cells of every window, the smallest if there are several: for label images.

    Padding is ignored, and a window without a real cell is 0. +0 and -0 are equal. The derivative is that of the first
    cell with this value. ``nan`` is that of :class:`MaxPool`.

    >>> import numpy as np
    >>> ModePool((3,))(np.array([7, 2, 2, 9, 8, 7], np.uint16))
    array([2, 7], dtype=uint16)
    """

    nan: str = "propagate"


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
