"""MaxPool, AveragePool, GlobalAveragePool, GlobalMaxPool."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfulp.autograd.traced import strip
from halfulp.dispatch import indices as winners
from halfulp.onnx._node import Node
from halfulp.onnx.operators._plain import direct
from halfulp.onnx.operators._window import check_rank, kernel_shape, window
from halfulp.records import AvgPool, GlobalAvgPool, GlobalMaxPool, MaxPool


def max_pool(node: Node) -> Callable[..., Any]:
    """MaxPool, with the Indices of the winners if the node has a second output."""
    kernel, shared = kernel_shape(node), window(node)
    # With auto_pad ONNX's formula for the output's size is the same whether ceil_mode is set or not.
    ceil_mode = node.flag("ceil_mode") and not shared.automatic
    column_major = node.flag("storage_order")
    op = MaxPool(kernel, shared.stride, shared.padding, shared.dilation, ceil_mode)
    with_indices = len(node.outputs) > 1 and node.outputs[1] != ""

    def run(x: Any) -> Any:
        check_rank(node, x, op.ndim)
        node.fits(op.output_shape(x.shape), x)
        if not with_indices:
            return op(x)
        array = strip(x)
        output, found = winners(op, array)
        positions = _positions(found, array.shape[2:], column_major)
        return (output if array is x else op(x)), positions

    return run


def _positions(found: NDArray[np.int64], spatial: tuple[int, ...], column_major: bool) -> NDArray[np.int64]:
    """Indices into a plane as indices into the whole tensor, in ONNX's row-major or column-major count."""
    plane = math.prod(spatial)
    within = found
    if column_major and plane:
        coordinates = np.unravel_index(np.maximum(found, 0), spatial)
        within = np.ravel_multi_index(coordinates[::-1], spatial[::-1]).astype(np.int64)
    planes = np.arange(math.prod(found.shape[:2]), dtype=np.int64).reshape(*found.shape[:2], *(1,) * len(spatial))
    return np.where(found < 0, np.int64(-1), within + planes * plane)


def average_pool(node: Node) -> Callable[..., Any]:
    """AveragePool: cells of the padding count with count_include_pad, cells that only ceil_mode reaches never."""
    kernel, shared = kernel_shape(node), window(node)
    ceil_mode = node.flag("ceil_mode") and not shared.automatic
    include = node.flag("count_include_pad")
    op = AvgPool(kernel, shared.stride, shared.padding, ceil_mode, include, dilation=shared.dilation)

    def run(x: Any) -> Any:
        check_rank(node, x, op.ndim)
        node.fits(op.output_shape(x.shape), x)
        return op(x)

    return run


def global_average_pool(node: Node) -> Callable[..., Any]:
    """GlobalAveragePool over all axes after the first two."""
    return lambda x: _global_average(spatial_rank(node, x))(x)


@lru_cache(maxsize=8)
def _global_average(ndim: int) -> Callable[..., Any]:
    return direct(GlobalAvgPool(ndim))


def global_max_pool(node: Node) -> Callable[..., Any]:
    """GlobalMaxPool over all axes after the first two."""
    return lambda x: GlobalMaxPool(spatial_rank(node, x))(x)


def spatial_rank(node: Node, x: Any) -> int:
    """How many axes follow the first two."""
    if len(x.shape) < 3:
        raise node.refusal(f"input shape={tuple(x.shape)}", "must have spatial axes after two others", "O9")
    return len(x.shape) - 2
