"""Hard max pooling in the compiled core."""

from __future__ import annotations

from functools import lru_cache

from halfulp import _core
from halfulp.kernels._hard_max import register_hard_max
from halfulp.records import MaxPool


@lru_cache(maxsize=1024)
def compiled(op: MaxPool) -> _core.MaxOperator:
    """The core's object for a record; it holds the window plans of the shapes that it has met lately."""
    padding = op.padding
    given = not isinstance(padding, str)
    return _core.max_pool(
        name=op.name,
        kernel=op.kernel_size,
        stride=op.stride,
        before=[before for before, _ in padding] if given else [],
        after=[after for _, after in padding] if given else [],
        padding="given" if given else padding,
        dilation=op.dilation,
        ceil_mode=op.ceil_mode,
        ties=op.ties,
        nan=op.nan,
    )


register_hard_max(MaxPool, compiled)
