"""float64 rounded once to shorter types."""

from __future__ import annotations

import torch
from torch import Tensor


def narrowed(values: Tensor, dtype: torch.dtype) -> Tensor:
    """float64 rounded once to ``dtype``: to 16 bits by way of a float32 that keeps the sticky bit."""
    single = values.to(torch.float32)
    if dtype is torch.float32:
        return single
    bits = single.view(torch.int32)
    off = single.double() != values
    above = single.double().abs() > values.abs()
    down = torch.where(off & above, bits - 1, bits)  # towards zero, then odd
    return torch.where(off & torch.isfinite(single), down | 1, bits).view(torch.float32).to(dtype)
