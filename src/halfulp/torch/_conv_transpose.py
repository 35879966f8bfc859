"""Transposed convolution on tensors."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from halfulp.records import ConvTranspose
from halfulp.torch._arguments import per_axis, remembered
from halfulp.torch._convolution import Convolution
from halfulp.torch._convolution_arguments import convolve, spatial_rank

__all__ = ["conv_transpose", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]


@lru_cache(maxsize=1024, typed=True)
def _record(
    stride: Any, padding: Any, output_padding: Any, dilation: Any, groups: int, precision: str
) -> ConvTranspose:
    return ConvTranspose(len(stride), stride, padding, output_padding, dilation, groups, precision)


class _Convolution(Convolution):
    groups_at = 4

    def record(self, parameters: tuple[Any, ...]) -> ConvTranspose:
        return _record(*parameters)


_family = _Convolution(
    "conv_transpose",
    "int[] stride, int[] padding, int[] output_padding, int[] dilation, int groups, str precision",
)


def _parameters(
    ndim: int, stride: Any, padding: Any, output_padding: Any, groups: int, dilation: Any, precision: str
) -> tuple[Any, ...]:
    name = f"conv_transpose{ndim}d"
    return (
        per_axis(name, "stride", stride, ndim),
        per_axis(name, "padding", padding, ndim),
        per_axis(name, "output_padding", output_padding, ndim),
        per_axis(name, "dilation", dilation, ndim),
        groups,
        precision,
    )


_prepared = remembered(_parameters)


def _conv_transpose(input: Tensor, weight: Tensor, bias: Tensor | None, ndim: int, *arguments: Any) -> Tensor:
    parameters = (_parameters if torch.compiler.is_compiling() else _prepared)(ndim, *arguments)
    return convolve(f"conv_transpose{ndim}d", ndim, _family.apply, input, weight, bias, parameters)


def conv_transpose(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    *,
    precision: str = "correct",
) -> Tensor:
    """:func:`halfulp.conv_transpose` on tensors, over ``weight.dim() - 2`` axes.

    >>> import torch
    >>> conv_transpose(torch.ones(1, 1, 1, 1, 1), torch.ones(1, 1, 1, 1, 1, 2))
    tensor([[[[[1., 1.]]]]])
    """
    rank = spatial_rank("conv_transpose", weight)
    return _conv_transpose(input, weight, bias, rank, stride, padding, output_padding, groups, dilation, precision)


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    *,
    precision: str = "correct",
) -> Tensor:
    """``torch.nn.functional.conv_transpose1d``, correctly rounded unless ``precision="fast"``.

    >>> import torch
    >>> conv_transpose1d(torch.tensor([[1.0, 2.0]]), torch.tensor([[[1.0, 10.0]]]), stride=2)
    tensor([[ 1., 10.,  2., 20.]])
    """
    return _conv_transpose(input, weight, bias, 1, stride, padding, output_padding, groups, dilation, precision)


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    *,
    precision: str = "correct",
) -> Tensor:
    """``torch.nn.functional.conv_transpose2d``, correctly rounded unless ``precision="fast"``.

    >>> import torch
    >>> conv_transpose2d(torch.ones(1, 1, 1), torch.ones(1, 1, 2, 2))
    tensor([[[1., 1.],
             [1., 1.]]])
    """
    return _conv_transpose(input, weight, bias, 2, stride, padding, output_padding, groups, dilation, precision)


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    *,
    precision: str = "correct",
) -> Tensor:
    """``torch.nn.functional.conv_transpose3d``, correctly rounded unless ``precision="fast"``.

    >>> import torch
    >>> conv_transpose3d(torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1, 1, 2))
    tensor([[[[1., 1.]]]])
    """
    return _conv_transpose(input, weight, bias, 3, stride, padding, output_padding, groups, dilation, precision)


for _name in __all__:
    torch.fx.wrap(_name)
