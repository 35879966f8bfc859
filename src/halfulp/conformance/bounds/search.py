"""Points of the box whose outputs are extreme, and exact ranges where they are known."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from halfulp.conformance.bounds.network import Array, Network

__all__ = ["Evidence", "evidence", "exact_range"]


@dataclass(frozen=True, eq=False)
class Evidence:
    """For every output: the least and greatest exact value that was found, and the inputs that give them."""

    least: list[Fraction]
    greatest: list[Fraction]
    least_at: list[Array]
    greatest_at: list[Array]
    whole: bool
    """Whether these are the ends of the exact range."""


def _fraction(value: Any) -> Fraction:
    return Fraction(int(value.p), int(value.q))


def _climb(network: Network, start: Array, outputs: int) -> list[Array]:
    """Corners in the direction of each output's gradient, and against it, then smaller steps inside the box."""
    sign = np.repeat([1.0, -1.0], outputs).reshape(-1, *[1] * start.ndim)
    numbers = np.tile(np.arange(outputs), 2)
    x, visited = np.stack([start] * 2 * outputs), []
    for step in (1.0, 1.0, 1.0, 0.5, 0.25, 0.125):
        direction = sign * network.gradient(x, numbers)
        corner = np.where(direction > 0, network.upper, np.where(direction < 0, network.lower, x))
        x = x + step * (corner - x)
        visited.append(x)
    return visited


def _candidates(network: Network, generator: np.random.Generator, outputs: int) -> Array:
    lower, upper = network.lower, network.upper
    points = [lower, upper, (lower + upper) / 2]
    for _ in range(8):
        points.append(np.where(generator.random(lower.shape) < 0.5, lower, upper))
        points.append(lower + generator.integers(0, 17, size=lower.shape) / 16.0 * (upper - lower))
    climbs = [stack for start in (points[2], points[3]) for stack in _climb(network, start, outputs)]
    return np.concatenate([np.stack(points), *climbs])


def exact_range(network: Network) -> tuple[Array, Array] | None:
    """For every output the inputs of the least and the greatest value, where theory gives them; otherwise None.

    A monotone network has them at the lowest and highest corner. An affine one has them at the corners that the signs
    of its gradient choose; the gradients are exact in float64, because every number of a network has few bits.
    """
    lower, upper = network.lower, network.upper
    outputs = int(np.prod(network.shapes[-1]))
    if network.monotone:
        return np.stack([lower] * outputs), np.stack([upper] * outputs)
    if network.affine and not _rounds(network):
        gradient = network.gradient(np.stack([lower] * outputs), np.arange(outputs))
        return np.where(gradient > 0, lower, upper), np.where(gradient > 0, upper, lower)
    return None


def _rounds(network: Network) -> bool:
    """Whether an average divides by a number that is not a power of two, so that a float64 gradient may be rounded."""
    return any(layer.kind == "avg" and int(np.prod(layer.op.kernel_size)) not in (1, 2, 4) for layer in network.layers)


def evidence(network: Network, seed: int) -> Evidence:
    """The extreme points found, each evaluated exactly."""
    outputs = int(np.prod(network.shapes[-1]))
    known = exact_range(network)
    if known is not None:
        lows, highs = list(known[0]), list(known[1])
    else:
        points = _candidates(network, np.random.default_rng(seed), outputs)
        values = network.run(points)
        lows = [points[i] for i in np.argmin(values, axis=0)]
        highs = [points[i] for i in np.argmax(values, axis=0)]
    cache: dict[bytes, Array] = {}

    def value(point: Array, output: int) -> Fraction:
        key = point.tobytes()
        if key not in cache:
            cache[key] = network.exact(point)
        return _fraction(cache[key][output])

    return Evidence(
        [value(point, output) for output, point in enumerate(lows)],
        [value(point, output) for output, point in enumerate(highs)],
        lows,
        highs,
        known is not None,
    )
