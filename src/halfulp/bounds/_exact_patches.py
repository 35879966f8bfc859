"""The checker's joint bounds of all rectifiers behind the first convolution, in rationals.

For every position of the convolution's output, with the patch x of inputs that it sees,

    h(x) = sum over channels c of A_c f(w_c · x + b_c)  >=  s · x + t

where f is a rectifier, s is given and t is the least of h(x) - s · x over the parts of the patch's box. On a part each
f lies between two lines that its interval there gives.
"""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np

from halfulp.bounds._maps import Convolution
from halfulp.bounds._network import Network
from halfulp.bounds._rational import ONE, ZERO, Exact, larger, numbers, refuse, size_of, smaller, zeros
from halfulp.bounds._windows import patch_cells
from halfulp.numbers import exact
from halfulp.records import Conv


def joint_bound(network: Network, waiting: dict[int, Exact], given: Any, ranges: Any, errors: Any) -> Exact:
    """A lower bound of what is left of one row at the rectifier ``given["place"]``."""
    place = given["place"]
    node = network.nodes[place]
    source = network.nodes[node.inputs[0]]
    leak = exact(np.array(node.parameters))[0] if node.parameters else ZERO
    linear: Any = source.maps[0] if source.maps else None
    fits = node.function in ("relu", "leaky_relu") and 0 <= leak <= 1 and source.inputs == (0,)
    if not fits or not isinstance(linear, Convolution) or not isinstance(linear.record, Conv):
        raise refuse(f"patches at node {place}", "must be a rectifier behind a convolution of the input")
    if linear.record.groups != 1 or not set(linear.source[: -linear.record.ndim - 1]) <= {1} or set(waiting) != {place}:
        raise refuse(f"patches at node {place}", "must be all that is left, of one group and one image")
    channels, pieces = linear.weight.shape[0], given["pieces"]
    cells = patch_cells(linear)
    a = waiting[place].reshape(channels, -1)
    slopes = numbers(given["slopes"], cells.shape)
    weight = exact(linear.weight).reshape(channels, -1)
    bias = zeros(a.shape) if source.bias is None else exact(source.bias).reshape(channels, -1)
    low, high = (np.concatenate([end.reshape(-1), zeros((1,))])[cells] for end in ranges[0])  # -1 is a padded zero
    least = _least(a, weight, bias, low, high, slopes, pieces, leak)
    total = zeros((int(np.prod(linear.source)) + 1,))
    np.add.at(total, cells.reshape(-1), slopes.reshape(-1))
    ends = (end.reshape(-1) for end in ranges[0])
    corner = sum((s * (p if s > 0 else q) for s, p, q in zip(total[:-1], *ends, strict=True)), ZERO)
    lost = [size_of(a) * e.reshape(a.shape) for e in (errors[place], errors[node.inputs[0]]) if e is not None]
    return sum(least, ZERO) + corner - sum((part.sum() for part in lost), ZERO)


def _least(
    a: Exact, weight: Exact, bias: Exact, low: Exact, high: Exact, slopes: Exact, pieces: int, leak: Exact
) -> Any:
    """For every position the least of h(x) - slopes · x over the parts of the box, (positions,)."""
    if not isinstance(pieces, int) or not 1 <= pieces <= 8:
        raise refuse(f"pieces={pieces!r}", "must be from 1 to 8")
    steps = [low + (high - low) * (ONE * k / pieces) for k in range(pieces)] + [high]
    sides: list[list[tuple[Exact, Exact]]] = []
    for axis in range(weight.shape[1]):
        column = weight[:, axis, None]
        sides.append([])
        for left, right in pairwise(steps):
            ends = column * left[None, :, axis], column * right[None, :, axis]
            sides[-1].append((smaller(*ends), larger(*ends)))
    lines = np.frompyfunc(lambda coefficient, u, v: _line(coefficient, u, v, leak), 3, 2)
    best: Any = None
    for choice in product(range(pieces), repeat=weight.shape[1]):
        under, over = bias, bias
        for axis, piece in enumerate(choice):
            under, over = under + sides[axis][piece][0], over + sides[axis][piece][1]
        slope, offset = lines(a, under, over)
        value = (a * (offset + slope * bias)).sum(axis=0)
        rest = np.matmul((a * slope).T, weight) - slopes
        for axis, piece in enumerate(choice):
            tilt = rest[:, axis]
            value = value + smaller(tilt * steps[piece][:, axis], tilt * steps[piece + 1][:, axis])
        best = value if best is None else smaller(best, value)
    return best


def _line(coefficient: Any, low: Any, high: Any, leak: Any) -> tuple[Any, Any]:
    """(slope, bias) of a line below a rectifier on an interval if the coefficient is >= 0, otherwise above."""
    if low >= 0 or high <= 0:
        return (ONE if low >= 0 else leak), ZERO
    if coefficient >= 0:
        return (ONE if high >= -low else leak), ZERO
    slope = (high - leak * low) / (high - low)
    return slope, high - slope * high
