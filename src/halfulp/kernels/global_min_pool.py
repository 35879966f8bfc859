"""Global min pooling in the compiled core: global max pooling of negated cells."""

from __future__ import annotations

from functools import lru_cache

from halfulp import _core
from halfulp.kernels._hard_max import register_hard_max
from halfulp.records import GlobalMinPool


@lru_cache(maxsize=1024)
def compiled(op: GlobalMinPool) -> _core.MaxOperator:
    """The core's object for a record; it holds the window plans of the shapes that it has met lately."""
    return _core.global_max_pool(
        name=op.name, ndim=op.ndim, keepdims=op.keepdims, ties=op.ties, nan=op.nan, cells="negated"
    )


register_hard_max(GlobalMinPool, compiled)
