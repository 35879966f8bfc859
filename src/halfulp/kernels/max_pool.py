"""Hard max pooling in the compiled core."""

from __future__ import annotations

from functools import lru_cache

from halfulp import _core
from halfulp.kernels._hard_max import register_hard_max
from halfulp.kernels._window import window_arguments
from halfulp.records import MaxPool


@lru_cache(maxsize=1024)
def compiled(op: MaxPool) -> _core.MaxOperator:
    """The core's object for a record; it holds the window plans of the shapes that it has met lately."""
    return _core.max_pool(**window_arguments(op), ties=op.ties, nan=op.nan)


register_hard_max(MaxPool, compiled)
