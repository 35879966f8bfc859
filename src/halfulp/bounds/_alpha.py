"""Projected gradient on what a backward bound leaves free: lower slopes of rectifiers, and multipliers of splits.

The bound is L = coefficients · x* + constant, where x* is the corner of the box that the coefficients point away from.
Pushed forward through the planes that the pass used, x* gives a value v at every node, and L depends on the
coefficient of a node with the derivative v. So the slope alpha of a cell with the coefficient a >= 0 has the
derivative a · v of the cell's input, and a multiplier beta of a split has the derivative of the term it adds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from halfulp.bounds._backward import State, _gather, lower_bounds, rectifier, slopes_of
from halfulp.bounds._maps import Array

Splits = dict[int, tuple[Array, Array]]
"""Node -> (flat cells, +1 where the cell is >= 0 and -1 where it is <= 0)."""


def optimise(
    state: State, start: int, rows: Array, splits: Splits, steps: int, stop: Any, progress: Any = None
) -> tuple[Array, dict[int, Array], dict[int, Array]]:
    """(best lower bounds, their slopes, their multipliers); ``stop(bounds)`` ends early."""
    free = _free(state, start)
    count = len(rows)
    alphas = {p: np.broadcast_to(_initial(state, p), (count, *state.network.nodes[p].shape)).copy() for p in free}
    betas = {p: np.zeros((count, cells.size)) for p, (cells, _) in splits.items()}
    best = np.full(count, -np.inf)
    best_alphas, best_betas = {p: a.copy() for p, a in alphas.items()}, {p: b.copy() for p, b in betas.items()}
    moments: dict[Any, list[Array]] = {}
    for step in range(steps + 1):
        state.alphas = dict(alphas)
        bounds, trail = lower_bounds(state, start, rows, True, _extra(state, splits, betas, count))
        better = bounds > best
        best = np.maximum(best, bounds)
        for p in free:
            best_alphas[p][better] = alphas[p][better]
        for p in betas:
            best_betas[p][better] = betas[p][better]
        if progress is not None:
            progress((step + 1) / (steps + 1))
        if step == steps or stop(best):
            break
        values = _pushed(state, start, trail.coefficients)
        rate = 0.25 * 0.97**step
        for p in free:
            arrived = trail.coefficients.get(p)
            if arrived is None:
                continue
            source = state.network.nodes[p].inputs[0]
            gradient = np.where(arrived >= 0, arrived * values[source], 0.0)
            alphas[p] = np.clip(alphas[p] + rate * _adam(moments, ("a", p), gradient, step), 0.0, 1.0)
        for p, (cells, sides) in splits.items():
            if p in values:
                at = values[p].reshape(count, -1)[:, cells]
                betas[p] = np.maximum(betas[p] + rate * _adam(moments, ("b", p), -sides * at, step), 0.0)
    return best, best_alphas, best_betas


def _adam(moments: dict[Any, list[Array]], key: Any, gradient: Array, step: int) -> Array:
    first, second = moments.setdefault(key, [np.zeros_like(gradient), np.zeros_like(gradient)])
    first[...] = 0.9 * first + 0.1 * gradient
    second[...] = 0.999 * second + 0.001 * gradient * gradient
    scale = np.sqrt(second / (1 - 0.999 ** (step + 1))) + 1e-30
    return np.asarray(first / (1 - 0.9 ** (step + 1)) / scale)


def _free(state: State, start: int) -> list[int]:
    found = []
    for position in range(1, start + 1):
        node = state.network.nodes[position]
        if rectifier(node):
            given = state.ranges[node.inputs[0]]
            if ((given.lower < 0) & (given.upper > 0)).any():
                found.append(position)
    return found


def _initial(state: State, position: int) -> Array:
    given = state.ranges[state.network.nodes[position].inputs[0]]
    return np.where(given.upper >= -given.lower, 1.0, 0.0)


def _extra(state: State, splits: Splits, betas: dict[int, Array], count: int) -> dict[int, Array] | None:
    if not splits:
        return None
    extra = {}
    for position, (cells, sides) in splits.items():
        shape = state.network.nodes[position].shape
        rows = np.zeros((count, int(np.prod(shape))))
        rows[:, cells] = -sides * betas[position]
        extra[position] = rows.reshape(count, *shape)
    return extra


def _pushed(state: State, start: int, coefficients: dict[int, Array]) -> dict[int, Array]:
    """The worst corner of the box for every bound, carried forward through the planes that were used."""
    network = state.network
    arrived = coefficients[0]
    low, high = state.ranges[0]
    values: dict[int, Array] = {0: np.where(arrived >= 0, low, high)}
    for position in range(1, start + 1):
        node = network.nodes[position]
        if position not in coefficients or any(i not in values for i in node.inputs):
            continue
        line, given = state.line(position), [values[i] for i in node.inputs]
        if node.kind == "affine":
            total: Any = sum(m.forward(v) for m, v in zip(node.maps, given, strict=True))
            values[position] = total if node.bias is None else total + node.bias
            continue
        below = coefficients[position] >= 0
        low_slope, high_slope = line.lower_slope, line.upper_slope
        alpha = state.alphas.get(position)
        if alpha is not None and alpha.ndim > len(node.shape):
            low_slope = slopes_of(state, node, alpha)
        bias = np.where(below, line.lower_bias, line.upper_bias)
        if node.kind == "curve":
            values[position] = np.where(below, low_slope, high_slope) * given[0] + bias
            continue
        slopes: Any = np.where(below[..., None], low_slope, high_slope)
        cells = np.stack(given, axis=-1) if node.kind == "product" else _gather(node, network).forward(given[0])
        values[position] = (slopes * cells).sum(axis=-1) + bias
    return values
