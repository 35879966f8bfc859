"""What the records with a sliding window share: the fields' normal form and the output's shape."""

from __future__ import annotations

from typing import Any, ClassVar

from halfulp.geometry import Axis, Padding, window_axes
from halfulp.records import _arguments as arguments
from halfulp.records._base import Operator, Shape, ranked, split_spatial


class WindowOperator(Operator):
    """An operator that slides a window over the last axes. A mixin without fields: each record lists its own."""

    base_name: ClassVar[str]
    kernel_size: Any
    stride: Any
    padding: Any
    dilation: Any
    ceil_mode: bool

    @property
    def ndim(self) -> int:
        """The number of spatial axes."""
        return len(self.kernel_size)

    @property
    def name(self) -> str:
        return ranked(self.base_name, self.ndim)

    def _normalise_window(self) -> None:
        """Check the window's fields and bring them to their normal form: tuples of ints, pairs of padding."""
        given: dict[str, Any] = {"kernel_size": self.kernel_size, "stride": self.stride}
        given |= {"padding": self.padding, "dilation": self.dilation}
        ndim = arguments.rank_of(self.base_name, **given)
        name = ranked(self.base_name, ndim)
        kernel = arguments.per_axis(name, "kernel_size", self.kernel_size, ndim, 1, "W1")
        stride = kernel if self.stride is None else arguments.per_axis(name, "stride", self.stride, ndim, 1, "W3")
        padding: Padding = arguments.padding_of(name, self.padding, ndim)
        dilation = arguments.per_axis(name, "dilation", self.dilation, ndim, 1, "W4")
        ceil_mode = arguments.flag(name, "ceil_mode", self.ceil_mode)
        for field, value in (
            ("kernel_size", kernel),
            ("stride", stride),
            ("padding", padding),
            ("dilation", dilation),
            ("ceil_mode", ceil_mode),
        ):
            object.__setattr__(self, field, value)

    def axes(self, spatial: Shape) -> tuple[Axis, ...]:
        """The window's axes on an input with these spatial sizes."""
        return window_axes(
            self.name, spatial, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode
        )

    def output_shape(self, *input_shapes: Shape) -> Shape:
        leading, spatial = split_spatial(self.name, input_shapes, self.ndim)
        return leading + tuple(axis.output_size for axis in self.axes(spatial))

    def _is_default(self, name: str, value: Any, default: Any) -> bool:
        if name == "stride":  # None means the kernel size
            return bool(value == self.kernel_size)
        return super()._is_default(name, value, default)
