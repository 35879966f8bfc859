"""Convolution as functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from halfulp.errors import ShapeError
from halfulp.functional._ranks import cached
from halfulp.records import Conv

__all__ = ["conv", "conv1d", "conv2d", "conv3d"]

_build = cached(Conv)


def conv(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    *,
    precision: str = "correct",
    out: Any = None,
) -> Any:
    """Cross-correlation over the last ``weight.ndim - 2`` axes, correctly rounded unless ``precision="fast"``.

    ``input`` is (inC, …) or (N, inC, …), ``weight`` (outC, inC/groups, k…), ``bias`` (outC) or None.

    ``out`` is an array of the output's shape and element type that gets the values, and is returned.

    >>> conv(np.array([[1.0, 2.0, 4.0]]), np.array([[[1.0, 10.0]]]))
    array([[21., 42.]])
    """
    axes = np.ndim(weight) if not hasattr(weight, "ndim") else weight.ndim
    if axes < 3:
        raise ShapeError(
            "conv", f"weight with {axes} axes", "must have at least one spatial axis after two others", "C2"
        )
    return _build(axes - 2, stride, padding, dilation, groups, precision)(input, weight, bias, out=out)


def conv1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    *,
    precision: str = "correct",
    out: Any = None,
) -> Any:
    """:func:`conv` over the last axis.

    >>> conv1d(np.array([[1.0, 2.0, 4.0]]), np.array([[[1.0, 10.0]]]), bias=np.array([100.0]))
    array([[121., 142.]])
    """
    return _build(1, stride, padding, dilation, groups, precision)(input, weight, bias, out=out)


def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    *,
    precision: str = "correct",
    out: Any = None,
) -> Any:
    """:func:`conv` over the last two axes.

    >>> conv2d(np.ones((1, 3, 3)), np.ones((1, 1, 2, 2)))
    array([[[4., 4.],
            [4., 4.]]])
    """
    return _build(2, stride, padding, dilation, groups, precision)(input, weight, bias, out=out)


def conv3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    *,
    precision: str = "correct",
    out: Any = None,
) -> Any:
    """:func:`conv` over the last three axes.

    >>> conv3d(np.ones((1, 2, 2, 2)), np.ones((1, 1, 2, 2, 2)))
    array([[[[8.]]]])
    """
    return _build(3, stride, padding, dilation, groups, precision)(input, weight, bias, out=out)
