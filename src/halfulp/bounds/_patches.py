"""Joint bounds of all rectifiers that see the same few inputs.

Behind a convolution of the network's input, the rectifiers of all channels at one position are functions of one patch
x of the input. A backward bound with the coefficients A needs, for each position, a lower bound of

    h(x) = sum over channels c of A_c relu(w_c · x + b_c)    as    s · x + t.

Any slope s is sound with t the least of h(x) - s · x over the patch's box. The box is cut into parts along every axis;
planes on each part give a bound there, and the least of them is t. The slopes start from the single planes and move to
where the patches agree on the inputs that they share.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from halfulp.bounds._backward import State, lower_bounds, rectifier, slopes_of
from halfulp.bounds._maps import Array, Convolution
from halfulp.bounds._scalar_relaxation import scalar_planes
from halfulp.bounds._windows import patch_cells
from halfulp.records import Conv

AXES = 6
"""The largest number of inputs in a patch."""


def place_of(state: State) -> int | None:
    """The rectifier behind the first convolution, if its patches are small and nothing goes around it."""
    network = state.network
    for position, node in enumerate(network.nodes):
        if not rectifier(node) or network.nodes[node.inputs[0]].inputs != (0,):
            continue
        linear: Any = network.nodes[node.inputs[0]].maps[0]
        if not isinstance(linear, Convolution) or not isinstance(linear.record, Conv) or linear.record.groups != 1:
            continue
        leading = linear.source[: len(linear.source) - linear.record.ndim - 1]
        users = [other for other in network.nodes if {0, node.inputs[0]} & set(other.inputs)]
        if int(np.prod(linear.weight.shape[1:])) <= AXES and set(leading) <= {1} and len(users) == 2:
            return position
    return None


class Joint(NamedTuple):
    """What proves a joint bound: the rectifier, the pieces of an axis, the slopes (positions, cells of the kernel)."""

    place: int
    pieces: int
    slopes: Array


def refine(
    state: State, start: int, rows: Array, goal: Array, alphas: dict[int, Array]
) -> tuple[Array, list[Joint | None]]:
    """Lower bounds of rows · value of node ``start``, with joint bounds at the first convolution, up to a goal."""
    place = place_of(state)
    proofs: list[Joint | None] = [None] * len(rows)
    if place is None:
        return np.full(len(rows), -np.inf), proofs
    state.alphas = alphas
    constant, trail = lower_bounds(state, start, rows, stop=place)
    arrived = trail.coefficients.get(place)
    state.alphas = {}
    if arrived is None:
        return constant, proofs
    node = state.network.nodes[place]
    source = state.network.nodes[node.inputs[0]]
    linear: Any = source.maps[0]
    channels = linear.weight.shape[0]
    cells = patch_cells(linear)
    weight = linear.weight.reshape(channels, -1)
    bias = np.zeros((channels, len(cells))) if source.bias is None else source.bias.reshape(channels, -1)
    low, high = (np.where(cells >= 0, end.reshape(-1)[np.maximum(cells, 0)], 0.0) for end in state.ranges[0])
    line = state.line(place)
    noise: Any = sum(
        (0.0 if e is None else e.reshape(channels, -1) for e in (state.errors[place], state.errors[node.inputs[0]])),
        np.zeros((channels, len(cells))),
    )
    parameters: Any = {"slope": node.parameters[0]} if node.parameters else {}
    out = constant.copy()
    reach = np.maximum(np.abs(low), np.abs(high))
    size = np.abs(weight) @ reach.T + np.abs(bias)  # (channels, positions)
    for k, coefficients in enumerate(arrived.reshape(len(rows), channels, -1)):
        lower = line.lower_slope if place not in alphas else slopes_of(state, node, alphas[place][k])
        slopes = np.where(coefficients >= 0, lower.reshape(channels, -1), line.upper_slope.reshape(channels, -1))
        wanted = (coefficients * slopes).T @ weight  # (positions, cells)
        gain = -np.inf
        for pieces in (2, 4):
            parts = _parts(coefficients, weight, bias, low, high, size, node.function, parameters, pieces)
            wanted = _agreed(parts, wanted, cells, state)
            least = _least(parts, coefficients, wanted, size, reach)
            total = _total(least, wanted, cells, coefficients, noise, state)
            if total > gain:
                gain, proofs[k] = total, Joint(place, pieces, wanted)
            if out[k] + gain > goal[k]:
                break
        out[k] = out[k] + gain
    return np.asarray(np.nextafter(out, -np.inf)), proofs


class Parts(NamedTuple):
    """Linear lower bounds tilt · x + offset of h on the parts of every patch; parts in the first axis."""

    tilt: Array
    offset: Array
    centre: Array
    radius: Array

    def values(self, wanted: Array) -> Array:
        """The least of (tilt - wanted) · x + offset on every part, (parts, positions)."""
        rest = self.tilt - wanted
        found = self.offset + (rest * self.centre).sum(axis=-1) - (np.abs(rest) * self.radius).sum(axis=-1)
        return np.asarray(found)


def _parts(
    a: Array, weight: Array, bias: Array, low: Array, high: Array, size: Array, name: str, parameters: Any, pieces: int
) -> Parts:  # fmt: skip
    """Planes on each part of the patches' boxes, with every axis in ``pieces`` pieces."""
    margin = (weight.size + 64) * 2.0**-50
    steps = [low + (high - low) * (k / pieces) for k in range(pieces)] + [high]
    found: list[tuple[Array, Array, Array, Array]] = []
    below = a >= 0
    for choice in product(range(pieces), repeat=low.shape[1]):
        left = np.stack([steps[k][:, axis] for axis, k in enumerate(choice)], axis=1)
        right = np.stack([steps[k + 1][:, axis] for axis, k in enumerate(choice)], axis=1)
        centre, radius = left / 2 + right / 2, (right - left) / 2
        at, around = weight @ centre.T + bias, np.abs(weight) @ radius.T + margin * size
        planes = scalar_planes(name, at - around, at + around, **parameters)
        slope = np.where(below, planes.lower_slope, planes.upper_slope)
        offset = np.where(below, planes.lower_bias, planes.upper_bias)
        constant = (a * (offset + slope * bias)).sum(axis=0)
        found.append(((a * slope).T @ weight, constant, centre, radius))
    return Parts(*(np.stack(arrays) for arrays in zip(*found, strict=True)))


