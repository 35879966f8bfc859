"""Average pooling as functions."""

from __future__ import annotations

from typing import Any

from halfulp.functional._ranks import cached, expand, value
from halfulp.records import AvgPool

__all__ = ["avg_pool", "avg_pool1d", "avg_pool2d", "avg_pool3d"]


def _record(
    ndim: int | None,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: Any,
    count_include_pad: Any,
    divisor_override: Any,
    dilation: Any,
) -> AvgPool:
    kernel_size = expand(f"avg_pool{ndim}d", "kernel_size", kernel_size, ndim)
    return AvgPool(
        kernel_size=kernel_size,
        stride=stride,
        padding=padding,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        divisor_override=divisor_override,
        dilation=dilation,
    )


_build = cached(_record)


def avg_pool(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    dilation: Any = 1,
    out: Any = None,
) -> Any:
    """The mean of every window over the last ``len(kernel_size)`` axes, correctly rounded.

    See :class:`halfulp.AvgPool` for what is counted.

    ``out`` is an array of the output's shape and element type that gets the values, and is returned.

    >>> avg_pool(np.array([1.0, 4.0, 2.0, 3.0]), (2,), stride=1)
    array([2.5, 3. , 2.5])
    """
    op = _build(None, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, dilation)
    return value(op, input, out)


def avg_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    dilation: Any = 1,
    out: Any = None,
) -> Any:
    """:func:`avg_pool` over the last axis.

    >>> avg_pool1d(np.array([1.0, 4.0, 2.0, 3.0]), 2)
    array([2.5, 2.5])
    """
    op = _build(1, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, dilation)
    return value(op, input, out)


def avg_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    dilation: Any = 1,
    out: Any = None,
) -> Any:
    """:func:`avg_pool` over the last two axes.

    >>> avg_pool2d(np.arange(16.0).reshape(4, 4), 2)
    array([[ 2.5,  4.5],
           [10.5, 12.5]])
    """
    op = _build(2, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, dilation)
    return value(op, input, out)


def avg_pool3d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    dilation: Any = 1,
    out: Any = None,
) -> Any:
    """:func:`avg_pool` over the last three axes.

    >>> avg_pool3d(np.arange(8.0).reshape(2, 2, 2), 2)
    array([[[3.5]]])
    """
    op = _build(3, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, dilation)
    return value(op, input, out)
