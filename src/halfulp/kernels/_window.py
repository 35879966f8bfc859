"""The arguments of a sliding window as the compiled core takes them."""

from __future__ import annotations

from typing import TypedDict

from halfulp import _core
from halfulp.records import WindowOperator


class WindowArguments(TypedDict):
    """The first argument of the core's sliding operators."""

    windows: _core.Windows


def window_arguments(op: WindowOperator) -> WindowArguments:
    """Name, kernel, stride, padding, dilation and ceil_mode."""
    padding = op.padding
    given = not isinstance(padding, str)
    windows = _core.Windows(
        name=op.name,
        kernel=op.kernel_size,
        stride=op.stride,
        before=[before for before, _ in padding] if given else [],
        after=[after for _, after in padding] if given else [],
        padding="given" if given else padding,
        dilation=op.dilation,
        ceil_mode=op.ceil_mode,
    )
    return {"windows": windows}
