"""Backward linear bounds (CROWN), with every rounding error in the constant.

A bound of a linear function of a node, ``A · z + c <= wanted`` for all inputs of the box, is carried back to the nodes
that z is computed from. Each node k contributes to c the least value of A · v for v in an interval: its bias, between
the biases of its lower and upper planes, widened by what arithmetic and float64 add. With the midpoint ``mid`` and the
half width ``dev`` of that interval this is ``A · mid - |A| · dev``, so the same two products do for every kind of node.

The float64 coefficients are not exact: a coefficient that is off by d changes the bound by at most d times the
magnitude of the node it multiplies, which is known from the interval bounds. These errors are in ``dev`` too.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from halfulp.bounds._arithmetic import TINY, UNIT64, Arithmetic
from halfulp.bounds._box import Box
from halfulp.bounds._difference_relaxation import difference_planes
from halfulp.bounds._forward import Range, absolute_of, cell_bounds, step
from halfulp.bounds._maps import Array, Gather
from halfulp.bounds._max_relaxation import max_planes
from halfulp.bounds._network import Network, Node
from halfulp.bounds._rank_relaxation import rank_planes
from halfulp.bounds._scalar_relaxation import scalar_planes
from halfulp.bounds._smooth_relaxation import norm_planes, smooth_max_planes

CHUNK = 1 << 22
"""The largest number of coefficients of one node that are held at once."""


class Line(NamedTuple):
    """What a node contributes on the way back; the slopes are those of its planes, None for an affine node."""

    mid: Array
    dev: Array
    lower_slope: Any = None
    upper_slope: Any = None
    lower_bias: Any = None
    upper_bias: Any = None


class State:
    """The bounds of every node so far, and the planes that follow from them."""

    def __init__(self, network: Network, box: Box, arithmetic: Arithmetic, choose: str = "best") -> None:
        self.network, self.box, self.arithmetic, self.choose = network, box, arithmetic, choose
        self.ranges: list[Range] = [Range(box.lower, box.upper)]
        self.errors: list[Array | None] = [None]
        self.lines: dict[int, Line] = {}
        self.gaps: dict[int, Array] = {}
        """Maximum -> upper bounds of the differences of the cells of each window, (*shape, cells, cells)."""
        self.alphas: dict[int, Array] = {}
        """Node -> lower slopes of a rectifier in [0, 1], with a leading axis if every bound has its own."""
        self.tight = [True]
        """Whether interval bounds are already the exact range of every cell."""
        self.free = free = [True]
        """Whether a node only moves cells of the input."""
        for node in network.nodes[1:]:
            moves = node.kind == "affine" and node.operator is None
            free.append(moves and all(free[i] for i in node.inputs))
            single = len(node.inputs) == 1
            affine = node.kind == "affine" and single and free[node.inputs[0]]
            monotone = (moves or node.kind in ("curve", "max")) and single and self.tight[node.inputs[0]]
            self.tight.append(free[-1] or affine or monotone)

    def copy(self) -> State:
        """A state of its own, sharing the arrays."""
        other = object.__new__(State)
        other.__dict__.update(self.__dict__)
        other.ranges, other.errors = list(self.ranges), list(self.errors)
        other.lines, other.alphas = dict(self.lines), dict(self.alphas)
        return other

    def interval(self, position: int) -> None:
        """Append the interval bounds of the next node."""
        node = self.network.nodes[position]
        found = step(node, [self.ranges[i] for i in node.inputs], self.arithmetic)
        self.ranges.append(found.range)
        self.errors.append(found.error)

    def line(self, position: int) -> Line:
        """The planes and the contribution of a node, made when they are first needed."""
        known = self.lines.get(position)
        if known is None:
            known = self.lines[position] = _line(self, position)
        return known


def _line(state: State, position: int) -> Line:
    node = state.network.nodes[position]
    given = [state.ranges[i] for i in node.inputs]
    error = state.errors[position]
    noise = np.zeros(node.shape) if error is None else error
    size = math.prod(node.shape)
    if node.kind == "input":
        low, high = state.ranges[0]
        return _contribution(low, high, noise, size)
    if node.kind == "affine":
        reach = np.zeros(node.shape)
        for linear, source in zip(node.maps, given, strict=True):
            part = absolute_of(linear).forward(source.magnitude[None])[0]
            reach = reach + part * ((linear.terms_back + linear.terms + 8) * UNIT64)
        bias = np.zeros(node.shape) if node.bias is None else node.bias
        return _contribution(bias, bias, noise + reach + TINY, size)
    planes = _planes(state, node, position, given)
    low, high = planes[1], planes[3]
    steep = np.maximum(np.abs(planes[0]), np.abs(planes[2]))
    if node.kind == "curve":
        reach = steep * given[0].magnitude
        uses = 1
    elif node.kind == "product":
        pair = np.stack([given[0].magnitude, given[1].magnitude], axis=-1)
        reach = (steep * pair).sum(axis=-1)
        uses = 1
    else:
        cells_low, cells_high, _ = cell_bounds(node, given[0])
        reach = (steep * np.maximum(np.abs(cells_low), np.abs(cells_high))).sum(axis=-1)
        uses = _gather(node, state.network).terms_back
    noise = noise + reach * ((uses + 8) * UNIT64) + TINY
    base = _contribution(low, high, noise, size)
    return Line(base.mid, base.dev, planes[0], planes[2], low, high)


def _contribution(low: Array, high: Array, noise: Array, size: int) -> Line:
    mid = low / 2 + high / 2
    half = np.maximum(high - mid, mid - low) * (1 + UNIT64)
    dev = (half + noise) * (1 + (size + 16) * UNIT64) + (size + 16) * UNIT64 * np.abs(mid) + TINY
    return Line(mid, dev)


def _planes(state: State, node: Node, position: int, given: list[Range]) -> Any:
    low, high = given[0]
    if node.kind == "max":
        cells, gaps = cell_bounds(node, given[0]), state.gaps.get(position)
        return max_planes(*cells, state.choose) if gaps is None else difference_planes(*cells, gaps)
    if node.kind == "rank":
        return rank_planes(*cell_bounds(node, given[0]), node.function)
    if node.function == "norm":
        return norm_planes(*cell_bounds(node, given[0]), node.parameters[0])
    if node.kind == "smooth":
        return smooth_max_planes(*cell_bounds(node, given[0]), node.parameters[0], node.padded)
    if node.kind == "product":
        return _product_planes(*given)
    names: dict[str, tuple[str, ...]] = {"leaky_relu": ("slope",), "clip": ("minimum", "maximum")}
    parameters: dict[str, Any] = dict(zip(names.get(node.function, ()), node.parameters, strict=True))
    if rectifier(node) and position in state.alphas:
        alpha = state.alphas[position]
        parameters["alpha"] = alpha if alpha.ndim == low.ndim else alpha.max(axis=0)
    return scalar_planes(node.function, low, high, **parameters)


def rectifier(node: Node) -> bool:
    """Whether the lower slope of a node's unstable cells is free."""
    return node.kind == "curve" and (
        node.function == "relu" or (node.function == "leaky_relu" and 0 <= node.parameters[0] <= 1)
    )


