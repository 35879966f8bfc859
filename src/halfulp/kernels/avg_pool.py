"""Average pooling in the compiled core."""

from __future__ import annotations

from functools import lru_cache

from halfulp import _core
from halfulp.kernels._average import register_average
from halfulp.records import AvgPool


@lru_cache(maxsize=1024)
def compiled(op: AvgPool) -> _core.AvgOperator:
    """The core's object for a record; it holds the window plans of the shapes that it has met lately."""
    padding = op.padding
    given = not isinstance(padding, str)
    return _core.avg_pool(
        name=op.name,
        kernel=op.kernel_size,
        stride=op.stride,
        before=[before for before, _ in padding] if given else [],
        after=[after for _, after in padding] if given else [],
        padding="given" if given else padding,
        dilation=op.dilation,
        ceil_mode=op.ceil_mode,
        count_include_pad=op.count_include_pad,
        divisor=op.divisor_override or 0,
    )


register_average(AvgPool, compiled)
