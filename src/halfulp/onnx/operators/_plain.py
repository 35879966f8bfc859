"""The short way for plain arrays: no transform and no exact numbers, so a node's record meets its kernel at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from halfulp import kernels
from halfulp.autograd import apply
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