def _product_planes(a: Range, b: Range) -> tuple[Array, Array, Array, Array]:
    """McCormick: (x - lx)(y - ly) >= 0 below, (ux - x)(y - ly) >= 0 above; slopes in x and y in the last axis."""
    from halfulp.bounds._directed import mul_down, mul_up

    below = np.stack([b.lower, a.lower], axis=-1)
    above = np.stack([b.lower, a.upper], axis=-1)
    return below, -mul_up(a.lower, b.lower), above, -mul_down(a.upper, b.lower)


def _gather(node: Node, network: Network) -> Gather:
    """The map from a node's input to its windows, made once per node."""
    known = getattr(node, "_cells", None)
    if known is None:
        if node.index is None:
            raise AssertionError("a node over windows knows its cells")
        known = Gather(node.index, network.nodes[node.inputs[0]].shape)
        object.__setattr__(node, "_cells", known)
    return known


class Trail(NamedTuple):
    """What a backward pass leaves for the gradient: the coefficients that arrived at each node."""

    coefficients: dict[int, Array]


def lower_bounds(
    state: State,
    start: int,
    rows: Array,
    keep: bool = False,
    extra: dict[int, Array] | None = None,
    stop: int = -1,
) -> tuple[Array, Trail]:
    """Lower bounds of rows · z over the box, where z is the value of node ``start`` and rows has shape (S, *shape).

    ``extra`` are coefficients added at other nodes, as a multiplier of a split is. At the node ``stop`` the pass ends,
    and the coefficients that arrived there are in the trail.
    """
    network = state.network
    waiting: dict[int, Array] = {start: rows}
    constant = np.zeros(len(rows))
    trail: dict[int, Array] = {}
    with np.errstate(over="ignore", invalid="ignore"):
        for position in range(start, -1, -1):
            if extra is not None and position in extra:
                _merge(state, waiting, position, extra[position], constant)
            coefficients = waiting.pop(position, None)
            if coefficients is None:
                continue
            if keep or position == stop:
                trail[position] = coefficients
            if position == stop:
                break
            node = network.nodes[position]
            line = state.line(position)
            flat = coefficients.reshape(len(rows), math.prod(node.shape))
            gained = flat @ line.mid.reshape(-1) - np.abs(flat) @ line.dev.reshape(-1)
            constant[...] = np.nextafter(constant + np.nextafter(gained, -np.inf), -np.inf)
            for source, share in _pulled(state, node, position, coefficients, line):
                _merge(state, waiting, source, share, constant)
    return np.where(np.isnan(constant), -np.inf, constant), Trail(trail)


