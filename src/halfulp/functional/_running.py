"""Batch norm with running statistics, which a call in training moves in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from halfulp.errors import ShapeError
from halfulp.kernels.normalization import in_training, moved_statistic
from halfulp.numbers import is_float


def with_running_statistics(op: Any, inputs: tuple[Any, ...], out: Any = None) -> Any:
    """The record's value; in training the running statistics, where they are NumPy arrays, are then moved."""
    if not op.training:
        return op(*inputs, out=out)
    x, weight, bias, mean, variance = inputs
    running = [old if isinstance(old, np.ndarray) and isinstance(x, np.ndarray) else None for old in (mean, variance)]
    for name, old in zip(("running_mean", "running_var"), running, strict=True):
        if old is not None and x.ndim > 1 and old.shape != (x.shape[1],):
            text = f"must be ({x.shape[1]},), one per channel"
            raise ShapeError(op.name, f"{name} shape={old.shape}", text, "R4")
    if out is None and all(a is None or (type(a) is np.ndarray and is_float(a.dtype)) for a in inputs[:3]):
        output, moved = in_training(op, inputs[:3], running)
    else:
        output = op(x, weight, bias, out=out)
        pairs = enumerate(running)
        moved = [None if old is None else moved_statistic(op, x, old, bool(squares)) for squares, old in pairs]
    for old, new in zip(running, moved, strict=True):
        if old is not None:
            old[...] = new
    return output
