"""Operators that move elements: written once for arrays, and by the same movement of indices for traced values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from halfulp.autograd import ops
from halfulp.autograd.traced import is_traced
from halfulp.onnx._node import Node


def move(function: Callable[..., Any], *inputs: Any) -> Any:
    """``function`` of the inputs, where every element of its result is an element of an input.

    A traced value has no elements to move. There the function moves the positions of elements, and one index into all
    inputs in a row does the rest, so that every such operator has its derivatives.

    >>> move(lambda x: np.tile(x, 2), np.array([1.0, 2.0]))
    array([1., 2., 1., 2.])
    """
    if not is_traced(*inputs):
        return function(*inputs)
    places, flat, start = [], [], 0
    for x in inputs:
        count = math.prod(x.shape)
        places.append(np.arange(start, start + count).reshape(x.shape))
        flat.append(ops.reshape(x, (count,)))
        start += count
    joined = flat[0] if len(flat) == 1 else ops.concatenate(flat)
    return ops.index(joined, np.asarray(function(*places)))


def axis_of(node: Node, axis: int, ndim: int, name: str = "axis") -> int:
    """An axis counted from the front, if the input has it."""
    if not -ndim <= axis < ndim:
        raise node.refusal(f"{name}={axis}", f"must be from {-ndim} to {ndim - 1}", "O9")
    return axis % ndim


def axes_of(node: Node, axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    """Different axes, counted from the front."""
    found = tuple(axis_of(node, int(axis), ndim, "axes") for axis in axes)
    if len(set(found)) != len(found):
        raise node.refusal(f"axes={list(axes)}", "must be different axes", "O9")
    return found


def integers(node: Node, value: Any, name: str) -> list[int]:
    """A vector of integers that decides a shape, as a list."""
    return [int(item) for item in node.concrete(value, name)]


def scalar(node: Node, value: Any, name: str) -> Any:
    """The one element of an input."""
    if not isinstance(value, np.ndarray) or value.size != 1:
        raise node.refusal(f"{name} shape={getattr(value, 'shape', None)}", "must be a scalar", "O9")
    return value.reshape(-1)[0]


def axes_input(node: Node, since: int, name: str = "axes") -> Callable[[Any], list[int] | None]:
    """The axes of a node: an attribute before operator set ``since``, an input from it on."""
    fixed = node.integers(name) if node.opset < since else None

    def read(given: Any) -> list[int] | None:
        if given is not None:
            return integers(node, np.atleast_1d(given) if isinstance(given, np.ndarray) else given, name)
        return None if fixed is None else list(fixed)

    return read
