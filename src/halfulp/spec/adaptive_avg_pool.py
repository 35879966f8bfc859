"""Adaptive average pooling: the mean of the bins [floor(i*in/out), ceil((i+1)*in/out)).

forward   sum(x) / n over the n cells of a bin
JVP       sum(t) / n
VJP       g / n to every cell of the bin; bins may overlap, and their shares add up
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from halfulp.records import AdaptiveAvgPool
from halfulp.spec._pooling import Pooling
from halfulp.spec._registry import register
from halfulp.spec.adaptive_max_pool import bins
from halfulp.spec.avg_pool import chosen, mean, present


def bin_mean(op: Any, zero: Any, values: Sequence[Any], padded: int) -> Any:
    """The mean of a bin; 0 if it is empty, NaN if that is all it holds."""
    cells = chosen(values, present(op, values))
    return mean(zero, cells, len(cells)) if cells or not values else values[0]


def bin_mean_jvp(op: Any, zero: Any, values: Sequence[Any], tangents: Sequence[Any], padded: int) -> Any:
    """The mean of the tangents of a bin."""
    cells = chosen(tangents, present(op, values))
    return mean(zero, cells, len(cells))


def bin_mean_vjp(op: Any, zero: Any, values: Sequence[Any], cotangent: Any, padded: int) -> list[Any]:
    """An equal share of the cotangent for every cell that takes part."""
    here = present(op, values)
    return [cotangent / sum(here) if part else None for part in here]


register(AdaptiveAvgPool, Pooling(bins, bin_mean, bin_mean_jvp, bin_mean_vjp))
