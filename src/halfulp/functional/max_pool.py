"""Hard max pooling as functions."""

from __future__ import annotations

from typing import Any

from halfulp.dispatch import indices
from halfulp.functional._ranks import cached, expand, value
from halfulp.records import MaxPool

__all__ = ["max_pool", "max_pool1d", "max_pool2d", "max_pool3d"]


def _record(
    ndim: int | None, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, ties: str, nan: str
) -> MaxPool:
    kernel_size = expand(f"max_pool{ndim}d", "kernel_size", kernel_size, ndim)
    return MaxPool(kernel_size, stride, padding, dilation, ceil_mode, ties, nan)


_build = cached(_record)


def max_pool(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    ties: str = "first",
    nan: str = "propagate",
    out: Any = None,
) -> Any:
    """The largest real cell of every window over the last ``len(kernel_size)`` axes.

    ``return_indices=True`` also gives the flat index of that cell within its plane (int64; -1 for a window that has no
    real cell). See :class:`halfulp.MaxPool` for ``ties`` and ``nan``. ``out`` is an array of the output's shape and
    element type that gets the values, and is returned: memory that you have already, or part of a larger array.

    >>> max_pool(np.array([1.0, 4.0, 2.0, 3.0]), (2,), stride=1)
    array([4., 4., 3.])
    >>> both = np.zeros((2, 3))
    >>> _ = max_pool(np.array([1.0, 4.0, 2.0, 3.0]), (2,), stride=1, out=both[1])
    >>> both
    array([[0., 0., 0.],
           [4., 4., 3.]])
    """
    op = _build(None, kernel_size, stride, padding, dilation, ceil_mode, ties, nan)
    return indices(op, input, out) if return_indices else value(op, input, out)


def max_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    ties: str = "first",
    nan: str = "propagate",
    out: Any = None,
) -> Any:
    """:func:`max_pool` over the last axis.

    >>> max_pool1d(np.array([1.0, 4.0, 2.0, 3.0]), 2)
    array([4., 3.])
    """
    op = _build(1, kernel_size, stride, padding, dilation, ceil_mode, ties, nan)
    return indices(op, input, out) if return_indices else value(op, input, out)


def max_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    ties: str = "first",
    nan: str = "propagate",
    out: Any = None,
) -> Any:
    """:func:`max_pool` over the last two axes.

    >>> max_pool2d(np.arange(16.0).reshape(4, 4), 2, return_indices=True)
    (array([[ 5.,  7.],
           [13., 15.]]), array([[ 5,  7],
           [13, 15]]))
    """
    op = _build(2, kernel_size, stride, padding, dilation, ceil_mode, ties, nan)
    return indices(op, input, out) if return_indices else value(op, input, out)


def max_pool3d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    ties: str = "first",
    nan: str = "propagate",
    out: Any = None,
) -> Any:
    """:func:`max_pool` over the last three axes.

    >>> max_pool3d(np.arange(8.0).reshape(2, 2, 2), 2)
    array([[[7.]]])
    """
    op = _build(3, kernel_size, stride, padding, dilation, ceil_mode, ties, nan)
    return indices(op, input, out) if return_indices else value(op, input, out)
