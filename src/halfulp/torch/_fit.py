"""PyTorch accepts with ceil_mode a window that is larger than the padded input; our records do not. The same meaning.

PyTorch's one window then starts at the padding and reaches beyond it. Cells beyond the padding are never counted, so

- a hard max over it is a hard max with that much more padding behind the input, which it ignores, and
- an average over it is one whose kernel ends where the padding ends.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from halfulp.records import Operator, WindowOperator, declaration_of


def fitted(record: Operator, shape: Any) -> Operator:
    """A record that the specification accepts and that gives what PyTorch's rule for ceil_mode means."""
    if not isinstance(record, WindowOperator) or not record.ceil_mode or isinstance(record.padding, str):
        return record
    declaration = declaration_of(record)
    if declaration.kind == "smooth" and not declaration.torch:
        return record
    sizes = shape[len(shape) - record.ndim :]
    extents = [d * (k - 1) + 1 for k, d in zip(record.kernel_size, record.dilation, strict=True)]
    missing = [e - (n + b + a) for e, n, (b, a) in zip(extents, sizes, record.padding, strict=True)]
    # Without a full stride to spare the ceiling of the number of windows is still 1.
    fixable = [0 < m < s for m, s in zip(missing, record.stride, strict=True)]
    if not any(fixable):
        return record
    if declaration.kind == "selecting":
        padding = tuple(
            (b, a + m if fix else a) for (b, a), m, fix in zip(record.padding, missing, fixable, strict=True)
        )
        return replace(record, padding=padding)  # type: ignore[call-arg]  # every window has these fields
    # The cells that lie at most where the padding ends. No second window may start, so the stride is beyond the input.
    kernel = [
        k + -m // d if fix else k
        for k, m, d, fix in zip(record.kernel_size, missing, record.dilation, fixable, strict=True)
    ]
    stride = [e if fix else s for s, e, fix in zip(record.stride, extents, fixable, strict=True)]
    return replace(record, kernel_size=tuple(kernel), stride=tuple(stride))  # type: ignore[call-arg]
