"""Adaptive average pooling in the compiled core."""

from __future__ import annotations

from functools import lru_cache

from halfulp import _core
from halfulp.kernels._average import register_average
from halfulp.records import AdaptiveAvgPool


@lru_cache(maxsize=1024)
def compiled(op: AdaptiveAvgPool) -> _core.AvgOperator:
    """The core's object for a record; it holds the window plans of the shapes that it has met lately."""
    return _core.adaptive_avg_pool(name=op.name, output_size=[-1 if size is None else size for size in op.output_size])


register_average(AdaptiveAvgPool, compiled)
