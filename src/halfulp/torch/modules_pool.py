"""Pooling modules: PyTorch's own classes with our functions behind them, and modules for what PyTorch lacks.

Each class derives from its PyTorch namesake, so constructors, attributes, ``repr`` and ``isinstance`` stay as they are.
"""

from typing import Any

from torch import Tensor, nn

from halfulp.torch import adaptive_avg_pool as adaptive_avg
from halfulp.torch import adaptive_max_pool as adaptive_max
from halfulp.torch import avg_pool, global_pool, max_pool, smooth_max_pool
from halfulp.torch._tracing import Bridged

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "GlobalAvgPool1d",
    "GlobalAvgPool2d",
    "GlobalAvgPool3d",
    "GlobalMaxPool1d",
    "GlobalMaxPool2d",
    "GlobalMaxPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "SmoothMaxPool1d",
    "SmoothMaxPool2d",
    "SmoothMaxPool3d",
]


class _MaxPool(Bridged, nn.Module):
    """The forward that the three max poolings share."""

    def forward(self, input: Tensor) -> Any:
        """Pool the input; with ``return_indices`` also where the maxima are."""
        return self._call(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )


class MaxPool1d(_MaxPool, nn.MaxPool1d):
    """``torch.nn.MaxPool1d`` by :func:`halfulp.torch.max_pool1d`.

    >>> import torch
    >>> MaxPool1d(2)(torch.tensor([[1.0, 4.0, 2.0, 3.0]]))
    tensor([[4., 3.]])
    """

    _home, _function = max_pool, "max_pool1d"


class MaxPool2d(_MaxPool, nn.MaxPool2d):
    """``torch.nn.MaxPool2d`` by :func:`halfulp.torch.max_pool2d`.

    >>> import torch
    >>> MaxPool2d(2)(torch.arange(16.0).reshape(1, 4, 4))
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """

    _home, _function = max_pool, "max_pool2d"


class MaxPool3d(_MaxPool, nn.MaxPool3d):
    """``torch.nn.MaxPool3d`` by :func:`halfulp.torch.max_pool3d`.

    >>> import torch
    >>> MaxPool3d(2)(torch.arange(8.0).reshape(1, 2, 2, 2))
    tensor([[[[7.]]]])
    """

    _home, _function = max_pool, "max_pool3d"


class AvgPool1d(Bridged, nn.AvgPool1d):
    """``torch.nn.AvgPool1d`` by :func:`halfulp.torch.avg_pool1d`.

    >>> import torch
    >>> AvgPool1d(2)(torch.tensor([[1.0, 4.0, 2.0, 3.0]]))
    tensor([[2.5000, 2.5000]])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The mean of every window."""
        return avg_pool.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )


class _AvgPool(Bridged, nn.Module):
    """The forward that average pooling over two and three axes share."""

    def forward(self, input: Tensor) -> Any:
        """The mean of every window."""
        return self._call(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPool, nn.AvgPool2d):
    """``torch.nn.AvgPool2d`` by :func:`halfulp.torch.avg_pool2d`.

    >>> import torch
    >>> AvgPool2d(2)(torch.arange(4.0).reshape(1, 2, 2))
    tensor([[[1.5000]]])
    """

    _home, _function = avg_pool, "avg_pool2d"


class AvgPool3d(_AvgPool, nn.AvgPool3d):
    """``torch.nn.AvgPool3d`` by :func:`halfulp.torch.avg_pool3d`.

    >>> import torch
    >>> AvgPool3d(2)(torch.arange(8.0).reshape(1, 2, 2, 2))
    tensor([[[[3.5000]]]])
    """

    _home, _function = avg_pool, "avg_pool3d"


class _AdaptiveAvgPool(Bridged, nn.Module):
    def forward(self, input: Tensor) -> Any:
        """The mean of every bin."""
        return self._call(input, self.output_size)


class AdaptiveAvgPool1d(_AdaptiveAvgPool, nn.AdaptiveAvgPool1d):
    """``torch.nn.AdaptiveAvgPool1d`` by :func:`halfulp.torch.adaptive_avg_pool1d`.

    >>> import torch
    >>> AdaptiveAvgPool1d(1)(torch.tensor([[1.0, 2.0]]))
    tensor([[1.5000]])
    """

    _home, _function = adaptive_avg, "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_AdaptiveAvgPool, nn.AdaptiveAvgPool2d):
    """``torch.nn.AdaptiveAvgPool2d`` by :func:`halfulp.torch.adaptive_avg_pool2d`.

    >>> import torch
    >>> AdaptiveAvgPool2d((1, None))(torch.arange(4.0).reshape(1, 2, 2))
    tensor([[[1., 2.]]])
    """

    _home, _function = adaptive_avg, "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_AdaptiveAvgPool, nn.AdaptiveAvgPool3d):
    """``torch.nn.AdaptiveAvgPool3d`` by :func:`halfulp.torch.adaptive_avg_pool3d`.

    >>> import torch
    >>> AdaptiveAvgPool3d(1)(torch.arange(8.0).reshape(1, 2, 2, 2))
    tensor([[[[3.5000]]]])
    """

    _home, _function = adaptive_avg, "adaptive_avg_pool3d"


