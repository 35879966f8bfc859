"""Arguments as ``torch.nn.functional`` takes them, as one integer per axis. The compiler traces this: kept plain."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import torch

from halfulp.torch._errors import TorchShapeError

T = TypeVar("T")


def per_axis(operator: str, name: str, value: Any, ndim: int) -> tuple[int, ...]:
    """An integer or a sequence of one or ``ndim`` integers, as ``ndim`` of them."""
    if isinstance(value, (list, tuple, torch.Size)):
        if len(value) == ndim:
            return tuple(value)
        if len(value) == 1:
            return tuple(value) * ndim
        raise TorchShapeError(operator, f"{name}={tuple(value)}", f"must be an integer or {ndim} of them", "W6")
    return (value,) * ndim


def padding_per_axis(operator: str, value: Any, ndim: int) -> tuple[int, ...]:
    """The padding of every axis; (before, after) pairs as one flat list, which a schema can hold."""
    given: Any = per_axis(operator, "padding", value, ndim)
    if any(isinstance(side, str) for side in given):
        text = "every padding must be an integer >= 0 or a (before, after) pair"
        raise TorchShapeError(operator, f"padding={value!r}", text, "W2")
    if any(isinstance(side, (tuple, list)) and len(side) == 2 for side in given):
        return tuple(s for side in given for s in (side if isinstance(side, (tuple, list)) else (side, side)))
    return tuple(given)


def rank_of(operator: str, name: str, value: Any) -> int:
    """How many axes a sequence speaks of; an integer does not say."""
    if isinstance(value, (list, tuple, torch.Size)) and value:
        return len(value)
    raise TorchShapeError(
        operator, f"{name}={value!r}", f"the rank is not known; give one {name} per axis, such as (3, 3)", "W6"
    )


def stride_or_kernel(operator: str, stride: Any, kernel: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    """The stride; None or an empty sequence means the kernel's size."""
    if stride is None or (isinstance(stride, (list, tuple)) and len(stride) == 0):
        return kernel
    return per_axis(operator, "stride", stride, ndim)


def check_half_padding(operator: str, kernel: Any, padding: Any) -> None:
    """PyTorch's own rule for windows: padding is at most half the kernel."""
    for k, sides in zip(kernel, padding, strict=True):
        if 2 * max(sides) > k:
            raise TorchShapeError(
                operator,
                f"padding={tuple(before if before == after else (before, after) for before, after in padding)}",
                f"must be at most half the kernel size {tuple(kernel)}, as in PyTorch",
                "B1",
            )


def hashable(value: Any) -> Any:
    """An argument as a memory's key: sequences as tuples."""
    return tuple(hashable(item) for item in value) if isinstance(value, (list, tuple)) else value


def remembered(function: Callable[..., T]) -> Callable[..., T]:
    """The function with a memory, also for lists, which have no hash."""
    memory = lru_cache(maxsize=1024, typed=True)(function)

    def call(*arguments: Any) -> T:
        try:
            return memory(*arguments)
        except TypeError:
            return function(*map(hashable, arguments))

    return call