def _agreed(parts: Parts, wanted: Array, cells: Array, state: State, steps: int = 150) -> Array:
    """Slopes for which the patches agree best on the inputs that they share: ascent along x(box) - x(patch)."""
    low, high = (end.reshape(-1) for end in state.ranges[0])
    real = cells >= 0
    width = np.where(real, (high - low)[np.maximum(cells, 0)], 0.0)
    scale = np.abs(wanted).mean() + 1e-30
    best, found = -np.inf, wanted
    first, second = np.zeros_like(wanted), np.zeros_like(wanted)
    positions = np.arange(len(cells))
    for step in range(steps):
        values = parts.values(wanted)
        chosen = values.argmin(axis=0)
        slope = np.zeros(low.size)
        np.add.at(slope, cells[real], wanted[real])
        corner = np.where(slope >= 0, low, high)
        bound = float(values[chosen, positions].sum() + (slope * corner).sum())
        if bound > best:
            best, found = bound, wanted
        rest = parts.tilt[chosen, positions] - wanted
        own = parts.centre[chosen, positions] - np.sign(rest) * parts.radius[chosen, positions]
        gradient = np.where(real & (width > 0), corner[np.maximum(cells, 0)] - own, 0.0)
        first = 0.9 * first + 0.1 * gradient
        second = 0.99 * second + 0.01 * gradient * gradient
        pace = np.sqrt(second / (1 - 0.99 ** (step + 1))) + 1e-12
        wanted = wanted + 0.3 * scale * 0.98**step * first / (1 - 0.9 ** (step + 1)) / pace
    return found


def _least(parts: Parts, a: Array, wanted: Array, size: Array, reach: Array) -> Array:
    """For every position a lower bound of h(x) - wanted · x, the least over the parts, less what rounding may cost."""
    margin = (a.shape[0] * reach.shape[1] + 64) * 2.0**-50
    lost = (np.abs(a) * (size + 1e-300)).sum(axis=0) * 4 + np.abs(wanted * reach).sum(axis=1) * 2
    return np.asarray(parts.values(wanted).min(axis=0) - margin * lost * 2)


def _total(least: Array, wanted: Array, cells: Array, a: Array, noise: Array, state: State) -> float:
    """The bound of one row: the positions' constants, the slopes at the box, the arithmetic's errors."""
    low, high = (end.reshape(-1) for end in state.ranges[0])
    slope = np.zeros(low.size)
    weight = np.zeros(low.size)
    np.add.at(slope, cells[cells >= 0], wanted[cells >= 0])
    np.add.at(weight, cells[cells >= 0], np.abs(wanted[cells >= 0]))
    reach = np.maximum(np.abs(low), np.abs(high))
    margin = (cells.size + 64) * 2.0**-50
    terms = np.where(slope >= 0, slope * low, slope * high)
    lost = margin * (float(np.abs(least).sum()) + float((weight * reach).sum())) + float((np.abs(a) * noise).sum())
    return float(least.sum() + terms.sum()) - lost * (1 + margin) - 2.0**-900
