"""Drawn networks of one to four layers, and second evaluations of them in float32 in other orders."""

from __future__ import annotations

from typing import Any

import numpy as np

import halfulp as hu
import halfulp.bounds as hb
from halfulp import ops
from halfulp.bounds._forward import absolute_of
from halfulp.bounds._maps import Gather, Mean
from halfulp.bounds._windows import cells_of


def draw(rng: np.random.Generator, dyadic: bool = False) -> hb.Network:
    """A network over one small plane; layers that do not fit are drawn again. Dyadic constants have at most 5 bits."""
    while True:
        sizes = (int(rng.integers(1, 3)), int(rng.integers(2, 5)), int(rng.integers(2, 5)))
        layers = [_layer(rng, dyadic) for _ in range(int(rng.integers(1, 5)))]

        def function(x: Any, layers: Any = layers) -> Any:
            for layer in layers:
                x = layer(x)
            return x

        try:
            return hb.from_function(function, sizes)
        except (hu.ShapeError, hu.TapeError):
            continue


def _layer(rng: np.random.Generator, dyadic: bool) -> Any:
    kind = int(rng.integers(0, 12))
    kernel = tuple(int(k) for k in rng.integers(1, 4, size=2))
    stride = tuple(int(s) for s in rng.integers(1, 3, size=2))
    padding = tuple((int(a), int(b)) for a, b in rng.integers(0, 2, size=(2, 2)))
    dilation = tuple(int(d) for d in rng.integers(1, 3, size=2))
    ceil = bool(rng.integers(0, 2))
    seed = int(rng.integers(0, 2**30)) * 2 + dyadic  # an odd seed makes dyadic constants
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
        outer = 1 + self.seed // 2 % 2
        first = (outer, channels) if isinstance(self.record, hu.Conv) else (channels, outer)
        weight = _constant(self.seed, (*first, *self.kernel), self.scale)
        return self.record(x, weight, _constant(self.seed + 2, (outer,), self.scale) if self.seed % 3 else None)


def _constant(seed: int, shape: tuple[int, ...], scale: float) -> Any:
    rng = np.random.default_rng(seed)
    drawn = rng.integers(-16, 17, size=shape) / 8 if seed % 2 else rng.normal(size=shape)
    return (drawn * scale).astype(np.float32)


def box_of(rng: np.random.Generator, shape: tuple[int, ...], dyadic: bool = False) -> hb.Box:
    """A box with float32 ends: some sides are points, some are equal, some wide."""
    if dyadic:
        low = rng.integers(-32, 33, size=shape) / 16
        return hb.Box(low, low + rng.integers(0, 9, size=shape) / 16 * rng.choice([0, 1, 4], size=shape))
    centre = rng.normal(size=shape).astype(np.float32)
    width = np.abs(rng.normal(size=shape)) * rng.choice([0.0, 2.0**-12, 0.1, 1.0], size=shape)
    low = (centre - width).astype(np.float32)
    high = np.maximum(low, (centre + width).astype(np.float32))
    return hb.Box(low, high)


def points_of(rng: np.random.Generator, box: hb.Box, count: int, dyadic: bool = False) -> Any:
    """float32 points of a box: corners first, then inside; dyadic ones are multiples of 1/64."""
    low, high = box.lower.astype(np.float32), box.upper.astype(np.float32)
    share = rng.random((count, *box.shape)).astype(np.float32)
    share[: count // 2] = np.rint(share[: count // 2])
    if dyadic:
        share = np.rint(share * 4) / np.float32(4)
    return np.clip(low + (high - low) * share, low, high).astype(np.float32)


def exactly(network: hb.Network, x: Any) -> Any:
    """The real value of a network at a float point: floats where float64 is exact, otherwise rationals."""
    values = [x.astype(np.float64)]
    for node in network.nodes[1:]:
        given = [values[i] for i in node.inputs]
        if any(v.dtype == object for v in given) or not _is_exact(node, given):
            given = [v if v.dtype == object else hu.exact(v) for v in given]
        values.append(node.run(*given))
    return values[network.output]


def _is_exact(node: Any, given: Any) -> bool:
    """Whether float64 computes a node without rounding, in any order.

    All products of an affine node are multiples of 2**-grid. If the sum of their absolute values is below
    2**(53 - grid), so is every partial sum, and each is a float64. Other nodes choose a number or multiply by 1/8.
    """
    if node.kind != "affine" or node.operator is None:
        return node.kind in ("max", "affine") or node.function in ("relu", "clip", "leaky_relu")
    reach, grid = np.zeros(node.shape), -200
    for linear, x in zip(node.maps, given, strict=True):
        if isinstance(linear, Mean):
            return False
        constants = getattr(linear, "weight", getattr(linear, "factor", np.ones(1)))
        grid = max(grid, _grid(constants) + _grid(x))
        reach = reach + absolute_of(linear).forward(np.abs(x)[None])[0]
    if node.bias is not None:
        grid, reach = max(grid, _grid(node.bias)), reach + np.abs(node.bias)
    return bool(reach.max(initial=0.0) * 1.001 < 2.0 ** (53 - grid))


def _grid(values: Any) -> int:
    """The least g for which all values are multiples of 2**-g."""
    fraction, exponent = np.frexp(np.asarray(values)[np.asarray(values) != 0])
    whole = (fraction * 2.0**53).astype(np.int64)
    least = np.log2((whole & -whole).astype(np.float64)).astype(np.int64) + exponent - 53
    return int(-least.min(initial=100))


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
