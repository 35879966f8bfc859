"""Global pooling on tensors."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from halfulp.records import GlobalAvgPool, GlobalMaxPool
from halfulp.torch._pooling import LinearPooling, SelectingPooling, check_rank

__all__ = [
    "global_avg_pool1d",
    "global_avg_pool2d",
    "global_avg_pool3d",
    "global_max_pool1d",
    "global_max_pool2d",
    "global_max_pool3d",
]

_average = LinearPooling("global_avg_pool", "int ndim, bool keepdims", lru_cache(maxsize=64, typed=True)(GlobalAvgPool))
_maximum = SelectingPooling(
    "global_max_pool",
    "int ndim, bool keepdims, str ties, str nan",
    lru_cache(maxsize=64, typed=True)(GlobalMaxPool),
    with_indices=False,
)


def _global_avg_pool(input: Tensor, ndim: int, keepdims: bool) -> Tensor:
    check_rank(f"global_avg_pool{ndim}d", input, ndim)
    return _average.apply(input, ndim, keepdims)


def _global_max_pool(input: Tensor, ndim: int, keepdims: bool, ties: str, nan: str) -> Tensor:
    check_rank(f"global_max_pool{ndim}d", input, ndim)
    return _maximum.apply(input, ndim, keepdims, ties, nan)


def global_avg_pool1d(input: Tensor, keepdims: bool = True) -> Tensor:
    """The mean over the last axis, correctly rounded; ``keepdims`` keeps it with size 1.

    >>> import torch
    >>> global_avg_pool1d(torch.tensor([[1.0, 2.0]]))
    tensor([[1.5000]])
    """
    return _global_avg_pool(input, 1, keepdims)


def global_avg_pool2d(input: Tensor, keepdims: bool = True) -> Tensor:
    """The mean over the last two axes, correctly rounded; ``keepdims`` keeps them with size 1.

    >>> import torch
    >>> global_avg_pool2d(torch.arange(4.0).reshape(1, 2, 2), keepdims=False)
    tensor([1.5000])
    """
    return _global_avg_pool(input, 2, keepdims)


def global_avg_pool3d(input: Tensor, keepdims: bool = True) -> Tensor:
    """The mean over the last three axes, correctly rounded; ``keepdims`` keeps them with size 1.

    >>> import torch
    >>> global_avg_pool3d(torch.arange(8.0).reshape(1, 2, 2, 2), keepdims=False)
    tensor([3.5000])
    """
    return _global_avg_pool(input, 3, keepdims)


def global_max_pool1d(input: Tensor, keepdims: bool = True, *, ties: str = "all", nan: str = "propagate") -> Tensor:
    """The maximum over the last axis; ``ties`` and ``nan`` as :class:`halfulp.GlobalMaxPool`.

    >>> import torch
    >>> global_max_pool1d(torch.tensor([[1.0, 2.0]]))
    tensor([[2.]])
    """
    return _global_max_pool(input, 1, keepdims, ties, nan)


def global_max_pool2d(input: Tensor, keepdims: bool = True, *, ties: str = "all", nan: str = "propagate") -> Tensor:
    """The maximum over the last two axes; ``ties`` and ``nan`` as :class:`halfulp.GlobalMaxPool`.

    >>> import torch
    >>> global_max_pool2d(torch.arange(4.0).reshape(1, 2, 2), keepdims=False)
    tensor([3.])
    """
    return _global_max_pool(input, 2, keepdims, ties, nan)


def global_max_pool3d(input: Tensor, keepdims: bool = True, *, ties: str = "all", nan: str = "propagate") -> Tensor:
    """The maximum over the last three axes; ``ties`` and ``nan`` as :class:`halfulp.GlobalMaxPool`.

    >>> import torch
    >>> global_max_pool3d(torch.arange(8.0).reshape(1, 2, 2, 2), keepdims=False)
    tensor([7.])
    """
    return _global_max_pool(input, 3, keepdims, ties, nan)


for _name in __all__:
    torch.fx.wrap(_name)
