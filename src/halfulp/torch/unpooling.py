"""What PyTorch takes in its own way: fractional max pooling, which draws samples, and the modules of unpooling."""

from typing import Any

import torch
from torch import Tensor, nn

from halfulp.records import FractionalMaxPool
from halfulp.torch._arguments import rank_of
from halfulp.torch._bridge import bridge_of
from halfulp.torch._errors import TorchPolicyError
from halfulp.torch._tracing import Bridged

__all__ = [
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
    "fractional_max_pool",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
]

_fractional = bridge_of(FractionalMaxPool)


def _pooled(ndim: int, input: Tensor, kernel: Any, size: Any, ratio: Any, indices: bool, samples: Any) -> Any:
    name = f"fractional_max_pool{ndim}d"
    if (size is None) == (ratio is None):
        raise TorchPolicyError(name, f"output_size={size}, output_ratio={ratio}", "exactly one must be given", "F3")
    if size is None:
        ratios = (ratio,) * ndim if isinstance(ratio, float) else tuple(ratio)
        size = tuple(int(n * r) for n, r in zip(input.shape[-ndim:], ratios, strict=True))
    planes = input.shape[: input.dim() - ndim]
    if samples is None:
        samples = torch.rand(*planes, ndim, dtype=input.dtype, device=input.device)
    elif samples.shape != (*planes, ndim):  # PyTorch gives a single image samples of a batch of one
        samples = samples.reshape(*planes, ndim)
    return _fractional(ndim, (input, samples), indices, kernel, size, "first", "propagate")


def fractional_max_pool(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    *,
    random_samples: Tensor | None = None,
) -> Any:
    """:func:`halfulp.fractional_max_pool` on tensors, over the last ``len(kernel_size)`` axes.

    >>> import torch
    >>> fractional_max_pool(torch.arange(4.0).reshape(1, 4), (2,), (2,), random_samples=torch.zeros(1, 1))
    tensor([[1., 3.]])
    """
    rank = rank_of("fractional_max_pool", "kernel_size", kernel_size)
    return _pooled(rank, input, kernel_size, output_size, output_ratio, return_indices, random_samples)


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
    *,
    random_samples: Tensor | None = None,
) -> Any:
    """``torch.nn.functional.fractional_max_pool2d``; ``random_samples`` is the public name of ``_random_samples``.

    >>> import torch
    >>> fractional_max_pool2d(torch.arange(9.0).reshape(1, 3, 3), 2, 2, random_samples=torch.zeros(1, 2))
    tensor([[[4., 5.],
             [7., 8.]]])
    """
    samples = _random_samples if random_samples is None else random_samples
    return _pooled(2, input, kernel_size, output_size, output_ratio, return_indices, samples)


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
    *,
    random_samples: Tensor | None = None,
) -> Any:
    """``torch.nn.functional.fractional_max_pool3d``; ``random_samples`` is the public name of ``_random_samples``.

    >>> import torch
    >>> fractional_max_pool3d(torch.arange(8.0).reshape(1, 2, 2, 2), 2, 1, random_samples=torch.zeros(1, 3))
    tensor([[[[7.]]]])
    """
    samples = _random_samples if random_samples is None else random_samples
    return _pooled(3, input, kernel_size, output_size, output_ratio, return_indices, samples)


torch.fx.wrap("fractional_max_pool")
torch.fx.wrap("fractional_max_pool2d")
torch.fx.wrap("fractional_max_pool3d")


class _FractionalMaxPool(nn.Module):
    def forward(self, input: Tensor) -> Any:
        """The operator's value; with ``return_indices`` also where it is."""
        function: Any = fractional_max_pool2d if isinstance(self, nn.FractionalMaxPool2d) else fractional_max_pool3d
        return function(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


class FractionalMaxPool2d(_FractionalMaxPool, nn.FractionalMaxPool2d):
    """``torch.nn.FractionalMaxPool2d`` by :func:`halfulp.torch.fractional_max_pool2d`.

    >>> import torch
    >>> FractionalMaxPool2d(2, output_size=1)(torch.arange(4.0).reshape(1, 2, 2))
    tensor([[[3.]]])
    """


class FractionalMaxPool3d(_FractionalMaxPool, nn.FractionalMaxPool3d):
    """``torch.nn.FractionalMaxPool3d`` by :func:`halfulp.torch.fractional_max_pool3d`.

    >>> import torch
    >>> FractionalMaxPool3d(2, output_size=1)(torch.arange(8.0).reshape(1, 2, 2, 2))
    tensor([[[[7.]]]])
    """


class _MaxUnpool(Bridged, nn.Module):
    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Any:
        """Values put back where a max pooling found them."""
        return self._call(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(_MaxUnpool, nn.MaxUnpool1d):
    """``torch.nn.MaxUnpool1d`` by :func:`halfulp.torch.max_unpool1d`.

    >>> import torch
    >>> MaxUnpool1d(2)(torch.tensor([[3.0]]), torch.tensor([[1]]))
    tensor([[0., 3.]])
    """

    _function = "max_unpool1d"


class MaxUnpool2d(_MaxUnpool, nn.MaxUnpool2d):
    """``torch.nn.MaxUnpool2d`` by :func:`halfulp.torch.max_unpool2d`.

    >>> import torch
    >>> MaxUnpool2d(2)(torch.tensor([[[3.0]]]), torch.tensor([[[2]]]))
    tensor([[[0., 0.],
             [3., 0.]]])
    """

    _function = "max_unpool2d"


class MaxUnpool3d(_MaxUnpool, nn.MaxUnpool3d):
    """``torch.nn.MaxUnpool3d`` by :func:`halfulp.torch.max_unpool3d`.

    >>> import torch
    >>> MaxUnpool3d((1, 1, 2))(torch.tensor([[[[3.0]]]]), torch.tensor([[[[1]]]]))
    tensor([[[[0., 3.]]]])
    """

    _function = "max_unpool3d"
