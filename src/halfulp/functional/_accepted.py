"""Parameters that PyTorch's functions take and our records do not have: what they change, or why they are refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from halfulp.errors import DTypeError, PolicyError, ShapeError
from halfulp.numbers import is_float
from halfulp.records import Mean, Var

__all__ = [
    "implied_axis",
    "in_dtype",
    "in_place",
    "move_statistics",
    "no_weight",
    "older_reduction",
    "resized",
    "without_batch",
]


def older_reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """PyTorch's older words for a reduction.

    >>> older_reduction(False, None, "mean"), older_reduction(None, False, "mean"), older_reduction(None, None, "sum")
    ('sum', 'none', 'sum')
    """
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def in_dtype(input: Any, dtype: Any) -> Any:
    """The input cast to a type, where one is given."""
    return input if dtype is None else input.astype(dtype)


def in_place(operator: str, input: Any) -> Any:
    """The array that an activation writes to: its input."""
    if not isinstance(input, np.ndarray):
        raise DTypeError(operator, "inplace=True", "the input must be a NumPy array", "I6")
    return input


def implied_axis(input: Any) -> int:
    """PyTorch's choice of the axis of a softmax where none is given."""
    return 0 if np.ndim(input) in (0, 1, 3) else 1


def no_weight(weight: Any) -> None:
    """Weights of single squares are a product of their own."""
    if weight is not None:
        text = "must be None; multiply mse_loss(input, target, reduction='none') by it"
        raise PolicyError("mse_loss", "weight given", text, "Z4")


def move_statistics(input: Any, running_mean: Any, running_var: Any, momentum: float) -> None:
    """The running statistics of an instance norm become (1 - momentum) * old + momentum * new, step by step.

    New are the mean of the input, and the mean over the batch of the variances with n - 1.
    """
    running = [("running_mean", running_mean), ("running_var", running_var)]
    running = [(name, old) for name, old in running if isinstance(old, np.ndarray) and isinstance(input, np.ndarray)]
    for name, old in running:
        if old.shape != input.shape[1:2]:
            text = f"must be {tuple(input.shape[1:2])}, one per channel"
            raise ShapeError("instance_norm", f"{name} shape={old.shape}", text, "R4")
    for name, old in running:
        spatial = tuple(range(2, input.ndim))
        new = Mean((0, *spatial))(input) if name == "running_mean" else Mean((0,))(Var(spatial)(input))
        cast = old.dtype.type if is_float(old.dtype) else Fraction
        old[...] = old * cast(1 - momentum) + new.astype(old.dtype) * cast(momentum)


def resized(input: Any, size: Any, scale_factor: Any, antialias: bool) -> tuple[Any, None]:
    """The size of an interpolation whose factors are computed again from it, as PyTorch takes it."""
    if antialias:
        raise PolicyError("interpolate", "antialias=True", "must be False", "Z2")
    spatial = tuple(input.shape[2:])
    if size is None and scale_factor is not None:
        factors = scale_factor if isinstance(scale_factor, (list, tuple)) else (scale_factor,) * len(spatial)
        size = tuple(int(n * float(f)) for n, f in zip(spatial, factors, strict=True))
    elif isinstance(size, int):
        size = (size,) * len(spatial)
    return size, None


def without_batch(output_size: Any, rank: int | None) -> Any:
    """The spatial part of an unpooling's output size, which PyTorch also takes with batch and channels."""
    whole = rank is not None and isinstance(output_size, (tuple, list)) and len(output_size) == rank + 2
    return tuple(output_size)[2:] if whole else output_size
