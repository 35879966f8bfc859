"""Batch and channel axes for frameworks that require both."""

from __future__ import annotations

from halfulp.conformance.subjects._base import Unsupported
from halfulp.conformance.subjects._layers import is_layer
from halfulp.records import Array, GlobalAvgPool, GlobalMaxPool, Operator, Shape


def batched(op: Operator, x: Array) -> Array:
    """The input with both a batch and a channel axis, which elementwise functions have no need of."""
    if op.elementwise or is_layer(op):
        return x
    missing = int(op.ndim) + 2 - x.ndim  # type: ignore[attr-defined]
    if missing < 0:
        raise Unsupported("more than one batch axis")
    grown: Array = x.reshape((1,) * missing + x.shape)
    return grown


def unbatched(op: Operator, shape: Shape, out: Array) -> Array:
    """The output without the axes that :func:`batched` added, and without those that ``keepdims=False`` drops."""
    if op.elementwise or is_layer(op):
        return out
    missing = op.ndim + 2 - len(shape)  # type: ignore[attr-defined]
    out = out.reshape(out.shape[missing:])
    if isinstance(op, (GlobalAvgPool, GlobalMaxPool)) and not op.keepdims:
        out = out.reshape(out.shape[: out.ndim - op.ndim])
    return out
