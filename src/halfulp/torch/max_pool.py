"""Hard max pooling on tensors."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from halfulp.records import MaxPool
from halfulp.torch._arguments import check_half_padding, per_axis, remembered, stride_or_kernel
from halfulp.torch._pooling import SelectingPooling, check_rank

__all__ = ["max_pool1d", "max_pool2d", "max_pool3d"]


@lru_cache(maxsize=1024, typed=True)
def _record(kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, ties: str, nan: str) -> MaxPool:
    record = MaxPool(kernel, stride, padding, dilation, ceil_mode, ties, nan)
    check_half_padding(record.name, kernel, padding)
    return record


_family = SelectingPooling(
    "max_pool",
    "int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode, str ties, str nan",
    _record,
)


def _parameters(
    ndim: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, ties: str, nan: str
) -> tuple[Any, ...]:
    name = f"max_pool{ndim}d"
    kernel = per_axis(name, "kernel_size", kernel_size, ndim)
    return (
        kernel,
        stride_or_kernel(name, stride, kernel, ndim),
        per_axis(name, "padding", padding, ndim),
        per_axis(name, "dilation", dilation, ndim),
        ceil_mode,
        ties,
        nan,
    )


_prepared = remembered(_parameters)


def _max_pool(input: Tensor, return_indices: bool, ndim: int, *arguments: Any) -> Any:
    check_rank(f"max_pool{ndim}d", input, ndim)
    # The compiler sees through the plain function, not through its memory.
    parameters = (_parameters if torch.compiler.is_compiling() else _prepared)(ndim, *arguments)
    apply = _family.apply_with_indices if return_indices else _family.apply
    return apply(input, *parameters)


def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    ties: str = "first",
    nan: str = "propagate",
) -> Any:
    """``torch.nn.functional.max_pool1d``; ``ties`` and ``nan`` as :class:`halfulp.MaxPool`.

    >>> import torch
    >>> max_pool1d(torch.tensor([[1.0, 4.0, 2.0, 3.0]]), 2)
    tensor([[4., 3.]])
    """
    return _max_pool(input, return_indices, 1, kernel_size, stride, padding, dilation, ceil_mode, ties, nan)


def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    ties: str = "first",
    nan: str = "propagate",
) -> Any:
    """``torch.nn.functional.max_pool2d``; ``ties`` and ``nan`` as :class:`halfulp.MaxPool`.

    >>> import torch
    >>> max_pool2d(torch.arange(16.0).reshape(1, 4, 4), 2, return_indices=True)
    (tensor([[[ 5.,  7.],
             [13., 15.]]]), tensor([[[ 5,  7],
             [13, 15]]]))
    """
    return _max_pool(input, return_indices, 2, kernel_size, stride, padding, dilation, ceil_mode, ties, nan)


def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    ties: str = "first",
    nan: str = "propagate",
) -> Any:
    """``torch.nn.functional.max_pool3d``; ``ties`` and ``nan`` as :class:`halfulp.MaxPool`.

    >>> import torch
    >>> max_pool3d(torch.arange(8.0).reshape(1, 2, 2, 2), 2)
    tensor([[[[7.]]]])
    """
    return _max_pool(input, return_indices, 3, kernel_size, stride, padding, dilation, ceil_mode, ties, nan)


for _name in __all__:
    torch.fx.wrap(_name)
