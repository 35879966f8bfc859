"""Convolution on tensors."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from halfulp.records import Conv
from halfulp.torch._arguments import per_axis, remembered
from halfulp.torch._convolution import Convolution
from halfulp.torch._convolution_arguments import convolve, spatial_rank
from halfulp.torch._errors import TorchShapeError

__all__ = ["conv", "conv1d", "conv2d", "conv3d"]


@lru_cache(maxsize=1024, typed=True)
def _record(stride: Any, padding: Any, dilation: Any, groups: int, precision: str) -> Conv:
    return Conv(len(stride), stride, pairs(padding), dilation, groups, precision)


class _Convolution(Convolution):
    groups_at = 3

    def record(self, parameters: tuple[Any, ...]) -> Conv:
        return _record(*parameters)


_family = _Convolution("conv", "int[] stride, int[] padding, int[] dilation, int groups, str precision")


def pairs(padding: Any) -> tuple[tuple[int, int], ...]:
    """The operators' flat padding (before, after, before, after, …) as pairs."""
    return tuple(zip(padding[::2], padding[1::2], strict=True))


def _parameters(ndim: int, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int, precision: str) -> Any:
    name = f"conv{ndim}d"
    strides = per_axis(name, "stride", stride, ndim)
    dilations = per_axis(name, "dilation", dilation, ndim)
    return strides, _flat_padding(name, padding, kernel, strides, dilations), dilations, groups, precision


def _flat_padding(name: str, padding: Any, kernel: Any, strides: Any, dilations: Any) -> tuple[int, ...]:
    if not isinstance(padding, str):
        return tuple(p for p in per_axis(name, "padding", padding, len(strides)) for _ in range(2))
    if padding == "valid":
        return (0,) * (2 * len(strides))
    if padding != "same":
        raise TorchShapeError(name, f"padding={padding!r}", "must be integers >= 0, 'valid' or 'same'", "W2")
    if any(s != 1 for s in strides):
        raise TorchShapeError(name, f"stride={strides}", "padding='same' takes stride 1 only, as in PyTorch", "B4")
    totals = [d * (k - 1) for k, d in zip(kernel, dilations, strict=True)]
    return tuple(half for total in totals for half in (total // 2, total - total // 2))


_prepared = remembered(_parameters)


def _conv(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    precision: str,
    ndim: int,
) -> Tensor:
    if weight.dim() != ndim + 2:
        raise TorchShapeError(f"conv{ndim}d", f"weight shape={tuple(weight.shape)}", f"must have {ndim + 2} axes", "C2")
    # Only padding="same" asks for the kernel's size; leaving it out keeps symbolic sizes out of the memory.
    kernel = tuple(weight.shape[2:]) if isinstance(padding, str) else ()
    prepare = _parameters if torch.compiler.is_compiling() else _prepared
    parameters = prepare(ndim, kernel, stride, padding, dilation, groups, precision)
    return convolve(f"conv{ndim}d", ndim, _family.apply, input, weight, bias, parameters)


def conv(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    *,
    precision: str = "correct",
) -> Tensor:
    """:func:`halfulp.conv` on tensors, over ``weight.dim() - 2`` axes.

    >>> import torch
    >>> conv(torch.ones(1, 2, 2, 2, 2), torch.ones(1, 1, 2, 2, 2, 2))
    tensor([[[[[16.]]]]])
    """
    rank = spatial_rank("conv", weight)
    return _conv(input, weight, bias, stride, padding, dilation, groups, precision, rank)


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    *,
    precision: str = "correct",
) -> Tensor:
    """``torch.nn.functional.conv1d``, correctly rounded unless ``precision="fast"``.

    >>> import torch
    >>> conv1d(torch.tensor([[1.0, 2.0, 4.0]]), torch.tensor([[[1.0, 10.0]]]))
    tensor([[21., 42.]])
    """
    return _conv(input, weight, bias, stride, padding, dilation, groups, precision, 1)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    *,
    precision: str = "correct",
) -> Tensor:
    """``torch.nn.functional.conv2d``, correctly rounded unless ``precision="fast"``.

    >>> import torch
    >>> conv2d(torch.ones(1, 3, 3), torch.ones(1, 1, 2, 2), padding="same")
    tensor([[[4., 4., 2.],
             [4., 4., 2.],
             [2., 2., 1.]]])
    """
    return _conv(input, weight, bias, stride, padding, dilation, groups, precision, 2)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    *,
    precision: str = "correct",
) -> Tensor:
    """``torch.nn.functional.conv3d``, correctly rounded unless ``precision="fast"``.

    >>> import torch
    >>> conv3d(torch.ones(1, 2, 2, 2), torch.ones(1, 1, 2, 2, 2))
    tensor([[[[8.]]]])
    """
    return _conv(input, weight, bias, stride, padding, dilation, groups, precision, 3)


for _name in __all__:
    torch.fx.wrap(_name)
