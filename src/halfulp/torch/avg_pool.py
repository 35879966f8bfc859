"""Average pooling on tensors."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from halfulp.records import AvgPool
from halfulp.torch._arguments import check_half_padding, per_axis, remembered, stride_or_kernel
from halfulp.torch._pooling import LinearPooling, check_rank

__all__ = ["avg_pool1d", "avg_pool2d", "avg_pool3d"]


@lru_cache(maxsize=1024, typed=True)
def _record(
    kernel: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool, divisor_override: int | None
) -> AvgPool:
    record = AvgPool(kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
    check_half_padding(record.name, kernel, padding)
    return record


_family = LinearPooling(
    "avg_pool",
    "int[] kernel_size, int[] stride, int[] padding, bool ceil_mode, bool count_include_pad, int? divisor_override",
    _record,
)


def _parameters(
    ndim: int, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, include: bool, divisor: int | None
) -> tuple[Any, ...]:
    name = f"avg_pool{ndim}d"
    kernel = per_axis(name, "kernel_size", kernel_size, ndim)
    return (
        kernel,
        stride_or_kernel(name, stride, kernel, ndim),
        per_axis(name, "padding", padding, ndim),
        ceil_mode,
        include,
        divisor,
    )


_prepared = remembered(_parameters)


def _avg_pool(input: Tensor, ndim: int, *arguments: Any) -> Tensor:
    check_rank(f"avg_pool{ndim}d", input, ndim)
    parameters = (_parameters if torch.compiler.is_compiling() else _prepared)(ndim, *arguments)
    return _family.apply(input, *parameters)


def avg_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """``torch.nn.functional.avg_pool1d``, correctly rounded.

    >>> import torch
    >>> avg_pool1d(torch.tensor([[1.0, 4.0, 2.0, 3.0]]), 2)
    tensor([[2.5000, 2.5000]])
    """
    return _avg_pool(input, 1, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """``torch.nn.functional.avg_pool2d``, correctly rounded.

    >>> import torch
    >>> avg_pool2d(torch.arange(16.0).reshape(1, 4, 4), 2)
    tensor([[[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    """
    return _avg_pool(input, 2, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """``torch.nn.functional.avg_pool3d``, correctly rounded.

    >>> import torch
    >>> avg_pool3d(torch.arange(8.0).reshape(1, 2, 2, 2), 2)
    tensor([[[[3.5000]]]])
    """
    return _avg_pool(input, 3, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


for _name in __all__:
    torch.fx.wrap(_name)
