"""The short way for plain arrays: no transform and no exact numbers, so a node's record meets its kernel at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from halfulp import kernels
from halfulp.autograd import apply, ops
from halfulp.records import Operator

_FLOATS = "efd" + np.dtype(ml_dtypes.bfloat16).char


def direct(op: Operator) -> Callable[..., Any]:
    """``apply(op, ...)``, which asks only whether the inputs are float arrays before it calls the kernel.

    >>> from halfulp.records import Relu
    >>> direct(Relu())(np.array([-1.0, 2.0]))
    array([0., 2.])
    """
    forward = kernels.entries[type(op)].forward

    def run(*inputs: Any) -> Any:
        return forward(op, *inputs) if floats(*inputs) else apply(op, *inputs)

    return run


def floats(*values: Any) -> bool:
    """Whether all values that are given are NumPy arrays of floats."""
    return all(value is None or (type(value) is np.ndarray and value.dtype.char in _FLOATS) for value in values)


def ieee(x: Any, y: Any) -> bool:
    """Whether NumPy's arithmetic on two values is correctly rounded: arrays of one of its own float types."""
    return type(x) is np.ndarray and type(y) is np.ndarray and x.dtype.char in "efd" and x.dtype == y.dtype


def together(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of two arrays that are broadcast together.

    >>> together((2, 3), (3,))
    (2, 3)
    """
    return x if x == y or not y else np.broadcast_shapes(x, y)


def reshape(x: Any, shape: Any) -> Any:
    """``ops.reshape``."""
    if type(x) is np.ndarray:
        try:
            return x.reshape(shape)
        except ValueError:
            pass  # the other way says what is wrong
    return ops.reshape(x, shape)


def transpose(x: Any, axes: Any = None) -> Any:
    """``ops.transpose``."""
    return x.transpose(axes) if type(x) is np.ndarray else ops.transpose(x, axes)


def index(x: Any, key: Any) -> Any:
    """``ops.index``."""
    if type(x) is np.ndarray:
        try:
            return np.asarray(x[key])
        except IndexError:
            pass
    return ops.index(x, key)


def concatenate(values: Any, axis: int = 0) -> Any:
    """``ops.concatenate``."""
    if all(type(x) is np.ndarray for x in values):
        try:
            return np.concatenate(values, axis)
        except ValueError:
            pass
    return ops.concatenate(values, axis)
