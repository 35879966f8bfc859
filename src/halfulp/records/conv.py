"""The record of convolution (cross-correlation)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from halfulp.errors import ShapeError
from halfulp.geometry import Axis, window_axes
from halfulp.records import _arguments as arguments
from halfulp.records._base import Operator, PaddingLike, PerAxis, Shape, is_integer, ranked
from halfulp.records._declaration import Draw, declare


class ConvolutionOperator(Operator):
    """What convolution and transposed convolution share: inputs (x, weight, bias or None) and their checks."""

    arity: ClassVar[int] = 3
    ndim: Any
    stride: Any
    padding: Any
    dilation: Any
    groups: Any
    precision: str

    def _normalise_convolution(self) -> None:
        if not is_integer(self.ndim) or self.ndim < 1:
            raise ShapeError(self.base_name, f"ndim={self.ndim!r}", "must be an integer >= 1", "G1")
        ndim = int(self.ndim)
        name = ranked(self.base_name, ndim)
        if not is_integer(self.groups) or self.groups < 1:
            raise ShapeError(name, f"groups={self.groups!r}", "must be an integer >= 1", "C3")
        arguments.choice(name, "precision", self.precision, arguments.PRECISION, "P4")
        for field, value in (
            ("ndim", ndim),
            ("stride", arguments.per_axis(name, "stride", self.stride, ndim, 1, "W3")),
            ("padding", arguments.padding_of(name, self.padding, ndim)),
            ("dilation", arguments.per_axis(name, "dilation", self.dilation, ndim, 1, "W4")),
            ("groups", int(self.groups)),
        ):
            object.__setattr__(self, field, value)

    def _check_shapes(self, x: Shape, weight: Shape) -> None:
        """The rules on ranks and kernel sizes that both directions share."""
        ndim = self.ndim
        if len(x) not in (ndim + 1, ndim + 2):
            raise ShapeError(
                self.name,
                f"input shape={x}",
                f"must be (channels, …) or (batch, channels, …) with {ndim} spatial axes",
                "C1",
            )
        if len(weight) != ndim + 2:
            raise ShapeError(
                self.name, f"weight shape={weight}", f"must have {ndim + 2} axes, {ndim} of them spatial", "C2"
            )
        if min(weight[2:]) < 1:
            raise ShapeError(self.name, f"weight shape={weight}", "every kernel size must be >= 1", "C2")

    def _check_bias(self, bias: Shape | None, channels: int) -> None:
        if bias is not None and bias != (channels,):
            raise ShapeError(
                self.name, f"bias shape={bias}", f"must be ({channels},), one per output channel, or None", "C5"
            )


@dataclass(frozen=True, repr=False, eq=False)
class Conv(ConvolutionOperator):
    """Convolution (cross-correlation, as usual in networks): weight (outC, inC/groups, k…), bias (outC) or None.

    ``precision="correct"`` rounds the exact value once; ``"fast"`` accumulates in the input's own precision (half types
    in float32).

    >>> import numpy as np
    >>> Conv(1)(np.array([[1.0, 2.0, 4.0]]), np.array([[[1.0, 10.0]]]))
    array([[21., 42.]])
    """

    ndim: int
    stride: PerAxis = 1
    padding: PaddingLike = 0
    dilation: PerAxis = 1
    groups: int = 1
    precision: str = "correct"

    def __post_init__(self) -> None:
        self._normalise_convolution()

    def axes(self, spatial: Shape, kernel: Shape) -> tuple[Axis, ...]:
        """The window's axes on an input with these spatial sizes."""
        return window_axes(self.name, spatial, kernel, self.stride, self.padding, self.dilation)

    def output_shape(self, *input_shapes: Shape | None) -> Shape:
        x, weight, bias = _three(self.name, input_shapes)
        self._check_shapes(x, weight)
        leading, channels, spatial = x[: -self.ndim - 1], x[-self.ndim - 1], x[-self.ndim :]
        out_channels, channels_per_group, *kernel = weight
        if out_channels % self.groups:
            raise ShapeError(
                self.name, f"groups={self.groups}", f"must divide the {out_channels} output channels", "C3"
            )
        if channels_per_group * self.groups != channels:
            raise ShapeError(
                self.name,
                f"weight shape={weight}",
                f"takes {channels_per_group} * {self.groups} (groups) = {channels_per_group * self.groups} input "
                f"channels, but the input has {channels}",
                "C4",
            )
        self._check_bias(bias, out_channels)
        axes = self.axes(spatial, tuple(kernel))
        return (*leading, out_channels, *(axis.output_size for axis in axes))


def _three(operator: str, shapes: tuple[Shape | None, ...]) -> tuple[Shape, Shape, Shape | None]:
    """(x, weight, bias or None) shapes; the bias may be left out."""
    if len(shapes) not in (2, 3) or shapes[0] is None or shapes[1] is None:
        raise ShapeError(operator, f"{len(shapes)} inputs", "takes x, weight and optionally a bias", "I3")
    bias = shapes[2] if len(shapes) == 3 else None
    return tuple(shapes[0]), tuple(shapes[1]), None if bias is None else tuple(bias)


declare(
    Conv,
    kind="bilinear",
    curvature="bilinear",
    draw=Draw("conv"),
    optional=1,
    keywords=("precision",),
    summary='Cross-correlation over the last ``weight.ndim - 2`` axes, correctly rounded unless ``precision="fast"``',
    note="``input`` is (inC, …) or (N, inC, …), ``weight`` (outC, inC/groups, k…), ``bias`` (outC) or None.",
    examples=(
        "np.array([[1.0, 2.0, 4.0]]), np.array([[[1.0, 10.0]]])",
        "np.array([[1.0, 2.0, 4.0]]), np.array([[[1.0, 10.0]]]), bias=np.array([100.0])",
        "np.ones((1, 3, 3)), np.ones((1, 1, 2, 2))",
        "np.ones((1, 2, 2, 2)), np.ones((1, 1, 2, 2, 2))",
    ),
    onnx=("Conv",),
)
