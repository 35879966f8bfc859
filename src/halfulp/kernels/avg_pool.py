"""Average pooling in the compiled core."""

from __future__ import annotations

from functools import lru_cache

from halfulp import _core
from halfulp.kernels._average import register_average
from halfulp.kernels._window import window_arguments
from halfulp.records import AvgPool


@lru_cache(maxsize=1024)
def compiled(op: AvgPool) -> _core.AvgOperator:
    """The core's object for a record; it holds the window plans of the shapes that it has met lately."""
    return _core.avg_pool(
        **window_arguments(op), count_include_pad=op.count_include_pad, divisor=op.divisor_override or 0
    )


register_average(AvgPool, compiled)
