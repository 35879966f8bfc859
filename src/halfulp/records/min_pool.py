"""The record of hard min pooling."""

from __future__ import annotations

from dataclasses import dataclass

from halfulp.records import _arguments as arguments
from halfulp.records._declaration import NAN_DRAWN, Draw, declare
from halfulp.records._window import SlidingOperator


@dataclass(frozen=True, repr=False, eq=False)
class MinPool(SlidingOperator):
    """The smallest real cell of every window; padding is ignored, and a window without a real cell is 0.

    ``ties`` and ``nan`` are those of :class:`MaxPool`: a minimum is the negative of the maximum of the negatives.

    >>> import numpy as np
    >>> MinPool((2,), stride=1)(np.array([3.0, 1.0, 1.0, 2.0]))
    array([1., 1., 1.])
    >>> output, pullback = MinPool((2,), stride=1).vjp(np.array([3.0, 1.0, 1.0, 2.0]))
    >>> pullback(np.array([1.0, 10.0, 100.0]))
    (array([  0.,  11., 100.,   0.]),)
    """

    ties: str = "first"
    nan: str = "propagate"


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
