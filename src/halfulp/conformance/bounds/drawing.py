"""Networks drawn at random, over the full geometry of windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from halfulp.conformance.bounds.network import Layer, Network, Shape
from halfulp.conformance.bounds.records import draw_record
from halfulp.errors import HalfulpError
from halfulp.records import AvgPool, Conv, LpPool, MaxPool, MinPool, SumPool

__all__ = ["draw"]

Generator = np.random.Generator
_STYLES = ("any", "any", "any", "monotone", "affine")
_KINDS = {
    "any": ("conv", "max", "avg", "relu", "conv", "max", "avg", "relu", "min", "sum", "norm"),
    "monotone": ("conv", "max", "avg", "relu", "min", "sum"),
    "affine": ("conv", "avg", "sum"),
}
_CELLS = 40
"""The most inputs of a network."""
_OUTPUTS = 16


def draw(seed: int, number: int, records: bool = False) -> Network:
    """The network of this number: the same for the same seed. With ``records`` every fourth one is of the registry.

    >>> network = draw(0, 3)
    >>> bool((network.lower <= network.upper).all()), len(network.layers) in range(1, 6)
    (True, True)
    """
    generator = np.random.default_rng([seed, number])
    while True:
        network = draw_record(generator, _box) if records and number % 4 == 3 else _attempt(generator)
        if network is not None:
            return network


def _attempt(generator: Generator) -> Network | None:
    style = _STYLES[int(generator.integers(len(_STYLES)))]
    ndim = 1 if generator.random() < 0.2 else 2
    channels = int(generator.integers(1, 3))
    shape = (channels, *(int(n) for n in generator.integers(2, 6 if ndim == 2 else 9, size=ndim)))
    if int(np.prod(shape)) > _CELLS:
        return None
    lower, upper = _box(generator, shape)
    layers: list[Layer] = []
    try:
        for _ in range(int(generator.integers(1, 5))):
            kind = str(generator.choice(_KINDS[style]))
            layer = _layer(generator, kind, shape, style == "monotone")
            if _contested(layer, shape):
                return None
            shape = layer.output_shape(shape)
            layers.append(layer)
        if generator.random() < 0.4 and int(np.prod(shape)) <= _CELLS:
            layers.append(_linear(generator, shape, style == "monotone"))
    except HalfulpError:
        return None
    network = Network(tuple(layers), lower, upper)
    return network if int(np.prod(network.shapes[-1])) <= _OUTPUTS else None


def _contested(layer: Layer, shape: Shape) -> bool:
    """Whether ceil_mode has a last window past the input: ONNX's text drops it, its shape inference does not."""
    if not getattr(layer.op, "ceil_mode", False):
        return False
    op = layer.op
    for size, k, s, d, pair, target in zip(
        shape[1:], op.kernel_size, op.stride, op.dilation, op.padding, op.output_shape(shape)[1:], strict=True
    ):
        if -((size + sum(pair) - d * (k - 1) - 1) // -s) + 1 != target:
            return True
    return False


def _box(generator: Generator, shape: Shape) -> tuple[Any, Any]:
    """Cells with different widths, some of them 0; sometimes all below zero, where a padded zero would win."""
    width = generator.choice([0, 1, 2, 4, 16, 32], size=shape) * generator.integers(0, 2, size=shape)
    if generator.random() < 0.5:
        width = np.full(shape, int(generator.choice([1, 4, 16])))
    middle = generator.integers(-32, 33, size=shape)
    if generator.random() < 0.35:
        middle = -np.abs(middle) - width - 1
    return (middle - width) / 16.0, (middle + width) / 16.0


def _layer(generator: Generator, kind: str, shape: Shape, monotone: bool) -> Layer:
    if kind == "relu":
        return Layer("relu")
    ndim = len(shape) - 1
    stride = tuple(int(n) for n in generator.integers(1, 4, size=ndim))
    dilation = tuple(int(n) for n in generator.choice([1, 1, 2], size=ndim))
    if kind == "conv":
        return _conv(generator, shape, monotone, stride, dilation)
    kernel = tuple(int(n) for n in generator.integers(1, 4, size=ndim))
    padding = tuple((int(generator.integers(0, k)), int(generator.integers(0, k))) for k in kernel)
    if generator.random() < 0.5:
        padding = tuple((min(pair), min(pair)) for pair in padding)
    ceil_mode = bool(generator.random() < 0.3)
    if kind == "max":
        return Layer("max", MaxPool(kernel, stride, padding, dilation, ceil_mode))
    if kind == "min":
        return Layer("min", MinPool(kernel, stride, padding, dilation, ceil_mode))
    if kind == "norm":
        return Layer("norm", LpPool(kernel, 1, stride, padding, dilation, ceil_mode))
    if kind == "sum":
        return Layer("sum", SumPool(kernel, stride, padding))
    include = bool(generator.random() < 0.5)
    plain = tuple(1 for _ in dilation) if generator.random() < 0.8 else dilation
    return Layer("avg", AvgPool(kernel, stride, padding, ceil_mode, include, dilation=plain))


def _conv(generator: Generator, shape: Shape, monotone: bool, stride: Shape, dilation: Shape) -> Layer:
    ndim, channels = len(shape) - 1, shape[0]
    groups = channels if generator.random() < 0.2 else 1
    kernel = tuple(int(n) for n in generator.integers(1, 4, size=ndim))
    targets = groups * int(generator.integers(1, 3))
    padding = tuple((int(generator.integers(0, k)), int(generator.integers(0, k))) for k in kernel)
    weight = _numbers(generator, (targets, channels // groups, *kernel), monotone)
    return Layer("conv", Conv(ndim, stride, padding, dilation, groups), weight, _numbers(generator, (targets,), False))


def _linear(generator: Generator, shape: Shape, monotone: bool) -> Layer:
    targets = int(generator.integers(1, 4))
    weight = _numbers(generator, (targets, int(np.prod(shape))), monotone)
    return Layer("linear", None, weight, _numbers(generator, (targets,), False))


def _numbers(generator: Generator, shape: Shape, positive: bool) -> Any:
    numbers = generator.integers(-16, 17, size=shape) / 16.0
    return np.abs(numbers) if positive else numbers
