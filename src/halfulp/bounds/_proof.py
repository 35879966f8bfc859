"""What a proof writes into its certificate: bounds of nodes, slopes, differences of cells, splits and multipliers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from halfulp.bounds._backward import State, rectifier, slopes_of
from halfulp.bounds._box import Box
from halfulp.bounds._certificate import FORMAT, Certificate, sealed
from halfulp.bounds._differences import needed_gaps
from halfulp.bounds._maps import Array
from halfulp.bounds._network import Network
from halfulp.bounds._patches import Joint
from halfulp.bounds._property import Property


class Leaf(NamedTuple):
    """A part of the box with everything that proves it."""

    state: State
    cuts: tuple[tuple[int, int, int, float], ...]
    splits: dict[int, tuple[Array, Array]]
    alphas: dict[int, Array]
    betas: dict[int, Array]
    own: Array
    """Which rows have slopes and multipliers of their own."""
    joints: list[Joint | None]
    """What proves rows by joint bounds of patches."""


def _head(network: Network, box: Box, arithmetic: str) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": 1,
        "network": network.digest(),
        "arithmetic": arithmetic,
        "box": {"lower": hexes(box.lower), "upper": hexes(box.upper)},
    }


def hexes(values: Any) -> list[str]:
    """Floats as exact text."""
    return [float(v).hex() for v in np.asarray(values).reshape(-1)]


def _ranges(state: State) -> dict[str, Any]:
    """Bounds of nodes that are tighter than intervals: the cells, and both ends."""
    from halfulp.bounds._forward import step

    found: dict[str, Any] = {}
    for position, node in enumerate(state.network.nodes[1:], 1):
        if state.tight[position] or node.kind not in ("affine", "product") or node.operator is None:
            continue
        interval = step(node, [state.ranges[i] for i in node.inputs], state.arithmetic).range
        now = state.ranges[position]
        cells = np.flatnonzero(((now.lower > interval.lower) | (now.upper < interval.upper)).reshape(-1))
        if cells.size:
            found[str(position)] = {
                "cells": cells.tolist(),
                "lower": hexes(now.lower.reshape(-1)[cells]),
                "upper": hexes(now.upper.reshape(-1)[cells]),
            }
    return found


def _planes(state: State) -> dict[str, Any]:
    """The slopes of every node that is not affine, where they are not 0."""
    found = {}
    for position, node in enumerate(state.network.nodes):
        if node.kind in ("max", "curve", "smooth", "rank"):
            line = state.line(position)
            found[str(position)] = {"lower": _sparse(line.lower_slope), "upper": _sparse(line.upper_slope)}
    return found


def _differences(states: Iterable[State]) -> dict[str, Any]:
    """The bounds of differences between cells that the planes around maxima need, in any of some parts of the box."""
    found: dict[str, Any] = {}
    for state in states:
        for position in state.gaps:
            node = state.network.nodes[position]
            wanted, gaps = needed_gaps(state, position)
            index, cells = np.asarray(node.index), found.setdefault(str(position), {})
            *windows, above, below = np.nonzero(wanted)
            cells_of = index.reshape(-1, index.shape[-1])
            rows = np.ravel_multi_index(tuple(windows), node.shape)
            pairs = zip(cells_of[rows, above].tolist(), cells_of[rows, below].tolist(), strict=True)
            cells.update(zip(pairs, gaps[wanted].tolist(), strict=True))
    return {
        position: {"above": [a for a, _ in cells], "below": [b for _, b in cells], "values": hexes([*cells.values()])}
        for position, cells in found.items()
        if cells
    }


def _sparse(values: Any) -> dict[str, Any]:
    flat = np.asarray(values).reshape(-1)
    cells = np.flatnonzero(flat)
    return {"cells": cells.tolist(), "values": hexes(flat[cells])}


def _rows(state: State, alphas: dict[int, Array], which: Array) -> list[dict[str, Any]]:
    """The lower slopes that each row has for itself."""
    rows: list[dict[str, Any]] = []
    for k, has in enumerate(which):
        own = {}
        for position, alpha in alphas.items() if has else ():
            node = state.network.nodes[position]
            if rectifier(node):
                own[str(position)] = _sparse(slopes_of(state, node, alpha[k]))
        rows.append(own)
    return rows


def certificate_of_bounds(
    network: Network, box: Box, arithmetic: str, state: State, alphas: dict[int, Array]
) -> Certificate:
    """The certificate of bounds of the output."""
    head = _head(network, box, arithmetic)
    low, high = state.ranges[network.output]
    claim = {"kind": "bounds", "lower": hexes(low), "upper": hexes(high)}
    ranges = _ranges(state)
    ranges.pop(str(network.output), None)
    leaf = {
        "cuts": [],
        "planes": {},
        "slopes": _rows(state, alphas, np.ones(2 * low.size)),
        "multipliers": [],
        "patches": [],
    }
    root = {"ranges": ranges, "differences": _differences([state]), "planes": _planes(state)}
    return sealed({**head, "claim": claim, "root": root, "leaves": [leaf]})


def certificate_of_property(
    network: Network, box: Box, arithmetic: str, claim: Property, root: State, leaves: tuple[Leaf, ...]
) -> Certificate:
    """The certificate of a property, with one leaf for each part of the box."""
    head = _head(network, box, arithmetic)
    unsafe = [
        {"rows": [[str(v) for v in row] for row in part.rows], "bound": [str(v) for v in part.bound]}
        for part in claim.unsafe
    ]
    count = sum(len(part.bound) for part in claim.unsafe)
    root.alphas = {}
    written = []
    for leaf in leaves:
        leaf.state.alphas = {}
        multipliers = [
            {
                str(p): {"cells": cells.tolist(), "values": hexes(leaf.betas[p][k] * -sides)}
                for p, (cells, sides) in leaf.splits.items()
                if p in leaf.betas and leaf.own[k]
            }
            for k in range(count)
        ]
        written.append(
            {
                "cuts": [[p, c, s, float(t).hex()] for p, c, s, t in leaf.cuts],
                "planes": _planes(leaf.state) if leaf.cuts else {},
                "slopes": _rows(leaf.state, leaf.alphas, leaf.own),
                "multipliers": multipliers,
                "patches": [
                    {} if j is None else {"place": j.place, "pieces": j.pieces, "slopes": hexes(j.slopes)}
                    for j in leaf.joints
                ],
            }
        )
    differences = _differences([root, *(leaf.state for leaf in leaves if leaf.cuts)])
    shared = {"ranges": _ranges(root), "differences": differences, "planes": _planes(root)}
    return sealed({**head, "claim": {"kind": "property", "unsafe": unsafe}, "root": shared, "leaves": written})
