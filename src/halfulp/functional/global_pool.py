"""Global pooling as functions."""

from __future__ import annotations

from typing import Any

from halfulp.functional._ranks import cached, value
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


def global_avg_pool(input: Any, ndim: int, keepdims: bool = True, *, out: Any = None) -> Any:
    """The mean over the last ``ndim`` axes, correctly rounded; ``keepdims`` keeps them with size 1.

    ``out`` is an array of the output's shape and element type that gets the values, and is returned.

    >>> global_avg_pool(np.arange(4.0), 1)
    array([1.5])
    """
    return value(_average(ndim, keepdims), input, out)


def global_avg_pool1d(input: Any, keepdims: bool = True, *, out: Any = None) -> Any:
    """:func:`global_avg_pool` over the last axis.

    >>> global_avg_pool1d(np.arange(4.0))
    array([1.5])
    """
    return value(_average(1, keepdims), input, out)


def global_avg_pool2d(input: Any, keepdims: bool = True, *, out: Any = None) -> Any:
    """:func:`global_avg_pool` over the last two axes.

    >>> global_avg_pool2d(np.arange(4.0).reshape(1, 2, 2), keepdims=False)
    array([1.5])
    """
    return value(_average(2, keepdims), input, out)


def global_avg_pool3d(input: Any, keepdims: bool = True, *, out: Any = None) -> Any:
    """:func:`global_avg_pool` over the last three axes.

    >>> global_avg_pool3d(np.arange(8.0).reshape(2, 2, 2))
    array([[[3.5]]])
    """
    return value(_average(3, keepdims), input, out)


def global_max_pool(
    input: Any, ndim: int, keepdims: bool = True, *, ties: str = "all", nan: str = "propagate", out: Any = None
) -> Any:
    """The maximum over the last ``ndim`` axes; ``keepdims`` keeps them with size 1.

    ``out`` is an array of the output's shape and element type that gets the values, and is returned.

    >>> global_max_pool(np.array([1.0, 5.0, 2.0]), 1)
    array([5.])
    """
    return value(_maximum(ndim, keepdims, ties, nan), input, out)


def global_max_pool1d(
    input: Any, keepdims: bool = True, *, ties: str = "all", nan: str = "propagate", out: Any = None
) -> Any:
    """:func:`global_max_pool` over the last axis.

    >>> global_max_pool1d(np.array([1.0, 5.0, 2.0]))
    array([5.])
    """
    return value(_maximum(1, keepdims, ties, nan), input, out)


def global_max_pool2d(
    input: Any, keepdims: bool = True, *, ties: str = "all", nan: str = "propagate", out: Any = None
) -> Any:
    """:func:`global_max_pool` over the last two axes.

    >>> global_max_pool2d(np.arange(4.0).reshape(1, 2, 2), keepdims=False)
    array([3.])
    """
    return value(_maximum(2, keepdims, ties, nan), input, out)


def global_max_pool3d(
    input: Any, keepdims: bool = True, *, ties: str = "all", nan: str = "propagate", out: Any = None
) -> Any:
    """:func:`global_max_pool` over the last three axes.

    >>> global_max_pool3d(np.arange(8.0).reshape(2, 2, 2))
    array([[[7.]]])
    """
    return value(_maximum(3, keepdims, ties, nan), input, out)
