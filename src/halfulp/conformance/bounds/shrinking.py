"""Smaller networks near a given one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from halfulp.conformance.bounds.network import Layer, Network
from halfulp.errors import HalfulpError

__all__ = ["smaller"]


def smaller(network: Network) -> Iterator[Network]:
    """Networks with a layer less, plainer windows, or fewer cells; each one has fitting shapes."""
    if any(layer.kind == "record" for layer in network.layers):
        return
    for candidate in _candidates(network):
        try:
            shapes = candidate.shapes
        except HalfulpError:
            continue
        if all(min(shape) > 0 for shape in shapes):
            yield candidate


def _candidates(network: Network) -> Iterator[Network]:
    layers = network.layers
    for index in range(len(layers)):
        if len(layers) > 1:
            yield replace(network, layers=layers[:index] + layers[index + 1 :])
    for index, layer in enumerate(layers):
        for plain in _plainer(layer):
            yield replace(network, layers=(*layers[:index], plain, *layers[index + 1 :]))
    for axis in range(network.lower.ndim):
        size = network.lower.shape[axis]
        for half in (slice(0, size - 1), slice(1, size)):
            part = tuple(half if a == axis else slice(None) for a in range(network.lower.ndim))
            if size > 1:
                yield replace(network, lower=network.lower[part], upper=network.upper[part])


def _plainer(layer: Layer) -> Iterator[Layer]:
    """The layer with one of its options at the default, or a kernel axis shorter."""
    op = layer.op
    if op is None:
        return
    ndim = len(op.stride)
    plain: dict[str, Any] = {"dilation": (1,) * ndim, "padding": ((0, 0),) * ndim, "stride": (1,) * ndim}
    plain |= {"ceil_mode": False, "count_include_pad": True}
    for name, value in plain.items():
        if hasattr(op, name) and getattr(op, name) != value:
            yield replace(layer, op=replace(op, **{name: value}))
    for axis in range(ndim):
        if op.padding[axis] != (0, 0):
            padding = tuple((0, 0) if a == axis else pair for a, pair in enumerate(op.padding))
            yield replace(layer, op=replace(op, padding=padding))
        if layer.kind != "conv" and op.kernel_size[axis] > 1:
            kernel = tuple(k - (a == axis) for a, k in enumerate(op.kernel_size))
            yield replace(layer, op=replace(op, kernel_size=kernel))
    if layer.weight is not None and np.any(layer.bias):
        yield replace(layer, bias=np.zeros_like(layer.bias))
