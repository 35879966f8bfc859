"""LpPool and GlobalLpPool for every integer p >= 1, correctly rounded in value and derivative."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from halfulp.onnx._node import Node
from halfulp.onnx.operators._window import check_rank, kernel_shape, window
from halfulp.onnx.operators.pooling import spatial_rank
from halfulp.records import GlobalLpPool, LpPool


def lp_pool(node: Node) -> Callable[..., Any]:
    """LpPool. Padding adds nothing to a norm."""
    kernel, shared = kernel_shape(node), window(node)
    ceil_mode = node.flag("ceil_mode") and not shared.automatic
    p = _exponent(node)
    if math.prod(kernel) > 1 << 20:
        raise node.refusal(f"kernel_shape={kernel}", "must have at most 2**20 cells")
    op = LpPool(kernel, p, shared.stride, shared.padding, shared.dilation, ceil_mode)

    def run(x: Any) -> Any:
        check_rank(node, x, op.ndim)
        node.fits(op.output_shape(x.shape), x, scratch=0 if x.dtype == object else 128)
        axes = op.axes(tuple(x.shape[2:]))
        node.fits((*x.shape[:2], *(axis.padded_size + axis.extent for axis in axes)), np.empty(0))
        return op(x)

    return run


def global_lp_pool(node: Node) -> Callable[..., Any]:
    """GlobalLpPool over all axes after the first two."""
    p = _exponent(node)
    return lambda x: GlobalLpPool(spatial_rank(node, x), p)(x)


def _exponent(node: Node) -> int:
    p = node.integer("p", 2)
    if p < 1:
        raise node.refusal(f"p={p}", "must be an integer >= 1")
    return p
