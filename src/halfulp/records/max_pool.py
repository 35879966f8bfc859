"""The record of hard max pooling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from halfulp.records import _arguments as arguments
from halfulp.records._base import PaddingLike, PerAxis, hashed_once
from halfulp.records._declaration import NAN_DRAWN, Draw, declare
from halfulp.records._window import WindowOperator


@hashed_once
@dataclass(frozen=True, repr=False)
class MaxPool(WindowOperator):
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

    kernel_size: PerAxis
    stride: PerAxis = None
    padding: PaddingLike = 0
    dilation: PerAxis = 1
    ceil_mode: bool = False
    ties: str = "first"
    nan: str = "propagate"

    base_name: ClassVar[str] = "max_pool"

    def __post_init__(self) -> None:
        self._normalise_window()
        arguments.choice(self.name, "ties", self.ties, arguments.TIES, "P1")
        arguments.choice(self.name, "nan", self.nan, arguments.NAN, "P2")


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
