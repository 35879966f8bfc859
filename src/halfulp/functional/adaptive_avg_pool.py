"""Adaptive average pooling as functions."""

from __future__ import annotations

from typing import Any

from halfulp.functional._ranks import cached, expand, value
from halfulp.records import AdaptiveAvgPool

__all__ = ["adaptive_avg_pool", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"]


def _record(ndim: int | None, output_size: Any) -> AdaptiveAvgPool:
    output_size = expand(f"adaptive_avg_pool{ndim}d", "output_size", output_size, ndim)
    return AdaptiveAvgPool(output_size=output_size)


_build = cached(_record)


def adaptive_avg_pool(input: Any, output_size: Any, *, out: Any = None) -> Any:
    """The mean of as many bins as ``output_size`` says, correctly rounded; None keeps an axis as it is.

    ``out`` is an array of the output's shape and element type that gets the values, and is returned.

    >>> adaptive_avg_pool(np.array([1.0, 2.0, 6.0]), (2,))
    array([1.5, 4. ])
    """
    return value(_build(None, output_size), input, out)


def adaptive_avg_pool1d(input: Any, output_size: Any, *, out: Any = None) -> Any:
    """:func:`adaptive_avg_pool` over the last axis.

    >>> adaptive_avg_pool1d(np.array([1.0, 2.0, 6.0]), 2)
    array([1.5, 4. ])
    """
    return value(_build(1, output_size), input, out)


def adaptive_avg_pool2d(input: Any, output_size: Any, *, out: Any = None) -> Any:
    """:func:`adaptive_avg_pool` over the last two axes.

    >>> adaptive_avg_pool2d(np.arange(6.0).reshape(2, 3), (1, None))
    array([[1.5, 2.5, 3.5]])
    """
    return value(_build(2, output_size), input, out)


def adaptive_avg_pool3d(input: Any, output_size: Any, *, out: Any = None) -> Any:
    """:func:`adaptive_avg_pool` over the last three axes.

    >>> adaptive_avg_pool3d(np.arange(8.0).reshape(2, 2, 2), 1)
    array([[[3.5]]])
    """
    return value(_build(3, output_size), input, out)
