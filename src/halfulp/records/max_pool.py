"""The record of hard max pooling."""

from __future__ import annotations

from dataclasses import dataclass

from halfulp.records import _arguments as arguments
from halfulp.records._declaration import NAN_DRAWN, Draw, declare
from halfulp.records._window import SlidingOperator


@dataclass(frozen=True, repr=False, eq=False)
class MaxPool(SlidingOperator):
    """The largest real cell of every window; padding is ignored, and a window without a real cell is 0.

    ``ties`` says which of several equal maxima win the derivative: ``"first"`` in row-major order, ``"last"``,
    ``"all"`` (each gets the full cotangent) or ``"split"`` (they share it evenly). ``nan`` says what a NaN does:
    ``"propagate"``, ``"ignore"`` (unless the window has nothing else) or ``"raise"``.

    >>> import numpy as np
    >>> MaxPool((2,), stride=1)(np.array([1.0, 3.0, 3.0, 2.0]))
    array([3., 3., 3.])
    >>> output, pullback = MaxPool((2,), stride=1).vjp(np.array([1.0, 3.0, 3.0, 2.0]))
    >>> pullback(np.array([1.0, 10.0, 100.0]))
    (array([  0.,  11., 100.,   0.]),)
    """

    ties: str = "first"
    nan: str = "propagate"


declare(
    MaxPool,
    kind="selecting",
    curvature="none",
    draw=Draw("window", ties=arguments.TIES, nan=NAN_DRAWN),
    integers=True,
    indices=True,
    keywords=("ties", "nan"),
    summary="The largest real cell of every window",
    note="See :class:`halfulp.MaxPool` for ``ties`` and ``nan``.",
    onnx=("MaxPool",),
)
