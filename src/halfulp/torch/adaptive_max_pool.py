"""Adaptive max pooling on tensors."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from halfulp.records import AdaptiveMaxPool
from halfulp.torch._adaptive import output_sizes, without_cells
from halfulp.torch._pooling import SelectingPooling, check_rank

__all__ = ["adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d"]

_record = lru_cache(maxsize=1024, typed=True)(AdaptiveMaxPool)
_family = SelectingPooling("adaptive_max_pool", "int[] output_size, str ties, str nan", _record)


def _adaptive_max_pool(input: Tensor, output_size: Any, return_indices: bool, ties: str, nan: str, ndim: int) -> Any:
    name = f"adaptive_max_pool{ndim}d"
    check_rank(name, input, ndim)
    sizes = output_sizes(name, output_size, input.shape, ndim)
    if 0 in sizes:
        output = without_cells(input, sizes)
        return (output, torch.empty_like(output, dtype=torch.int64)) if return_indices else output
    if return_indices:
        return _family.apply_with_indices(input, sizes, ties, nan)
    return _family.apply(input, sizes, ties, nan)


def adaptive_max_pool1d(
    input: Tensor, output_size: Any, return_indices: bool = False, *, ties: str = "first", nan: str = "propagate"
) -> Any:
    """``torch.nn.functional.adaptive_max_pool1d``; ``ties`` and ``nan`` as :class:`halfulp.AdaptiveMaxPool`.

    >>> import torch
    >>> adaptive_max_pool1d(torch.tensor([[1.0, 2.0, 4.0]]), 2)
    tensor([[2., 4.]])
    """
    return _adaptive_max_pool(input, output_size, return_indices, ties, nan, 1)


def adaptive_max_pool2d(
    input: Tensor, output_size: Any, return_indices: bool = False, *, ties: str = "first", nan: str = "propagate"
) -> Any:
    """``torch.nn.functional.adaptive_max_pool2d``; ``ties`` and ``nan`` as :class:`halfulp.AdaptiveMaxPool`.

    >>> import torch
    >>> adaptive_max_pool2d(torch.arange(6.0).reshape(1, 2, 3), (1, 2), return_indices=True)
    (tensor([[[4., 5.]]]), tensor([[[4, 5]]]))
    """
    return _adaptive_max_pool(input, output_size, return_indices, ties, nan, 2)


def adaptive_max_pool3d(
    input: Tensor, output_size: Any, return_indices: bool = False, *, ties: str = "first", nan: str = "propagate"
) -> Any:
    """``torch.nn.functional.adaptive_max_pool3d``; ``ties`` and ``nan`` as :class:`halfulp.AdaptiveMaxPool`.

    >>> import torch
    >>> adaptive_max_pool3d(torch.arange(8.0).reshape(1, 2, 2, 2), 1)
    tensor([[[[7.]]]])
    """
    return _adaptive_max_pool(input, output_size, return_indices, ties, nan, 3)


for _name in __all__:
    torch.fx.wrap(_name)
