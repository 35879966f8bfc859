"""Drawn networks of one to four layers, and second evaluations of them in float32 in other orders."""

from __future__ import annotations

from typing import Any

import numpy as np

import halfulp as hu
import halfulp.bounds as hb
from halfulp import ops
from halfulp.bounds._maps import Gather, Mean
from halfulp.bounds._windows import cells_of


def draw(rng: np.random.Generator) -> hb.Network:
    """A network over one small plane; layers that do not fit are drawn again."""
    while True:
        sizes = (int(rng.integers(1, 3)), int(rng.integers(2, 5)), int(rng.integers(2, 5)))
        layers = [_layer(rng) for _ in range(int(rng.integers(1, 5)))]

        def function(x: Any, layers: Any = layers) -> Any:
            for layer in layers:
                x = layer(x)
            return x

        try:
            return hb.from_function(function, sizes)
        except (hu.ShapeError, hu.TapeError):
            continue


def _layer(rng: np.random.Generator) -> Any:
    kind = int(rng.integers(0, 12))
    kernel = tuple(int(k) for k in rng.integers(1, 4, size=2))
    stride = tuple(int(s) for s in rng.integers(1, 3, size=2))
    padding = tuple((int(a), int(b)) for a, b in rng.integers(0, 2, size=(2, 2)))
    dilation = tuple(int(d) for d in rng.integers(1, 3, size=2))
    ceil = bool(rng.integers(0, 2))
    seed = int(rng.integers(0, 2**31))
    scale = float(2.0 ** rng.integers(-3, 3))
    if kind < 3:
        return hu.MaxPool(kernel, stride, padding, dilation, ceil)
    if kind == 3:
        divisor = [None, None, 3, -2][int(rng.integers(0, 4))]
        return hu.AvgPool(kernel, stride, padding, ceil, bool(rng.integers(0, 2)), divisor, dilation)
    if kind < 6:
        return _Convolution(hu.Conv(2, stride, padding, dilation), seed, scale, kernel)
    if kind == 6:
        return _Convolution(hu.ConvTranspose(2, stride, 0, 0, dilation), seed, scale, kernel)
    if kind < 9:
        return ops.relu
    if kind == 9:
        return lambda x: hb.leaky_relu(x, 0.125)
    if kind == 10:
        return lambda x: hb.clip(x, -0.5, 0.75)
    return lambda x: ops.relu(x) + x * _constant(seed, tuple(x.shape), scale)


class _Convolution:
    def __init__(self, record: Any, seed: int, scale: float, kernel: tuple[int, ...]) -> None:
        self.record, self.seed, self.scale, self.kernel = record, seed, scale, kernel

    def __call__(self, x: Any) -> Any:
        channels = x.shape[0]
        outer = 1 + self.seed % 2
        first = (outer, channels) if isinstance(self.record, hu.Conv) else (channels, outer)
        weight = _constant(self.seed, (*first, *self.kernel), self.scale)
        return self.record(x, weight, _constant(self.seed + 1, (outer,), self.scale) if self.seed % 3 else None)


def _constant(seed: int, shape: tuple[int, ...], scale: float) -> Any:
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


def box_of(rng: np.random.Generator, shape: tuple[int, ...]) -> hb.Box:
    """A box with float32 ends: some sides are points, some are equal, some wide."""
    centre = rng.normal(size=shape).astype(np.float32)
    width = np.abs(rng.normal(size=shape)) * rng.choice([0.0, 2.0**-12, 0.1, 1.0], size=shape)
    low = (centre - width).astype(np.float32)
    high = np.maximum(low, (centre + width).astype(np.float32))
    return hb.Box(low, high)


def points_of(rng: np.random.Generator, box: hb.Box, count: int) -> Any:
    """float32 points of a box: corners first, then inside."""
    low, high = box.lower.astype(np.float32), box.upper.astype(np.float32)
    share = rng.random((count, *box.shape)).astype(np.float32)
    share[: count // 2] = np.rint(share[: count // 2])
    return np.clip(low + (high - low) * share, low, high).astype(np.float32)


def shuffled(network: hb.Network, x: Any, rng: np.random.Generator) -> Any:
    """The network in float32 with every sum in a drawn order, one rounding after each operation."""
    values = [x]
    for node in network.nodes[1:]:
        given = [values[i] for i in node.inputs]
        if (
            node.kind == "affine"
            and node.operator is not None
            and isinstance(node.maps[0], Mean)
            and not isinstance(node.operator, (hu.SumPool, hu.Fold))
        ):
            values.append(_averages(node, given[0], rng))
        elif node.kind == "affine" and node.operator is not None and not isinstance(node.maps[0], Gather):
            values.append(_sums(node, given[0], rng))
        else:
            values.append(node.run(*given))
    return values[network.output]


def _accumulate(terms: Any, rng: np.random.Generator) -> Any:
    order = rng.permutation(terms.shape[-1])
    return np.add.accumulate(terms[..., order], axis=-1, dtype=np.float32)[..., -1]


def _sums(node: Any, x: Any, rng: np.random.Generator) -> Any:
    size = int(np.prod(x.shape))
    matrix = node.maps[0].forward(np.eye(size).reshape(size, *x.shape)).reshape(size, -1).T
    terms = matrix.astype(np.float32) * x.reshape(-1)
    if node.bias is not None:
        terms = np.concatenate([terms, node.bias.astype(np.float32).reshape(-1, 1)], axis=1)
    return _accumulate(terms, rng).reshape(node.shape)


def _averages(node: Any, x: Any, rng: np.random.Generator) -> Any:
    index, _ = cells_of(node.operator, x.shape)
    cells = np.where(index >= 0, x.reshape(-1)[np.maximum(index, 0)], np.float32(0))
    ones = np.ones(x.shape, dtype=np.float64)
    count = (index >= 0).sum(axis=-1)
    mean = np.asarray(node.operator(ones))
    divisor = np.where(mean == 0, 1.0, np.rint(count / np.where(mean == 0, 1.0, mean))).astype(np.float32)
    return (_accumulate(cells.astype(np.float32), rng) / divisor).astype(np.float32)
