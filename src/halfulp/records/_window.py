"""What the records with a sliding window share: the fields' normal form and the output's shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from halfulp.geometry import Axis, Padding, window_axes
from halfulp.records import _arguments as arguments
from halfulp.records._base import Operator, PaddingLike, PerAxis, Shape, ranked, split_spatial
from halfulp.records._missing import normalise_policies


class WindowOperator(Operator):
    """A window that slides over the last axes. It has no fields of its own; :class:`SlidingOperator` has."""

    kernel_size: Any
    stride: Any
    padding: Any
    dilation: Any
    ceil_mode: bool

    @property
    def ndim(self) -> int:
        """The number of spatial axes."""
        return len(self.kernel_size)

    def __post_init__(self) -> None:
        self._normalise_window()
        normalise_policies(self)

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
        values = (kernel, stride, padding, dilation, ceil_mode)
        for field, value in zip(("kernel_size", "stride", "padding", "dilation", "ceil_mode"), values, strict=True):
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


@dataclass(frozen=True, repr=False, eq=False)
class SlidingOperator(WindowOperator):
    """The arguments of most poolings, in their order; a record that derives from it adds its own after them."""

    kernel_size: PerAxis
    stride: PerAxis = None
    padding: PaddingLike = 0
    dilation: PerAxis = 1
    ceil_mode: bool = False