class _AdaptiveMaxPool(Bridged, nn.Module):
    def forward(self, input: Tensor) -> Any:
        """The maximum of every bin; with ``return_indices`` also where it is."""
        return self._call(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPool, nn.AdaptiveMaxPool1d):
    """``torch.nn.AdaptiveMaxPool1d`` by :func:`halfulp.torch.adaptive_max_pool1d`.

    >>> import torch
    >>> AdaptiveMaxPool1d(1)(torch.tensor([[1.0, 2.0]]))
    tensor([[2.]])
    """

    _home, _function = adaptive_max, "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxPool, nn.AdaptiveMaxPool2d):
    """``torch.nn.AdaptiveMaxPool2d`` by :func:`halfulp.torch.adaptive_max_pool2d`.

    >>> import torch
    >>> AdaptiveMaxPool2d(1)(torch.arange(4.0).reshape(1, 2, 2))
    tensor([[[3.]]])
    """

    _home, _function = adaptive_max, "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMaxPool, nn.AdaptiveMaxPool3d):
    """``torch.nn.AdaptiveMaxPool3d`` by :func:`halfulp.torch.adaptive_max_pool3d`.

    >>> import torch
    >>> AdaptiveMaxPool3d(1)(torch.arange(8.0).reshape(1, 2, 2, 2))
    tensor([[[[7.]]]])
    """

    _home, _function = adaptive_max, "adaptive_max_pool3d"


class _SmoothMaxPool(Bridged, nn.Module):
    """A smooth max of any rank, with the parameters of :class:`halfulp.SmoothMaxPool`."""

    def __init__(
        self,
        kernel_size: Any,
        beta: float,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size, self.beta, self.stride = kernel_size, beta, kernel_size if stride is None else stride
        self.padding, self.dilation, self.ceil_mode = padding, dilation, ceil_mode

    def forward(self, input: Tensor) -> Any:
        """The smooth maximum of every window."""
        return self._call(input, self.kernel_size, self.beta, self.stride, self.padding, self.dilation, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, beta={self.beta}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class SmoothMaxPool1d(_SmoothMaxPool):
    """Smooth max pooling by :func:`halfulp.torch.smooth_max_pool1d`.

    >>> import torch
    >>> SmoothMaxPool1d(2, beta=1.0)(torch.zeros(1, 2))
    tensor([[0.6931]])
    """

    _home, _function = smooth_max_pool, "smooth_max_pool1d"


class SmoothMaxPool2d(_SmoothMaxPool):
    """Smooth max pooling by :func:`halfulp.torch.smooth_max_pool2d`.

    >>> SmoothMaxPool2d(2, beta=1.0)
    SmoothMaxPool2d(kernel_size=2, beta=1.0, stride=2, padding=0, dilation=1, ceil_mode=False)
    """

    _home, _function = smooth_max_pool, "smooth_max_pool2d"


class SmoothMaxPool3d(_SmoothMaxPool):
    """Smooth max pooling by :func:`halfulp.torch.smooth_max_pool3d`.

    >>> import torch
    >>> SmoothMaxPool3d(2, beta=3.0)(torch.zeros(1, 2, 2, 2))
    tensor([[[[0.6931]]]])
    """

    _home, _function = smooth_max_pool, "smooth_max_pool3d"


class _GlobalPool(Bridged, nn.Module):
    """One window over every spatial cell."""

    def __init__(self, keepdims: bool = True) -> None:
        super().__init__()
        self.keepdims = keepdims

    def forward(self, input: Tensor) -> Any:
        """Pool every plane to one cell."""
        return self._call(input, self.keepdims)

    def extra_repr(self) -> str:
        return f"keepdims={self.keepdims}"


class GlobalAvgPool1d(_GlobalPool):
    """The mean of every row, by :func:`halfulp.torch.global_avg_pool1d`.

    >>> import torch
    >>> GlobalAvgPool1d()(torch.tensor([[1.0, 2.0]]))
    tensor([[1.5000]])
    """

    _home, _function = global_pool, "global_avg_pool1d"


class GlobalAvgPool2d(_GlobalPool):
    """The mean of every plane, by :func:`halfulp.torch.global_avg_pool2d`.

    >>> import torch
    >>> GlobalAvgPool2d(keepdims=False)(torch.arange(4.0).reshape(1, 2, 2))
    tensor([1.5000])
    """

    _home, _function = global_pool, "global_avg_pool2d"


class GlobalAvgPool3d(_GlobalPool):
    """The mean of every volume, by :func:`halfulp.torch.global_avg_pool3d`.

    >>> import torch
    >>> GlobalAvgPool3d(keepdims=False)(torch.arange(8.0).reshape(1, 2, 2, 2))
    tensor([3.5000])
    """

    _home, _function = global_pool, "global_avg_pool3d"


class GlobalMaxPool1d(_GlobalPool):
    """The maximum of every row, by :func:`halfulp.torch.global_max_pool1d`.

    >>> import torch
    >>> GlobalMaxPool1d()(torch.tensor([[1.0, 2.0]]))
    tensor([[2.]])
    """

    _home, _function = global_pool, "global_max_pool1d"


class GlobalMaxPool2d(_GlobalPool):
    """The maximum of every plane, by :func:`halfulp.torch.global_max_pool2d`.

    >>> import torch
    >>> GlobalMaxPool2d(keepdims=False)(torch.arange(4.0).reshape(1, 2, 2))
    tensor([3.])
    """

    _home, _function = global_pool, "global_max_pool2d"


class GlobalMaxPool3d(_GlobalPool):
    """The maximum of every volume, by :func:`halfulp.torch.global_max_pool3d`.

    >>> import torch
    >>> GlobalMaxPool3d(keepdims=False)(torch.arange(8.0).reshape(1, 2, 2, 2))
    tensor([7.])
    """

    _home, _function = global_pool, "global_max_pool3d"
