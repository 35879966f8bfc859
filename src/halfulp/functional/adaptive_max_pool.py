"""Adaptive max pooling as functions."""

from __future__ import annotations

from typing import Any

from halfulp.dispatch import indices
from halfulp.functional._ranks import cached, expand, value
from halfulp.records import AdaptiveMaxPool

__all__ = ["adaptive_max_pool", "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d"]


def _record(ndim: int | None, output_size: Any, ties: str, nan: str) -> AdaptiveMaxPool:
    output_size = expand(f"adaptive_max_pool{ndim}d", "output_size", output_size, ndim)
    return AdaptiveMaxPool(output_size=output_size, ties=ties, nan=nan)


_build = cached(_record)


def adaptive_max_pool(
    input: Any,
    output_size: Any,
    return_indices: bool = False,
    *,
    ties: str = "first",
    nan: str = "propagate",
    out: Any = None,
) -> Any:
    """The maximum of as many bins as ``output_size`` says; None keeps an axis as it is.

    ``out`` is an array of the output's shape and element type that gets the values, and is returned.

    >>> adaptive_max_pool(np.array([1.0, 2.0, 6.0]), (2,), return_indices=True)
    (array([2., 6.]), array([1, 2]))
    """
    op = _build(None, output_size, ties, nan)
    return indices(op, input, out) if return_indices else value(op, input, out)


def adaptive_max_pool1d(
    input: Any,
    output_size: Any,
    return_indices: bool = False,
    *,
    ties: str = "first",
    nan: str = "propagate",
    out: Any = None,
) -> Any:
    """:func:`adaptive_max_pool` over the last axis.

    >>> adaptive_max_pool1d(np.array([1.0, 2.0, 6.0]), 2)
    array([2., 6.])
    """
    op = _build(1, output_size, ties, nan)
    return indices(op, input, out) if return_indices else value(op, input, out)


def adaptive_max_pool2d(
    input: Any,
    output_size: Any,
    return_indices: bool = False,
    *,
    ties: str = "first",
    nan: str = "propagate",
    out: Any = None,
) -> Any:
    """:func:`adaptive_max_pool` over the last two axes.

    >>> adaptive_max_pool2d(np.arange(6.0).reshape(2, 3), (1, None))
    array([[3., 4., 5.]])
    """
    op = _build(2, output_size, ties, nan)
    return indices(op, input, out) if return_indices else value(op, input, out)


def adaptive_max_pool3d(
    input: Any,
    output_size: Any,
    return_indices: bool = False,
    *,
    ties: str = "first",
    nan: str = "propagate",
    out: Any = None,
) -> Any:
    """:func:`adaptive_max_pool` over the last three axes.

    >>> adaptive_max_pool3d(np.arange(8.0).reshape(2, 2, 2), 1)
    array([[[7.]]])
    """
    op = _build(3, output_size, ties, nan)
    return indices(op, input, out) if return_indices else value(op, input, out)
