"""The arguments of a sliding window as the compiled core takes them."""

from __future__ import annotations

from typing import Any

from halfulp.records import WindowOperator


def window_arguments(op: WindowOperator) -> dict[str, Any]:
    """Name, kernel, stride, padding, dilation and ceil_mode."""
    padding = op.padding
    given = not isinstance(padding, str)
    return {
        "name": op.name,
        "kernel": op.kernel_size,
        "stride": op.stride,
        "before": [before for before, _ in padding] if given else [],
        "after": [after for _, after in padding] if given else [],
        "padding": "given" if given else padding,
        "dilation": op.dilation,
        "ceil_mode": op.ceil_mode,
    }
