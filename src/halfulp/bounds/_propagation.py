"""Bounds of every node in order: intervals, then backward bounds of the cells for which these can matter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from halfulp.bounds._backward import State, batch_of, lower_bounds
from halfulp.bounds._differences import measure
from halfulp.bounds._forward import Range
from halfulp.bounds._maps import Array
from halfulp.bounds._network import Node


def tighten(state: State, position: int, wanted: Array) -> None:
    """Replace interval bounds of the chosen cells of a node by backward bounds where these are tighter."""
    cells = np.flatnonzero(wanted)
    if not cells.size:
        return
    low, high = (end.copy() for end in state.ranges[position])
    size = math.prod(state.network.nodes[position].shape)
    batch = max(1, batch_of(state, position) // 2)
    for first in range(0, cells.size, batch):
        part = cells[first : first + batch]
        rows = np.zeros((2 * part.size, size))
        rows[np.arange(part.size), part] = 1.0
        rows[np.arange(part.size) + part.size, part] = -1.0
        found, _ = lower_bounds(state, position, rows.reshape(-1, *state.network.nodes[position].shape))
        low.reshape(-1)[part] = np.maximum(low.reshape(-1)[part], found[: part.size])
        high.reshape(-1)[part] = np.minimum(high.reshape(-1)[part], -found[part.size :])
    crossed = low > high  # both are bounds of the same values, so a crossing is an empty domain after splits
    state.ranges[position] = Range(low, high)
    if crossed.any():
        raise Empty
    state.lines.pop(position, None)


class Empty(Exception):
    """The splits leave no input."""


def needs(state: State, position: int) -> Array | None:
    """Which cells of a node deserve backward bounds: those that a curved node after it is not already exact for."""
    node = state.network.nodes[position]
    if state.tight[position] or node.kind not in ("affine", "product") or node.operator is None:
        return None
    given = state.ranges[position]
    wide = given.lower < given.upper
    wanted = np.zeros(wide.shape, dtype=np.bool_)
    for after in _curved_after(state, position):
        if after is None:
            wanted |= wide
        elif after.function in ("relu", "leaky_relu"):
            wanted |= (given.lower < 0) & (given.upper > 0)
        elif after.function == "clip":
            least, most = after.parameters
            inside = (given.lower >= least) & (given.upper <= most)
            wanted |= wide & ~inside & (given.upper > least) & (given.lower < most)
        else:
            wanted |= wide
    return wanted


def _curved_after(state: State, position: int) -> list[Node | None]:
    """The curves that a node goes into, through nodes that only move cells; None for a maximum or product."""
    found: list[Node | None] = []
    reached = {position}
    for place in range(position + 1, len(state.network.nodes)):
        node = state.network.nodes[place]
        if not reached.intersection(node.inputs):
            continue
        if node.kind in ("max", "smooth", "rank", "product"):
            found.append(None)
        elif node.kind == "curve":
            found.append(node)
            reached.add(place)
        elif node.operator is None:
            reached.add(place)
    return found


def propagate(state: State, backward: bool, progress: Any = None) -> State:
    """Bounds of every node, in order: interval bounds, and backward bounds where they can matter."""
    for position in range(1, len(state.network.nodes)):
        state.interval(position)
        if backward:
            wanted = needs(state, position)
            if wanted is not None and wanted.any():
                tighten(state, position, wanted)
            if state.network.nodes[position].kind == "max":
                measure(state, position)
        if progress is not None:
            progress(position / (len(state.network.nodes) - 1))
    return state
