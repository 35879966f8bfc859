"""The record of median pooling."""

from __future__ import annotations

from dataclasses import dataclass

from halfulp.records._declaration import NAN_DRAWN, Draw, declare
from halfulp.records._window import SlidingOperator


@dataclass(frozen=True, repr=False, eq=False)
class MedianPool(SlidingOperator):
    """The median of the real cells of every window; of an even number of cells the mean of the middle two.

    That mean is rounded once, to nearest even, into the type of the input, integers and bool included. Padding is
    ignored, and a window without a real cell is 0. The middle cell gets the cotangent, the middle two half of it each;
    equal cells are taken in row-major order. ``nan`` is that of :class:`MaxPool`; the first NaN of a window gets the
    cotangent.

    >>> import numpy as np
    >>> MedianPool((3,), stride=1)(np.array([3.0, 9.0, 1.0, 2.0]))
    array([3., 2.])
    >>> MedianPool((2,))(np.array([1, 2, 2, 3], np.uint8))
    array([2, 2], dtype=uint8)
    >>> output, pullback = MedianPool((4,)).vjp(np.array([3.0, 9.0, 1.0, 2.0]))
    >>> pullback(np.array([1.0]))
    (array([0.5, 0. , 0. , 0.5]),)
    """

    nan: str = "propagate"


declare(
    MedianPool,
    kind="selecting",
    curvature="none",
    draw=Draw("window", nan=NAN_DRAWN),
    integers=True,
    keywords=("nan",),
    summary="The median of the real cells of every window, of an even number the mean of the middle two",
    note="See :class:`halfulp.MedianPool` for ``nan``.",
    torch=False,
)
