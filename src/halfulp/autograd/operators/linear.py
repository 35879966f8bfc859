"""Matrix products on arrays and traced values: the records :class:`halfulp.Linear` and :class:`halfulp.Matmul`."""

from __future__ import annotations

from typing import Any

from halfulp.autograd.traced import apply
from halfulp.records import Linear, Matmul

__all__ = ["Linear", "Matmul", "linear", "matmul"]


def matmul(a: Any, b: Any, precision: str = "correct") -> Any:
    """The matrix product, correctly rounded unless ``precision="fast"``.

    >>> import numpy as np
    >>> matmul(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]))
    array([[11.]])
    """
    return apply(Matmul(precision), a, b)


def linear(x: Any, weight: Any, bias: Any = None, precision: str = "correct") -> Any:
    """x times weight transposed, plus bias, correctly rounded unless ``precision="fast"``.

    >>> import numpy as np
    >>> linear(np.array([1.0, 2.0]), np.array([[3.0, 4.0]]), np.array([0.5]))
    array([11.5])
    """
    return apply(Linear(precision), x, weight, bias)
