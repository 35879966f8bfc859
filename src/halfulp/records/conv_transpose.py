"""The record of transposed convolution."""

from __future__ import annotations

from dataclasses import dataclass

from halfulp.errors import ShapeError
from halfulp.geometry import Axis
from halfulp.records import _arguments as arguments
from halfulp.records._base import PaddingLike, PerAxis, Shape
from halfulp.records._declaration import Draw, declare
from halfulp.records.conv import ConvolutionOperator, _three


@dataclass(frozen=True, repr=False, eq=False)
class ConvTranspose(ConvolutionOperator):
    """The transpose of a convolution in its input: weight (inC, outC/groups, k…), bias (outC) or None.

    An axis of the output has (in - 1) * stride - before - after + dilation * (k - 1) + output_padding + 1 cells.
    ``padding="same"`` makes it in * stride.

    >>> import numpy as np
    >>> ConvTranspose(1)(np.array([[1.0, 2.0]]), np.array([[[1.0, 10.0]]]))
    array([[ 1., 12., 20.]])
    """

    ndim: int
    stride: PerAxis = 1
    padding: PaddingLike = 0
    output_padding: PerAxis = 0
    dilation: PerAxis = 1
    groups: int = 1
    precision: str = "correct"

    def __post_init__(self) -> None:
        self._normalise_convolution()
        extra = arguments.per_axis(self.name, "output_padding", self.output_padding, self.ndim, 0, "T1")
        object.__setattr__(self, "output_padding", extra)
        for e, s, d in zip(extra, self.stride, self.dilation, strict=True):
            if e >= max(s, d):
                raise ShapeError(
                    self.name,
                    f"output_padding={extra}",
                    f"must be smaller than the stride {self.stride} or the dilation {self.dilation}",
                    "T1",
                )

    def axes(self, spatial: Shape, kernel: Shape) -> tuple[Axis, ...]:
        """The axes of the convolution that this is the transpose of: its input is our output."""
        axes = []
        for i, (n, k) in enumerate(zip(spatial, kernel, strict=True)):
            s, d, extra = self.stride[i], self.dilation[i], self.output_padding[i]
            span = (n - 1) * s + d * (k - 1) + 1 + extra
            before, after = self._pair(i, span - n * s)
            axes.append(Axis(span - before - after, k, s, before, after, d))
        sizes = tuple(axis.size for axis in axes)
        if min(sizes) < 1:
            raise ShapeError(
                self.name,
                f"input shape=(…, {', '.join(map(str, spatial))})",
                f"would give an output of size {sizes}",
                "T2",
            )
        if max(axis.padded_size + axis.extent for axis in axes) >= arguments.LARGEST:
            raise ShapeError(
                self.name, f"output shape=(…, {', '.join(map(str, sizes))})", "every size must be below 2**60", "I7"
            )
        return tuple(axes)

    def _pair(self, axis: int, surplus: int) -> tuple[int, int]:
        """The padding that is cut off the output along one axis; ``surplus`` is what "same" cuts."""
        padding = self.padding
        if not isinstance(padding, str):
            before, after = padding[axis]
            return int(before), int(after)
        if padding == "valid":
            return 0, 0
        if surplus < 0:
            raise ShapeError(
                self.name,
                f"padding={padding!r}",
                f"needs a kernel that spans the stride {self.stride}; raise output_padding by {-surplus}",
                "T2",
            )
        small, large = surplus // 2, surplus - surplus // 2
        return (small, large) if padding == "same" else (large, small)

    def output_shape(self, *input_shapes: Shape | None) -> Shape:
        x, weight, bias = _three(self.name, input_shapes)
        self._check_shapes(x, weight)
        leading, channels, spatial = x[: -self.ndim - 1], x[-self.ndim - 1], x[-self.ndim :]
        in_channels, out_per_group, *kernel = weight
        if in_channels != channels:
            raise ShapeError(
                self.name,
                f"weight shape={weight}",
                f"takes {in_channels} input channels, but the input has {channels}",
                "C4",
            )
        if in_channels % self.groups:
            raise ShapeError(self.name, f"groups={self.groups}", f"must divide the {channels} input channels", "C3")
        self._check_bias(bias, out_per_group * self.groups)
        axes = self.axes(spatial, tuple(kernel))
        return (*leading, out_per_group * self.groups, *(axis.size for axis in axes))


declare(
    ConvTranspose,
    kind="bilinear",
    curvature="bilinear",
    draw=Draw("conv_transpose"),
    optional=1,
    keywords=("precision",),
    order=("stride", "padding", "output_padding", "groups", "dilation"),
    summary='The transpose of a convolution in its input, correctly rounded unless ``precision="fast"``',
    note="``input`` is (inC, …) or (N, inC, …), ``weight`` (inC, outC/groups, k…), ``bias`` (outC) or None.",
    examples=(
        "np.array([[1.0, 2.0]]), np.array([[[1.0, 10.0]]])",
        "np.array([[1.0, 2.0]]), np.array([[[1.0, 10.0]]]), stride=2",
        "np.ones((1, 1, 1)), np.arange(4.0).reshape(1, 1, 2, 2)",
        "np.ones((1, 1, 1, 1)), np.ones((1, 1, 1, 1, 2))",
    ),
    onnx=("ConvTranspose",),
)
