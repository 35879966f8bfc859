"""Adaptive max pooling in the compiled core."""

from __future__ import annotations

from functools import lru_cache

from halfulp import _core
from halfulp.kernels._hard_max import register_hard_max
from halfulp.records import AdaptiveMaxPool


@lru_cache(maxsize=1024)
def compiled(op: AdaptiveMaxPool) -> _core.MaxOperator:
    """The core's object for a record; it holds the window plans of the shapes that it has met lately."""
    sizes = [-1 if size is None else size for size in op.output_size]
    return _core.adaptive_max_pool(name=op.name, output_size=sizes, ties=op.ties, nan=op.nan)


register_hard_max(AdaptiveMaxPool, compiled)
