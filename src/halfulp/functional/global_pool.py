"""Global pooling as functions."""

from __future__ import annotations

from typing import Any

from halfulp.functional._ranks import cached
from halfulp.records import GlobalAvgPool, GlobalMaxPool

__all__ = [
    "global_avg_pool",
    "global_avg_pool1d",
    "global_avg_pool2d",
    "global_avg_pool3d",
    "global_max_pool",
    "global_max_pool1d",
    "global_max_pool2d",
    "global_max_pool3d",
]

_average = cached(GlobalAvgPool)
_maximum = cached(GlobalMaxPool)


def global_avg_pool(input: Any, ndim: int, keepdims: bool = True) -> Any:
    """The mean over the last ``ndim`` axes, correctly rounded; ``keepdims`` keeps them with size 1.

    >>> global_avg_pool(np.arange(4.0), 1)
    array([1.5])
    """
    return _average(ndim, keepdims)(input)


def global_avg_pool1d(input: Any, keepdims: bool = True) -> Any:
    """:func:`global_avg_pool` over the last axis.

    >>> global_avg_pool1d(np.arange(4.0))
    array([1.5])
    """
    return _average(1, keepdims)(input)


def global_avg_pool2d(input: Any, keepdims: bool = True) -> Any:
    """:func:`global_avg_pool` over the last two axes.

    >>> global_avg_pool2d(np.arange(4.0).reshape(1, 2, 2), keepdims=False)
    array([1.5])
    """
    return _average(2, keepdims)(input)


def global_avg_pool3d(input: Any, keepdims: bool = True) -> Any:
    """:func:`global_avg_pool` over the last three axes.

    >>> global_avg_pool3d(np.arange(8.0).reshape(2, 2, 2))
    array([[[3.5]]])
    """
    return _average(3, keepdims)(input)


def global_max_pool(input: Any, ndim: int, keepdims: bool = True, *, ties: str = "all", nan: str = "propagate") -> Any:
    """The maximum over the last ``ndim`` axes; ``keepdims`` keeps them with size 1.

    >>> global_max_pool(np.array([1.0, 5.0, 2.0]), 1)
    array([5.])
    """
    return _maximum(ndim, keepdims, ties, nan)(input)


def global_max_pool1d(input: Any, keepdims: bool = True, *, ties: str = "all", nan: str = "propagate") -> Any:
    """:func:`global_max_pool` over the last axis.

    >>> global_max_pool1d(np.array([1.0, 5.0, 2.0]))
    array([5.])
    """
    return _maximum(1, keepdims, ties, nan)(input)


def global_max_pool2d(input: Any, keepdims: bool = True, *, ties: str = "all", nan: str = "propagate") -> Any:
    """:func:`global_max_pool` over the last two axes.

    >>> global_max_pool2d(np.arange(4.0).reshape(1, 2, 2), keepdims=False)
    array([3.])
    """
    return _maximum(2, keepdims, ties, nan)(input)


def global_max_pool3d(input: Any, keepdims: bool = True, *, ties: str = "all", nan: str = "propagate") -> Any:
    """:func:`global_max_pool` over the last three axes.

    >>> global_max_pool3d(np.arange(8.0).reshape(2, 2, 2))
    array([[[7.]]])
    """
    return _maximum(3, keepdims, ties, nan)(input)
