"""Smooth max pooling on tensors."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from halfulp.records import SmoothMaxPool
from halfulp.torch._arguments import per_axis, remembered, stride_or_kernel
from halfulp.torch._pooling import SmoothPooling, check_rank

__all__ = ["smooth_max_pool1d", "smooth_max_pool2d", "smooth_max_pool3d"]


@lru_cache(maxsize=1024, typed=True)
def _record(kernel: Any, beta: float, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> SmoothMaxPool:
    return SmoothMaxPool(kernel, beta, stride, padding, dilation, ceil_mode)


_family = SmoothPooling(
    "smooth_max_pool",
    "int[] kernel_size, float beta, int[] stride, int[] padding, int[] dilation, bool ceil_mode",
    _record,
)


def _parameters(
    ndim: int, kernel_size: Any, beta: float, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> tuple[Any, ...]:
    name = f"smooth_max_pool{ndim}d"
    kernel = per_axis(name, "kernel_size", kernel_size, ndim)
    return (
        kernel,
        float(beta),
        stride_or_kernel(name, stride, kernel, ndim),
        per_axis(name, "padding", padding, ndim),
        per_axis(name, "dilation", dilation, ndim),
        ceil_mode,
    )


_prepared = remembered(_parameters)


def _smooth_max_pool(input: Tensor, ndim: int, *arguments: Any) -> Tensor:
    check_rank(f"smooth_max_pool{ndim}d", input, ndim)
    parameters = (_parameters if torch.compiler.is_compiling() else _prepared)(ndim, *arguments)
    return _family.apply(input, *parameters)


def smooth_max_pool1d(
    input: Tensor,
    kernel_size: Any,
    beta: float,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """(1/beta) log sum exp(beta x) over every window of the last axis, correctly rounded.

    >>> import torch
    >>> smooth_max_pool1d(torch.tensor([[0.0, 0.0, 1.0, 9.0]]), 2, beta=1.0)
    tensor([[0.6931, 9.0003]])
    """
    return _smooth_max_pool(input, 1, kernel_size, beta, stride, padding, dilation, ceil_mode)


def smooth_max_pool2d(
    input: Tensor,
    kernel_size: Any,
    beta: float,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """(1/beta) log sum exp(beta x) over every window of the last two axes, correctly rounded.

    >>> import torch
    >>> smooth_max_pool2d(torch.zeros(1, 2, 2), 2, beta=2.0)
    tensor([[[0.6931]]])
    """
    return _smooth_max_pool(input, 2, kernel_size, beta, stride, padding, dilation, ceil_mode)


def smooth_max_pool3d(
    input: Tensor,
    kernel_size: Any,
    beta: float,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """(1/beta) log sum exp(beta x) over every window of the last three axes, correctly rounded.

    >>> import torch
    >>> smooth_max_pool3d(torch.zeros(1, 2, 2, 2), 2, beta=3.0)
    tensor([[[[0.6931]]]])
    """
    return _smooth_max_pool(input, 3, kernel_size, beta, stride, padding, dilation, ceil_mode)


for _name in __all__:
    torch.fx.wrap(_name)
