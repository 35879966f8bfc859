"""Adaptive max pooling: the hard maximum of the bins [floor(i*in/out), ceil((i+1)*in/out)).

The maximum starts from a bin's first cell, not from -infinity. Value, JVP and VJP of a bin are those of a window of
hard max pooling.
"""

from __future__ import annotations

from collections.abc import Iterable

from halfulp.geometry import Window, adaptive_windows
from halfulp.records import AdaptiveMaxPool, AdaptiveOperator, Shape
from halfulp.spec._pooling import Pooling
from halfulp.spec._registry import register
from halfulp.spec.max_pool import max_pool_index, max_pool_jvp_value, max_pool_value, max_pool_vjp_values


def bins(op: AdaptiveOperator, spatial: Shape) -> Iterable[Window]:
    """The adaptive bins of a plane."""
    return adaptive_windows(spatial, op.spatial_output(spatial))


register(AdaptiveMaxPool, Pooling(bins, max_pool_value, max_pool_jvp_value, max_pool_vjp_values, max_pool_index))
