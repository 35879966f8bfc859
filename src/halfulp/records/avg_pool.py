"""The record of average pooling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from halfulp.errors import PolicyError
from halfulp.records import _arguments as arguments
from halfulp.records._base import PaddingLike, PerAxis, is_integer
from halfulp.records._declaration import Draw, declare
from halfulp.records._window import WindowOperator


@dataclass(frozen=True, repr=False, eq=False)
class AvgPool(WindowOperator):
    """The mean of every window. Padded zeros are counted, unless ``count_include_pad=False``.

    ``divisor_override`` replaces the number of cells that the sum is divided by. Cells that only ``ceil_mode`` reaches,
    beyond the padding, are never counted. An average over no cell is 0.

    ``dtype`` is the element type of the result: the exact mean is rounded once, to nearest even, into any integer or
    float type that can hold it; ``"same"`` keeps the input's. Integers and bool need it. ``nan`` is ``"propagate"``,
    ``"ignore"`` (the mean of the cells that are numbers; NaN where a window has none) or ``"raise"``.

    >>> import numpy as np
    >>> AvgPool((2,), padding=1)(np.array([2.0, 4.0]))
    array([1., 2.])
    >>> AvgPool((2,), padding=1, count_include_pad=False)(np.array([2.0, 4.0]))
    array([2., 4.])
    >>> AvgPool((2,), dtype="same")(np.array([255, 254, 1, 2], np.uint8))
    array([254,   2], dtype=uint8)
    >>> AvgPool((2,), nan="ignore")(np.array([2.0, np.nan, np.nan, np.nan]))
    array([ 2., nan])
    """

    kernel_size: PerAxis
    stride: PerAxis = None
    padding: PaddingLike = 0
    ceil_mode: bool = False
    count_include_pad: bool = True
    divisor_override: int | None = None
    dilation: PerAxis = 1
    dtype: Any = None
    nan: str = "propagate"

    def __post_init__(self) -> None:
        super().__post_init__()
        include = arguments.flag(self.name, "count_include_pad", self.count_include_pad)
        object.__setattr__(self, "count_include_pad", include)
        divisor = self.divisor_override
        if divisor is None:
            return
        if not is_integer(divisor) or divisor == 0 or abs(divisor) >= 2**63:
            raise PolicyError(
                self.name,
                f"divisor_override={divisor!r}",
                "must be None or an integer other than 0, below 2**63 in size",
                "A1",
            )
        object.__setattr__(self, "divisor_override", int(divisor))


declare(
    AvgPool,
    kind="linear",
    curvature="linear",
    draw=Draw("window", count_include_pad=(True, False), divisor_override=(None, 3, 7, -2)),
    keywords=("dilation", "dtype", "nan"),
    summary="The mean of every window, correctly rounded",
    note="See :class:`halfulp.AvgPool` for what is counted, ``dtype`` and ``nan``.",
    onnx=("AveragePool",),
)
