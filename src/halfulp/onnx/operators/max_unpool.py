"""MaxUnpool: values back to where a MaxPool found them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfulp.onnx._node import Node
from halfulp.onnx.operators._window import check_rank, kernel_shape, window
from halfulp.records import MaxUnpool


def max_unpool(node: Node) -> Callable[..., Any]:
    """MaxUnpool. Indices count the cells of the whole tensor of the size that the window's formula gives.

    An ``output_shape`` only adds cells behind: what an index means does not depend on it.
    """
    kernel, shared = kernel_shape(node), window(node)
    plain = MaxUnpool(kernel, shared.stride, shared.padding)

    def run(x: Any, indices: NDArray[Any], output_shape: NDArray[Any] | None = None) -> Any:
        check_rank(node, x, plain.ndim)
        spatial = plain.spatial_output(tuple(x.shape[2:]))
        where = _within(node, indices, tuple(x.shape), spatial)
        op = plain
        if output_shape is not None:
            wanted = tuple(int(n) for n in output_shape)
            if wanted[:2] != tuple(x.shape[:2]) or any(m < n for m, n in zip(wanted[2:], spatial, strict=True)):
                raise node.refusal(f"output_shape={wanted}", f"must be at least {(*x.shape[:2], *spatial)}", "O9")
            coordinates = np.unravel_index(where, spatial)
            where = np.asarray(np.ravel_multi_index(coordinates, wanted[2:]), np.int64)
            op = MaxUnpool(kernel, shared.stride, shared.padding, wanted[2:])
        node.fits(op.output_shape(tuple(x.shape), where.shape), x)
        return op(x, where)

    return run


def _within(node: Node, indices: NDArray[Any], shape: tuple[int, ...], spatial: tuple[int, ...]) -> NDArray[Any]:
    """Indices into the whole tensor as indices into each plane."""
    cells = math.prod(spatial)
    if indices.shape != shape:
        raise node.refusal(f"indices shape={indices.shape}", f"must be {shape}, the shape of the input", "O9")
    planes = np.arange(shape[0] * shape[1], dtype=np.int64).reshape(*shape[:2], *(1,) * len(spatial))
    within: NDArray[Any] = indices - planes * cells
    if within.size and not (within.min() >= 0 and within.max() < cells):
        raise node.refusal("indices", "every index must be a cell of its own plane", "O9")
    return within
