"""Smooth max pooling as functions."""

from __future__ import annotations

from typing import Any

from halfulp.functional._ranks import cached, expand, value
from halfulp.records import SmoothMaxPool

__all__ = ["smooth_max_pool", "smooth_max_pool1d", "smooth_max_pool2d", "smooth_max_pool3d"]


def _record(
    ndim: int | None, kernel_size: Any, beta: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: Any
) -> SmoothMaxPool:
    kernel_size = expand(f"smooth_max_pool{ndim}d", "kernel_size", kernel_size, ndim)
    return SmoothMaxPool(
        kernel_size=kernel_size, beta=beta, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode
    )


_build = cached(_record)


def smooth_max_pool(
    input: Any,
    kernel_size: Any,
    beta: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    *,
    out: Any = None,
) -> Any:
    """(1/beta) * log(sum(exp(beta * x))) over every window, correctly rounded; padded cells count as zeros.

    ``out`` is an array of the output's shape and element type that gets the values, and is returned.

    >>> smooth_max_pool(np.array([0.0, 0.0, 1.0]), (2,), beta=1.0, stride=1)
    array([0.69314718, 1.31326169])
    """
    return value(_build(None, kernel_size, beta, stride, padding, dilation, ceil_mode), input, out)


def smooth_max_pool1d(
    input: Any,
    kernel_size: Any,
    beta: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    *,
    out: Any = None,
) -> Any:
    """:func:`smooth_max_pool` over the last axis.

    >>> smooth_max_pool1d(np.array([0.0, 0.0]), 2, beta=1.0)
    array([0.69314718])
    """
    return value(_build(1, kernel_size, beta, stride, padding, dilation, ceil_mode), input, out)


def smooth_max_pool2d(
    input: Any,
    kernel_size: Any,
    beta: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    *,
    out: Any = None,
) -> Any:
    """:func:`smooth_max_pool` over the last two axes.

    >>> smooth_max_pool2d(np.zeros((2, 2)), 2, beta=2.0)
    array([[0.69314718]])
    """
    return value(_build(2, kernel_size, beta, stride, padding, dilation, ceil_mode), input, out)


def smooth_max_pool3d(
    input: Any,
    kernel_size: Any,
    beta: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    *,
    out: Any = None,
) -> Any:
    """:func:`smooth_max_pool` over the last three axes.

    >>> smooth_max_pool3d(np.zeros((2, 2, 2)), 2, beta=3.0)
    array([[[0.69314718]]])
    """
    return value(_build(3, kernel_size, beta, stride, padding, dilation, ceil_mode), input, out)
