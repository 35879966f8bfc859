"""Adaptive average pooling on tensors."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from halfulp.records import AdaptiveAvgPool
from halfulp.torch._adaptive import output_sizes, without_cells
from halfulp.torch._pooling import LinearPooling, check_rank

__all__ = ["adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"]

_record = lru_cache(maxsize=1024, typed=True)(AdaptiveAvgPool)
_family = LinearPooling("adaptive_avg_pool", "int[] output_size", _record)


def _adaptive_avg_pool(input: Tensor, output_size: Any, ndim: int) -> Tensor:
    name = f"adaptive_avg_pool{ndim}d"
    check_rank(name, input, ndim)
    sizes = output_sizes(name, output_size, input.shape, ndim)
    if 0 in sizes:
        return without_cells(input, sizes)
    return _family.apply(input, sizes)


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """``torch.nn.functional.adaptive_avg_pool1d``, correctly rounded.

    >>> import torch
    >>> adaptive_avg_pool1d(torch.tensor([[1.0, 2.0, 4.0]]), 2)
    tensor([[1.5000, 3.0000]])
    """
    return _adaptive_avg_pool(input, output_size, 1)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """``torch.nn.functional.adaptive_avg_pool2d``, correctly rounded.

    >>> import torch
    >>> adaptive_avg_pool2d(torch.arange(6.0).reshape(1, 2, 3), (1, None))
    tensor([[[1.5000, 2.5000, 3.5000]]])
    """
    return _adaptive_avg_pool(input, output_size, 2)


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """``torch.nn.functional.adaptive_avg_pool3d``, correctly rounded.

    >>> import torch
    >>> adaptive_avg_pool3d(torch.arange(8.0).reshape(1, 2, 2, 2), 1)
    tensor([[[[3.5000]]]])
    """
    return _adaptive_avg_pool(input, output_size, 3)


for _name in __all__:
    torch.fx.wrap(_name)
