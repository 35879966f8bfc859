"""Softmax and LogSoftmax: one operator, rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from halfulp.autograd import apply, ops
from halfulp.onnx._node import Node
from halfulp.onnx.operators._moving import axis_of
from halfulp.records import LogSoftmax, Softmax


def softmax(node: Node) -> Callable[..., Any]:
    """Softmax over one axis; before operator set 13 over all axes from ``axis`` on."""
    return _over_axis(node, Softmax)


def log_softmax(node: Node) -> Callable[..., Any]:
    """LogSoftmax, as Softmax."""
    return _over_axis(node, LogSoftmax)


def _over_axis(node: Node, record: Callable[[int], Any]) -> Callable[..., Any]:
    axis = node.integer("axis", -1 if node.opset >= 13 else 1)

    def run(x: Any) -> Any:
        node.fits(tuple(x.shape), x)
        ndim = len(x.shape)
        if node.opset < 13:
            place = axis if axis == ndim else axis_of(node, axis, ndim)
            rows = ops.reshape(x, (math.prod(x.shape[:place]), math.prod(x.shape[place:])))
            return ops.reshape(apply(record(-1), rows), tuple(x.shape))
        return apply(record(axis_of(node, axis, max(ndim, 1))), x)

    return run
