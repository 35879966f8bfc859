"""The records of global pooling: one window over everything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from halfulp.errors import ShapeError
from halfulp.records import _arguments as arguments
from halfulp.records._base import Operator, Shape, is_integer, split_spatial
from halfulp.records._declaration import NAN_DRAWN, Draw, declare
from halfulp.records._missing import normalise_policies


class GlobalOperator(Operator):
    """An operator over all cells of the last ``ndim`` axes."""

    ndim: Any
    keepdims: bool

    def __post_init__(self) -> None:
        if not is_integer(self.ndim) or self.ndim < 1:
            raise ShapeError(self.base_name, f"ndim={self.ndim!r}", "must be an integer >= 1", "G1")
        object.__setattr__(self, "ndim", int(self.ndim))
        object.__setattr__(self, "keepdims", arguments.flag(self.name, "keepdims", self.keepdims))
        normalise_policies(self)

    def output_shape(self, *input_shapes: Shape) -> Shape:
        leading, spatial = split_spatial(self.name, input_shapes, self.ndim)
        return leading + ((1,) * len(spatial) if self.keepdims else ())


@dataclass(frozen=True, repr=False, eq=False)
class GlobalAvgPool(GlobalOperator):
    """The mean of all cells; ``keepdims`` keeps every spatial axis with size 1.

    ``dtype`` is the element type of the result: the exact mean is rounded once, to nearest even, into any integer or
    float type that can hold it; ``"same"`` keeps the input's. Integers and bool need it. ``nan`` is ``"propagate"``,
    ``"ignore"`` (the mean of the cells that are numbers; NaN if there is none) or ``"raise"``.

    >>> import numpy as np
    >>> GlobalAvgPool(2)(np.array([[1.0, 2.0], [3.0, 6.0]]))
    array([[3.]])
    """

    ndim: int
    keepdims: bool = True
    dtype: Any = None
    nan: str = "propagate"


@dataclass(frozen=True, repr=False, eq=False)
class GlobalMaxPool(GlobalOperator):
    """The maximum of all cells; by default every maximiser gets the full cotangent (``ties="all"``).

    >>> import numpy as np
    >>> output, pullback = GlobalMaxPool(1).vjp(np.array([3.0, 1.0, 3.0]))
    >>> pullback(np.array([1.0]))
    (array([1., 0., 1.]),)
    """

    ndim: int
    keepdims: bool = True
    ties: str = "all"
    nan: str = "propagate"


@dataclass(frozen=True, repr=False, eq=False)
class GlobalMinPool(GlobalOperator):
    """The minimum of all cells; by default every minimiser gets the full cotangent (``ties="all"``).

    >>> import numpy as np
    >>> output, pullback = GlobalMinPool(1).vjp(np.array([1.0, 3.0, 1.0]))
    >>> pullback(np.array([1.0]))
    (array([1., 0., 1.]),)
    """

    ndim: int
    keepdims: bool = True
    ties: str = "all"
    nan: str = "propagate"


declare(
    GlobalAvgPool,
    kind="linear",
    curvature="linear",
    draw=Draw("global"),
    keywords=("dtype", "nan"),
    summary="The mean over the last ``ndim`` axes, correctly rounded; ``keepdims`` keeps them with size 1",
    note="See :class:`halfulp.GlobalAvgPool` for ``dtype`` and ``nan``.",
    torch=False,
    onnx=("GlobalAveragePool",),
)
declare(
    GlobalMaxPool,
    kind="selecting",
    curvature="none",
    draw=Draw("global", ties=arguments.TIES, nan=NAN_DRAWN),
    integers=True,
    keywords=("ties", "nan"),
    summary="The maximum over the last ``ndim`` axes; ``keepdims`` keeps them with size 1",
    torch=False,
    onnx=("GlobalMaxPool",),
)


declare(
    GlobalMinPool,
    kind="selecting",
    curvature="none",
    draw=Draw("global", ties=arguments.TIES, nan=NAN_DRAWN),
    integers=True,
    keywords=("ties", "nan"),
    summary="The minimum over the last ``ndim`` axes; ``keepdims`` keeps them with size 1",
    torch=False,
)
