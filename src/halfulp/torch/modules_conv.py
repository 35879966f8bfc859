"""Convolution modules: PyTorch's own classes, parameters and state dicts, with our functions behind them.

``precision`` is the only addition to the constructors; it is not part of a state dict.
"""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from halfulp.errors import PolicyError
from halfulp.torch._errors import as_torch_error
from halfulp.torch._tracing import Bridged

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

PRECISIONS = ("correct", "fast")


class _Precise(Bridged, nn.Module):
    """A convolution with a choice of precision."""

    precision = "correct"

    def __init__(self, *arguments: Any, precision: str = "correct", **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        check_precision(type(self).__name__, precision)
        self.precision = precision

    def extra_repr(self) -> str:
        shown: str = super().extra_repr()
        return shown if self.precision == "correct" else f"{shown}, precision={self.precision!r}"


class _Conv(_Precise):
    """The forward of a convolution."""

    weight: Any
    bias: Any
    stride: Any
    padding: Any
    padding_mode: Any
    dilation: Any
    groups: Any
    _reversed_padding_repeated_twice: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
        *,
        precision: str = "correct",
    ) -> None:
        settings = (stride, padding, dilation, groups, bias, padding_mode, device, dtype)
        super().__init__(in_channels, out_channels, kernel_size, *settings, precision=precision)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":  # PyTorch pads such inputs itself
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = 0
        output: Tensor = self._call(
            input, weight, bias, self.stride, padding, self.dilation, self.groups, precision=self.precision
        )
        return output

    def forward(self, input: Tensor) -> Tensor:
        """Convolve the input."""
        return self._conv_forward(input, self.weight, self.bias)


class _ConvTranspose(_Precise):
    """The forward of a transposed convolution."""

    kernel_size: Any
    _output_padding: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
        *,
        precision: str = "correct",
    ) -> None:
        settings = (stride, padding, output_padding, groups, bias, dilation, padding_mode, device, dtype)
        super().__init__(in_channels, out_channels, kernel_size, *settings, precision=precision)

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        """Convolve; ``output_size`` chooses among the sizes that the stride leaves open."""
        extra = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, len(self.kernel_size), self.dilation
        )
        settings = (self.stride, self.padding, extra, self.groups, self.dilation)
        output: Tensor = self._call(input, self.weight, self.bias, *settings, precision=self.precision)
        return output


def check_precision(operator: str, precision: Any) -> None:
    """One of the two words."""
    if precision not in PRECISIONS:
        error = PolicyError(operator, f"precision={precision!r}", "must be one of 'correct', 'fast'", "P4")
        raise as_torch_error(error)


class Conv1d(_Conv, nn.Conv1d):
    """``torch.nn.Conv1d`` by :func:`halfulp.torch.conv1d`.

    >>> Conv1d(3, 8, 5, padding="same")
    Conv1d(3, 8, kernel_size=(5,), stride=(1,), padding=same)
    """

    _function = "conv1d"


class Conv2d(_Conv, nn.Conv2d):
    """``torch.nn.Conv2d`` by :func:`halfulp.torch.conv2d`.

    >>> import torch
    >>> ours, theirs = Conv2d(3, 8, 3), torch.nn.Conv2d(3, 8, 3)
    >>> ours.load_state_dict(theirs.state_dict())
    <All keys matched successfully>
    """

    _function = "conv2d"


class Conv3d(_Conv, nn.Conv3d):
    """``torch.nn.Conv3d`` by :func:`halfulp.torch.conv3d`.

    >>> Conv3d(1, 2, 3, precision="fast")
    Conv3d(1, 2, kernel_size=(3, 3, 3), stride=(1, 1, 1), precision='fast')
    """

    _function = "conv3d"


class ConvTranspose1d(_ConvTranspose, nn.ConvTranspose1d):
    """``torch.nn.ConvTranspose1d`` by :func:`halfulp.torch.conv_transpose1d`.

    >>> import torch
    >>> ConvTranspose1d(1, 1, 3, stride=2)(torch.zeros(1, 4), output_size=[10]).shape
    torch.Size([1, 10])
    """

    _function = "conv_transpose1d"


class ConvTranspose2d(_ConvTranspose, nn.ConvTranspose2d):
    """``torch.nn.ConvTranspose2d`` by :func:`halfulp.torch.conv_transpose2d`.

    >>> import torch
    >>> ConvTranspose2d(2, 1, 3)(torch.zeros(2, 4, 4)).shape
    torch.Size([1, 6, 6])
    """

    _function = "conv_transpose2d"


class ConvTranspose3d(_ConvTranspose, nn.ConvTranspose3d):
    """``torch.nn.ConvTranspose3d`` by :func:`halfulp.torch.conv_transpose3d`.

    >>> import torch
    >>> ConvTranspose3d(2, 1, 2)(torch.zeros(2, 1, 1, 1)).shape
    torch.Size([1, 2, 2, 2])
    """

    _function = "conv_transpose3d"
