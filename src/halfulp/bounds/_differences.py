"""Bounds of the differences between the cells of a window of a maximum, by backward passes."""

from __future__ import annotations

import math

import numpy as np

from halfulp.bounds._backward import State, batch_of, lower_bounds
from halfulp.bounds._difference_relaxation import box_gaps, remaining
from halfulp.bounds._forward import cell_bounds
from halfulp.bounds._maps import Array

COEFFICIENTS = 1 << 24
"""The largest number of coefficients, rows times cells, of the backward passes for one maximum."""


def measure(state: State, position: int) -> None:
    """Bound the differences of the cells of each window that can be the maximum: ``state.gaps[position]``."""
    node = state.network.nodes[position]
    source = node.inputs[0]
    if node.index is None or state.choose != "best" or state.free[source]:
        return
    low, high, real = cell_bounds(node, state.ranges[source])
    gaps = box_gaps(low, high, real)
    pairs, chosen = _pairs(node.index, gaps, real, low / 2 + high / 2, math.prod(state.network.nodes[source].shape))
    if not len(pairs):
        return
    bounds = _bounded(state, source, pairs)
    flat = gaps.reshape(-1)
    flat[chosen[0]] = np.minimum(flat[chosen[0]], bounds[chosen[1]])
    state.gaps[position] = gaps


def _pairs(index: Array, gaps: Array, real: Array, middle: Array, size: int) -> tuple[Array, tuple[Array, Array]]:
    """(pairs of source cells k, j; where in ``gaps`` each belongs, and its row among the pairs)."""
    alive = remaining(gaps, real)
    rank = np.argsort(np.argsort(np.where(alive, -middle, np.inf), axis=-1, kind="stable"), axis=-1, kind="stable")
    for most in range(min(index.shape[-1], 16), 1, -1):
        kept = alive & (rank < most)
        wanted = kept[..., :, None] & kept[..., None, :] & ~np.eye(index.shape[-1], dtype=np.bool_)
        chosen = np.flatnonzero(wanted)
        first = np.broadcast_to(index[..., :, None], gaps.shape).reshape(-1)[chosen]
        second = np.broadcast_to(index[..., None, :], gaps.shape).reshape(-1)[chosen]
        codes, rows = np.unique(first * size + second, return_inverse=True)
        if len(codes) * size <= COEFFICIENTS:
            return np.stack([codes // size, codes % size], axis=-1), (chosen, rows)
    nothing = np.zeros(0, dtype=np.int64)
    return nothing.reshape(0, 2), (nothing, nothing)


def _bounded(state: State, source: int, pairs: Array) -> Array:
    """Upper bounds of x_k - x_j for the cells k, j of a node."""
    shape = state.network.nodes[source].shape
    out = np.empty(len(pairs))
    step = batch_of(state, source)
    for start in range(0, len(pairs), step):
        part = pairs[start : start + step]
        rows = np.zeros((len(part), math.prod(shape)))
        rows[np.arange(len(part)), part[:, 1]] = 1.0
        rows[np.arange(len(part)), part[:, 0]] = -1.0
        out[start : start + step] = -lower_bounds(state, source, rows.reshape(-1, *shape))[0]
    return out


def needed_gaps(state: State, position: int) -> tuple[Array, Array]:
    """(which differences a proof needs: those that are below the box's and are used by a plane or a dominance; all)."""
    node = state.network.nodes[position]
    cells = cell_bounds(node, state.ranges[node.inputs[0]])
    gaps, box = state.gaps[position], box_gaps(*cells)
    alive = remaining(np.minimum(gaps, box), cells[2])
    sloped = state.line(position).upper_slope > 0
    used = alive[..., :, None] & sloped[..., None, :]
    killed = (cells[2] & ~alive)[..., :, None] & (gaps <= 0)
    direct = killed & alive[..., None, :]  # by a cell that stays; if there is none, by a chain of cells
    chained = killed & ~direct.any(axis=-1, keepdims=True)
    return (used | direct | chained) & (gaps < box), gaps
