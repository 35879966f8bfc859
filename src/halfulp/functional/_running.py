"""Batch norm with running statistics, which a call in training moves in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from halfulp.errors import ShapeError
from halfulp.kernels.normalization import moved_statistic


def with_running_statistics(op: Any, inputs: tuple[Any, ...], out: Any = None) -> Any:
    """The record's value; in training the running statistics, where they are NumPy arrays, are then moved."""
    if not op.training:
        return op(*inputs, out=out)
    x, weight, bias, mean, variance = inputs
    output = op(x, weight, bias, out=out)
    for squares, old in ((False, mean), (True, variance)):
        if isinstance(old, np.ndarray) and isinstance(x, np.ndarray):
            if old.shape != (x.shape[1],):
                name = "running_var" if squares else "running_mean"
                raise ShapeError(
                    op.name, f"{name} shape={old.shape}", f"must be ({x.shape[1]},), one per channel", "R4"
                )
            old[...] = moved_statistic(op, x, old, squares)
    return output
