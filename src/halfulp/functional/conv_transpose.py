"""Transposed convolution as functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from halfulp.errors import ShapeError
from halfulp.functional._ranks import cached
from halfulp.records import ConvTranspose

__all__ = ["conv_transpose", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]

_build = cached(ConvTranspose)


def conv_transpose(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    *,
    precision: str = "correct",
    out: Any = None,
) -> Any:
    """Transposed convolution over the last ``weight.ndim - 2`` axes, correctly rounded unless ``precision="fast"``.

    ``input`` is (inC, …) or (N, inC, …), ``weight`` (inC, outC/groups, k…), ``bias`` (outC) or None.

    ``out`` is an array of the output's shape and element type that gets the values, and is returned.

    >>> conv_transpose(np.array([[1.0, 2.0]]), np.array([[[1.0, 10.0]]]))
    array([[ 1., 12., 20.]])
    """
    axes = np.ndim(weight) if not hasattr(weight, "ndim") else weight.ndim
    if axes < 3:
        raise ShapeError(
            "conv_transpose", f"weight with {axes} axes", "must have at least one spatial axis after two others", "C2"
        )
    return _build(axes - 2, stride, padding, output_padding, dilation, groups, precision)(input, weight, bias, out=out)


def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    *,
    precision: str = "correct",
    out: Any = None,
) -> Any:
    """:func:`conv_transpose` over the last axis.

    >>> conv_transpose1d(np.array([[1.0, 2.0]]), np.array([[[1.0, 10.0]]]), stride=2)
    array([[ 1., 10.,  2., 20.]])
    """
    return _build(1, stride, padding, output_padding, dilation, groups, precision)(input, weight, bias, out=out)


def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    *,
    precision: str = "correct",
    out: Any = None,
) -> Any:
    """:func:`conv_transpose` over the last two axes.

    >>> conv_transpose2d(np.ones((1, 1, 1)), np.ones((1, 1, 2, 2)))
    array([[[1., 1.],
            [1., 1.]]])
    """
    return _build(2, stride, padding, output_padding, dilation, groups, precision)(input, weight, bias, out=out)


def conv_transpose3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    *,
    precision: str = "correct",
    out: Any = None,
) -> Any:
    """:func:`conv_transpose` over the last three axes.

    >>> conv_transpose3d(np.ones((1, 1, 1, 1)), np.ones((1, 1, 1, 1, 2)))
    array([[[[1., 1.]]]])
    """
    return _build(3, stride, padding, output_padding, dilation, groups, precision)(input, weight, bias, out=out)
