"""The records of unfold and fold: windows as columns of a matrix, and the sum back into planes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from halfulp.errors import ShapeError
from halfulp.geometry import Axis
from halfulp.records import _arguments as arguments
from halfulp.records._base import Operator, PaddingLike, PerAxis, Shape
from halfulp.records._declaration import Draw, declare
from halfulp.records._window import WindowOperator


class PatchOperator(WindowOperator):
    """What unfold and fold share: (…, C, spatial) on one side, (…, C * cells of the window, windows) on the other."""

    ceil_mode = False

    @property
    def name(self) -> str:
        return self.base_name

    def columns(self, planes: Shape) -> Shape:
        """The shape of the windows of an array of this shape."""
        if len(planes) <= self.ndim:
            text = f"must be (…, channels, spatial) with {self.ndim} spatial axes"
            raise ShapeError(self.name, f"input shape={planes}", text, "K1")
        *leading, channels = planes[: len(planes) - self.ndim]
        axes = self.axes(planes[len(planes) - self.ndim :])
        return (*leading, channels * prod(self.kernel_size), prod(axis.output_size for axis in axes))

    def _is_default(self, name: str, value: Any, default: Any) -> bool:
        return Operator._is_default(self, name, value, default)


@dataclass(frozen=True, repr=False, eq=False)
class Unfold(PatchOperator):
    """Every window as a column: (…, C, spatial) becomes (…, C * cells of the window, windows). Padding is zeros.

    >>> import numpy as np
    >>> Unfold((2,))(np.array([[1.0, 2.0, 3.0]]))
    array([[1., 2.],
           [2., 3.]])
    """

    kernel_size: PerAxis
    dilation: PerAxis = 1
    padding: PaddingLike = 0
    stride: PerAxis = 1

    def __post_init__(self) -> None:
        self._normalise_window()

    def output_shape(self, *input_shapes: Shape) -> Shape:
        if len(input_shapes) != 1:
            raise ShapeError(self.name, f"{len(input_shapes)} inputs", "takes one input", "I3")
        return self.columns(tuple(input_shapes[0]))


@dataclass(frozen=True, repr=False, eq=False)
class Fold(PatchOperator):
    """The transpose of unfold: every cell is the sum of the columns' entries for it, 0 if no window holds it.

    >>> import numpy as np
    >>> Fold((3,), (2,))(np.array([[1.0, 2.0], [2.0, 3.0]]))
    array([[1., 4., 3.]])
    """

    output_size: PerAxis
    kernel_size: PerAxis
    dilation: PerAxis = 1
    padding: PaddingLike = 0
    stride: PerAxis = 1

    def __post_init__(self) -> None:
        arguments.rank_of(self.base_name, output_size=self.output_size, kernel_size=self.kernel_size)
        if not arguments.is_sequence(self.kernel_size):
            object.__setattr__(self, "kernel_size", (self.kernel_size,) * len(self.output_size))
        self._normalise_window()
        sizes = arguments.per_axis(self.name, "output_size", self.output_size, self.ndim, 0, "K1")
        object.__setattr__(self, "output_size", sizes)

    @property
    def output_axes(self) -> tuple[Axis, ...]:
        """The windows' axes on the output."""
        return self.axes(self.output_size)

    def output_shape(self, *input_shapes: Shape) -> Shape:
        if len(input_shapes) != 1:
            raise ShapeError(self.name, f"{len(input_shapes)} inputs", "takes one input", "I3")
        shape = tuple(input_shapes[0])
        cells, windows = prod(self.kernel_size), prod(axis.output_size for axis in self.output_axes)
        if len(shape) < 2 or shape[-2] % cells or shape[-1] != windows:
            size = self.output_size
            text = f"must be (…, channels * {cells}, {windows}): the cells of a window, and the windows of {size}"
            raise ShapeError(self.name, f"input shape={shape}", text, "K1")
        return (*shape[:-2], shape[-2] // cells, *self.output_size)


def _drawn(choose: Any) -> tuple[Unfold, tuple[Shape, ...]]:
    """Windows that fit, over one or two axes."""
    ndim = choose((1, 2))
    kernel, dilation = (choose((1, 2, 3)),) * ndim, (choose((1, 2)),) * ndim
    padding, stride = choose((0, 1)), choose((1, 2))
    least = max(1, dilation[0] * (kernel[0] - 1) + 1 - 2 * padding)
    sizes = tuple(least + choose((0, 1, 2)) for _ in range(ndim))
    return Unfold(kernel, dilation, padding, stride), ((*choose(((), (2,))), choose((1, 2)), *sizes),)


def _folded(choose: Any) -> tuple[Fold, tuple[Shape, ...]]:
    """The columns of such windows."""
    op, (shape,) = _drawn(choose)
    fold = Fold(shape[len(shape) - op.ndim :], op.kernel_size, op.dilation, op.padding, op.stride)
    return fold, (op.output_shape(shape),)


declare(
    Unfold,
    kind="linear",
    curvature="linear",
    draw=Draw(_drawn),
    integers=True,
    ranks=(),
    default_rank=2,
    planar=False,
    summary="Every window as a column: (…, C, spatial) becomes (…, C * cells of the window, windows)",
    note="An integer kernel size means two axes, as in PyTorch.",
    examples=("np.arange(9.0).reshape(1, 3, 3), 2",),
)
declare(
    Fold,
    kind="linear",
    curvature="linear",
    draw=Draw(_folded),
    ranks=(),
    default_rank=2,
    planar=False,
    summary="The transpose of :func:`unfold`: every cell is the sum of the columns' entries for it",
    note="Integers for both sizes mean two axes, as in PyTorch.",
    examples=("np.ones((4, 4)), 3, 2",),
)
