"""Parameters that PyTorch's functions take and our records do not have, on tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from torch import Tensor

from halfulp.errors import HalfulpError
from halfulp.functional import _accepted
from halfulp.torch._errors import as_torch_error

__all__ = ["implied_axis", "in_dtype", "no_statistics", "no_weight", "resized"]

F = TypeVar("F", bound=Callable[..., Any])


def _with_torch_errors(function: F) -> F:
    @wraps(function)
    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except HalfulpError as error:
            raise as_torch_error(error) from None

    return call  # type: ignore[return-value]


no_statistics = _with_torch_errors(_accepted.no_statistics)
no_weight = _with_torch_errors(_accepted.no_weight)
resized = _with_torch_errors(_accepted.resized)


def in_dtype(input: Tensor, dtype: Any) -> Tensor:
    """The input cast to a type, where one is given."""
    return input if dtype is None else input.to(dtype)


def implied_axis(input: Tensor) -> int:
    """PyTorch's choice of the axis of a softmax where none is given."""
    return 0 if input.dim() in (0, 1, 3) else 1
