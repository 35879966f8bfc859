"""Sum pooling in the compiled core: average pooling with the divisor 1."""

from __future__ import annotations

from functools import lru_cache

from halfulp import _core
from halfulp.kernels._average import register_average
from halfulp.kernels._window import window_arguments
from halfulp.records import SumPool


@lru_cache(maxsize=1024)
def compiled(op: SumPool) -> _core.AvgOperator:
    """The core's object for a record; it holds the window plans of the shapes that it has met lately."""
    return _core.avg_pool(**window_arguments(op), count_include_pad=True, divisor=1)


register_average(SumPool, compiled)
