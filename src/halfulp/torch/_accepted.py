"""Parameters that PyTorch's functions take and our records do not have, on tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import torch
import torch.nn.functional
from torch import Tensor

from halfulp.errors import HalfulpError
from halfulp.functional import _accepted
from halfulp.records import Mean, Var
from halfulp.torch._bridge import tensors_of
from halfulp.torch._errors import as_torch_error

__all__ = ["in_dtype", "move_statistics", "no_weight", "resized"]

_mean, _var = tensors_of(Mean, Var)
F = TypeVar("F", bound=Callable[..., Any])


def _with_torch_errors(function: F) -> F:
    @wraps(function)
    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except HalfulpError as error:
            raise as_torch_error(error) from None

    return call  # type: ignore[return-value]


no_weight = _with_torch_errors(_accepted.no_weight)
resized = _with_torch_errors(_accepted.resized)


def in_dtype(input: Tensor, dtype: Any) -> Tensor:
    """The input cast to a type, where one is given."""
    return input if dtype is None else input.to(dtype)


def move_statistics(input: Tensor, running_mean: Any, running_var: Any, momentum: float) -> None:
    """As :func:`halfulp.functional._accepted.move_statistics`; one cell has no variance, which is PyTorch's error."""
    if running_mean is None and running_var is None:
        return
    functional: Any = torch.nn.functional
    functional._verify_spatial_size(input.shape)
    spatial, x = tuple(range(2, input.dim())), input.detach()
    with torch.no_grad():
        if running_mean is not None:
            _move(running_mean, _mean(0, (x,), False, (0, *spatial), False), momentum)
        if running_var is not None:
            _move(running_var, _mean(0, (_var(0, (x,), False, spatial, 1, False),), False, (0,), False), momentum)


def _move(old: Tensor, new: Tensor, momentum: float) -> None:
    kept, added = (torch.tensor(factor, dtype=old.dtype) for factor in (1 - momentum, momentum))
    old.copy_(old * kept + new.to(old.dtype) * added)
