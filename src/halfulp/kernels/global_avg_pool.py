"""Global average pooling in the compiled core."""

from __future__ import annotations

from functools import lru_cache

from halfulp import _core
from halfulp.kernels._average import register_average
from halfulp.records import GlobalAvgPool


@lru_cache(maxsize=1024)
def compiled(op: GlobalAvgPool) -> _core.AvgOperator:
    """The core's object for a record; it holds the window plans of the shapes that it has met lately."""
    return _core.global_avg_pool(name=op.name, ndim=op.ndim, keepdims=op.keepdims)


register_average(GlobalAvgPool, compiled)
