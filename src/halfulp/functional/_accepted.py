"""Parameters that PyTorch's functions take and our records do not have: what they change, or why they are refused."""

from __future__ import annotations

from typing import Any

from halfulp.errors import PolicyError, ShapeError

__all__ = ["in_dtype", "no_statistics", "no_weight", "older_reduction", "resized", "without_batch"]


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


def no_weight(weight: Any) -> None:
    """Weights of single squares are a product of their own."""
    if weight is not None:
        text = "must be None; multiply mse_loss(input, target, reduction='none') by it"
        raise PolicyError("mse_loss", "weight given", text, "Z4")


def no_statistics(running_mean: Any, running_var: Any) -> None:
    """Instance norm of the input's own statistics keeps no running ones."""
    for name, statistic in (("running_mean", running_mean), ("running_var", running_var)):
        if statistic is not None:
            raise ShapeError("instance_norm", f"{name} given", "must be None with use_input_stats=True", "R4")


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
