"""Reading what callers give as plain NumPy arrays, without losing what an array class means."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfulp.errors import DTypeError


def refuse_mask(operator: str, name: str, value: Any) -> None:
    """A masked array is refused, also inside lists: no operator has a meaning for missing cells."""
    masked = sys.modules.get("numpy.ma")  # where it is not imported, nobody has made one
    if masked is not None and _has_mask(value, masked.MaskedArray):
        raise DTypeError(
            operator,
            f"{name} of type MaskedArray",
            "masked arrays are not supported; pass filled(value) or data",
            "I8",
        )


def _has_mask(value: Any, kind: type) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_has_mask(item, kind) for item in value)
    return isinstance(value, kind)


def plain(operator: str, name: str, value: Any) -> NDArray[Any]:
    """A value as an array of NumPy's base class; subclasses other than masked arrays are read as the array they are.

    >>> plain("demo", "input", np.ones((1, 2)).view(np.matrix))
    array([[1., 1.]])
    >>> try:
    ...     plain("demo", "input", np.ma.masked_array([1.0, 2.0], mask=[0, 1]))
    ... except DTypeError as error:
    ...     print(error.argument, error.label)
    input of type MaskedArray I8
    """
    if type(value) is np.ndarray:
        return value
    refuse_mask(operator, name, value)
    return np.asarray(value)