def _merge(state: State, waiting: dict[int, Array], position: int, share: Array, constant: Array) -> None:
    known = waiting.get(position)
    if known is None:
        waiting[position] = share
        return
    total = known + share
    reach = state.ranges[position].magnitude.reshape(-1)
    lost = np.abs(total).reshape(len(total), -1) @ (reach * UNIT64)
    constant[...] = np.nextafter(constant - lost * (1 + reach.size * UNIT64) - TINY, -np.inf)
    waiting[position] = total


def _pulled(state: State, node: Node, position: int, coefficients: Array, line: Line) -> list[tuple[int, Array]]:
    """The coefficients that a node's inputs get."""
    if node.kind == "input":
        return []
    if node.kind == "affine":
        return [(i, linear.transpose(coefficients)) for i, linear in zip(node.inputs, node.maps, strict=True)]
    low, high = line.lower_slope, line.upper_slope
    if node.kind == "curve":
        alpha = state.alphas.get(position)
        if alpha is not None and alpha.ndim > len(node.shape):
            low = slopes_of(state, node, alpha)
        return [(node.inputs[0], coefficients * np.where(coefficients >= 0, low, high))]
    wide = coefficients[..., None]
    chosen = wide * np.where(wide >= 0, low, high)
    if node.kind == "product":
        return [(i, chosen[..., k]) for k, i in enumerate(node.inputs)]
    return [(node.inputs[0], _gather(node, state.network).transpose(chosen))]


def slopes_of(state: State, node: Node, alpha: Array) -> Array:
    """The lower slopes of a rectifier for choices with a leading axis, one entry for each bound."""
    given = state.ranges[node.inputs[0]]
    leak = node.parameters[0] if node.parameters else 0.0
    free = np.clip(leak + np.clip(alpha, 0.0, 1.0) * (1.0 - leak), leak, 1.0)
    return np.where(given.lower >= 0, 1.0, np.where(given.upper <= 0, leak, free))


def batch_of(state: State, position: int) -> int:
    """How many rows a backward pass from a node takes at once."""
    return max(1, CHUNK // max(math.prod(node.shape) for node in state.network.nodes[: position + 1]))
