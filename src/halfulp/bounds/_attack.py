"""The search for a counterexample: gradient descent from several starts, then execution in the named arithmetic."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from halfulp.bounds._arithmetic import Arithmetic
from halfulp.bounds._backward import State, _gather
from halfulp.bounds._box import Box
from halfulp.bounds._maps import Array
from halfulp.bounds._network import Network, Node
from halfulp.bounds._propagation import propagate
from halfulp.bounds._property import Property
from halfulp.numbers import exact


def search(
    network: Network,
    box: Box,
    claim: Property,
    arithmetic: Arithmetic,
    deadline: float,
    steps: int = 40,
    seed: int = 0,
) -> tuple[Array, Any] | None:
    """An input of the box with an unsafe output, and that output; None if none was found."""
    rows, bounds, _ = claim.lines()
    rng = np.random.default_rng(seed)
    count = len(rows)
    width = box.upper - box.lower
    starts = [np.broadcast_to(box.lower / 2 + box.upper / 2, (count, *box.shape))]
    starts += [box.lower + width * rng.random((count, *box.shape)) for _ in range(2)]
    for start in starts:
        x = np.array(start)
        for step in range(steps):
            if time.monotonic() > deadline:
                return None
            values, outputs = _values(network, x)
            margins = (outputs.reshape(count, -1) * rows).sum(axis=1) - bounds
            for k in np.argsort(margins)[:2]:
                if margins[k] <= abs(margins).max() * 1e-3 or step == steps - 1:
                    found = executed(network, box, claim, arithmetic, x[k])
                    if found is not None:
                        return found
            slope = _gradient(network, values, rows.reshape(count, *network.output_shape))
            pace = width * (0.5 if step < steps // 2 else 0.5 / (1 + step - steps // 2))
            x = np.clip(x - pace * np.sign(slope), box.lower, box.upper)
    return None


def executed(network: Network, box: Box, claim: Property, arithmetic: Arithmetic, x: Array) -> tuple[Array, Any] | None:
    """The point in the arithmetic's numbers with its output, if that is unsafe beyond doubt."""
    if arithmetic.name != "real":
        point = _inside(x, box, network.dtype)
        if point is None:
            return None
        output = network(point)
        return (point, output) if np.isfinite(output.astype(np.float64)).all() and claim.is_unsafe(output) else None
    if all(node.spread is None and (node.kind != "curve" or node.function in _RATIONAL) for node in network) and all(
        node.kind != "smooth" for node in network
    ):
        value = network(exact(x))
        return (x, value) if claim.is_unsafe(value) else None
    # Values that are not rational: interval bounds at the point decide.
    state = propagate(State(network, Box(x, x), arithmetic), False)
    low, high = state.ranges[network.output]
    rows, bounds, owner = claim.lines()
    worst = np.where(rows > 0, rows * high.reshape(-1), rows * low.reshape(-1)).sum(axis=1)
    unsafe = worst + 1e-12 * np.abs(rows) @ np.maximum(np.abs(low), np.abs(high)).reshape(-1) < bounds
    sure = any(unsafe[owner == k].all() for k in range(len(claim.unsafe)))
    return (x, low / 2 + high / 2) if sure else None


_RATIONAL = ("relu", "leaky_relu", "clip")


def _inside(x: Array, box: Box, dtype: Any) -> Array | None:
    """The floats next to x within the box; None if a side of the box has none."""
    near = x.astype(dtype)
    wide = near.astype(np.float64)
    up = np.nextafter(near, dtype.type(np.inf))
    down = np.nextafter(near, dtype.type(-np.inf))
    near = np.where(wide < box.lower, up, np.where(wide > box.upper, down, near)).astype(dtype)
    wide = near.astype(np.float64)
    return near if ((wide >= box.lower) & (wide <= box.upper)).all() else None


def _values(network: Network, x: Array) -> tuple[list[Array], Array]:
    """The float64 values of every node for a batch of inputs."""
    values = [x]
    with np.errstate(all="ignore"):
        for node in network.nodes[1:]:
            given = [values[i] for i in node.inputs]
            if node.kind == "affine":
                total: Any = sum(m.forward(v) for m, v in zip(node.maps, given, strict=True))
                values.append(total if node.bias is None else total + node.bias)
            elif node.kind == "product":
                values.append(given[0] * given[1])
            elif node.kind == "curve":
                values.append(np.asarray(node.operator(given[0])))
            else:
                values.append(np.stack([np.asarray(node.operator(v)) for v in given[0]]))
    return values, values[network.output]


def _gradient(network: Network, values: list[Array], rows: Array) -> Array:
    waiting = {network.output: rows}
    for position in range(network.output, 0, -1):
        arrived = waiting.pop(position, None)
        if arrived is None:
            continue
        node = network.nodes[position]
        for source, share in _shares(network, node, values, position, arrived):
            waiting[source] = waiting[source] + share if source in waiting else share
    return waiting.get(0, np.zeros_like(values[0]))


def _shares(network: Network, node: Node, values: list[Array], position: int, g: Array) -> list[tuple[int, Array]]:
    if node.kind == "affine":
        return [(i, m.transpose(g)) for i, m in zip(node.inputs, node.maps, strict=True)]
    x, y = values[node.inputs[0]], values[position]
    if node.kind == "product":
        return [(node.inputs[0], g * values[node.inputs[1]]), (node.inputs[1], g * x)]
    if node.kind == "curve":
        if node.function in _RATIONAL:
            tiny = 1e-6
            slope = (np.asarray(node.operator(x + tiny)) - np.asarray(node.operator(x - tiny))) / (2 * tiny)
        else:
            slope = {"sigmoid": y * (1 - y), "tanh": 1 - y * y, "softplus": 1 - np.exp(-y)}[node.function]
        return [(node.inputs[0], g * slope)]
    if node.index is None:
        raise AssertionError("a node over windows knows its cells")
    cells = np.where(node.index >= 0, _gather(node, network).forward(x), -np.inf)
    beta = node.parameters[0] if node.kind == "smooth" else 1e6
    weight = np.exp(np.where(node.index >= 0, beta * (cells - y[..., None]), -np.inf).clip(-700, 50))
    weight = np.where(node.index >= 0, weight, 0.0)
    if node.kind == "rank":  # the cells next to the value share
        distance = np.where(node.index >= 0, np.abs(cells - y[..., None]), np.inf)
        weight = ((distance == distance.min(axis=-1, keepdims=True)) & (node.index >= 0)).astype(np.float64)
        weight /= np.maximum(weight.sum(axis=-1, keepdims=True), 1.0)
    if node.kind == "max":
        weight = (cells >= y[..., None]).astype(np.float64) * (node.index >= 0)
        weight /= np.maximum(weight.sum(axis=-1, keepdims=True), 1.0)
    return [(node.inputs[0], _gather(node, network).transpose(g[..., None] * weight))]
