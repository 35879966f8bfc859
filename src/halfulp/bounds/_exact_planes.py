"""The checker's values of nodes that are not affine, and the best biases with which given slopes are sound planes.

Nothing here is shared with the code that finds bounds; no float is computed with.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
from flint import fmpq

from halfulp.bounds import _enclosures
from halfulp.bounds._network import Node
from halfulp.bounds._rational import ONE, ZERO, Exact, larger, refuse, smaller, sparse
from halfulp.numbers import exact


def cells_of_windows(node: Node, values: Exact) -> list[list[Exact]]:
    """The values of the cells of every window."""
    flat = values.reshape(-1)
    index = np.asarray(node.index)
    return [[flat[i] for i in row if i >= 0] for row in index.reshape(-1, index.shape[-1]).tolist()]


def _curve_ends(name: str) -> Any:
    def relu(node: Node, x: Exact) -> Exact:
        return larger(x, ZERO)

    def leaky(node: Node, x: Exact) -> Exact:
        slope = exact(np.array(node.parameters))[0]
        return np.frompyfunc(lambda v: v if v >= 0 else v * slope, 1, 1)(x)

    def clip(node: Node, x: Exact) -> Exact:
        low, high = (fmpq(*p.as_integer_ratio()) if abs(p) < float("inf") else None for p in node.parameters)
        x = x if low is None else larger(x, low)
        return x if high is None else smaller(x, high)

    return {"relu": relu, "leaky_relu": leaky, "clip": clip}.get(name)


CURVES: dict[str, Any] = {name: _curve_ends(name) for name in ("relu", "leaky_relu", "clip")}


def smooth_value(node: Node) -> Any:
    """The function (cells of a window, padded zeros) -> (below, above) of a smooth maximum or a norm."""
    (parameter,) = (fmpq(*p.as_integer_ratio()) for p in node.parameters)
    if node.function == "norm":
        return lambda cells, zeros: _enclosures.norm([max(x, ZERO) for x in cells], parameter)
    if parameter > 0:
        return lambda cells, zeros: _enclosures.smooth_max(cells, zeros, parameter)

    def mirrored(cells: list[Exact], zeros: int) -> tuple[Exact, Exact]:
        low, high = _enclosures.smooth_max([-x for x in cells], zeros, -parameter)
        return -high, -low

    return mirrored


def padded_zeros(node: Node) -> list[int]:
    """How many padded zeros each window of a smooth maximum has."""
    windows = int(np.prod(node.shape))
    return [0] * windows if node.padded is None else [int(n) for n in np.asarray(node.padded).reshape(-1)]


def planes_of(node: Node, slopes: Any, given: Any, gaps: Any) -> tuple[tuple[Exact, Exact], tuple[Exact, Exact]]:
    """(lower, upper) slopes, and the best biases with which they are sound."""
    low, high = given[0]
    if node.kind == "product":
        (a, b), (c, _) = given
        return (np.stack([c, a], axis=-1), np.stack([c, b], axis=-1)), (-(a * c), -(b * c))
    shape = node.shape if node.kind == "curve" else np.asarray(node.index).shape
    below, above = (sparse(slopes[side], shape) for side in ("lower", "upper"))
    if node.kind == "curve" and node.function in _enclosures.BIASES:
        return (below, above), np.frompyfunc(_enclosures.BIASES[node.function], 4, 2)(low, high, below, above)
    if node.kind == "curve":
        kinks = [fmpq(*p.as_integer_ratio()) for p in node.parameters if abs(p) < float("inf")]
        kinks = kinks if node.function == "clip" else [ZERO]
        points = [low, high, *(smaller(larger(kink, low), high) for kink in kinks)]
        values = [CURVES[node.function](node, p) for p in points]
        least, most = values[0] - below * points[0], values[0] - above * points[0]
        for point, value in zip(points[1:], values[1:], strict=True):
            least, most = smaller(least, value - below * point), larger(most, value - above * point)
        return (below, above), (least, most)
    index = np.asarray(node.index).reshape(-1, shape[-1]).tolist()
    lows, highs = low.reshape(-1), high.reshape(-1)
    biases = []
    planes = zip(index, below.reshape(-1, shape[-1]), above.reshape(-1, shape[-1]), padded_zeros(node), strict=True)
    for row, under, over, zeros in planes:
        cells = [(lows[i], highs[i], s, t) for i, s, t in zip(row, under, over, strict=True) if i >= 0]
        known = {p: gaps[p] for p in permutations([i for i in row if i >= 0], 2) if p in gaps} if gaps else {}
        numbers = {i: number for number, i in enumerate(i for i in row if i >= 0)}
        own = {(numbers[k], numbers[j]): gap for (k, j), gap in known.items()}
        if node.kind == "rank":
            biases.append(rank_biases(node, cells))
        else:
            biases.append(window_biases(cells, own) if node.kind == "max" else smooth_biases(node, cells, zeros))
    least, most = (np.array([b[k] for b in biases], dtype=object).reshape(node.shape) for k in (0, 1))
    return (below, above), (least, most)


def window_biases(cells: list[tuple[Any, Any, Any, Any]], gaps: Any = None) -> tuple[Any, Any]:
    """The largest bias below and the smallest above the maximum of one window, for given slopes.

    Above: the largest x_k - slope · x over the box, which is linear in every cell, or what ``gaps``, bounds of
    x_k - x_j, say about it. Below: the least of max x - slope · x, which by duality is the largest over convex weights
    w of the least of (w - slope) · x; a weight up to the slope gains the upper end per unit, beyond it the lower end,
    so the best weights are filled greedily.
    """
    if not cells:
        return ZERO, ZERO
    above = [-min(t * low, t * high) for low, high, _, t in cells]
    total = sum(above, ZERO)
    sides = [
        total - a + max((ONE - t) * low, (ONE - t) * high) for a, (low, high, _, t) in zip(above, cells, strict=True)
    ]
    most = max(sides if not gaps else _with_gaps(sides, cells, gaps))
    gains = [(high, s) for _, high, s, _ in cells if s > 0] + [(low, ONE) for low, _, _, _ in cells]
    least = sum((-s * (high if s > 0 else low) for low, high, s, _ in cells), ZERO)
    room = ONE
    for gain, length in sorted(gains, key=lambda pair: pair[0], reverse=True):
        used = min(room, length)
        least, room = least + gain * used, room - used
    return least, most


def _with_gaps(sides: list[Any], cells: list[tuple[Any, Any, Any, Any]], gaps: dict[tuple[int, int], Any]) -> list[Any]:
    """Bounds of x_k - slope · x for every k, from bounds of the differences x_k - x_j.

    For slopes t >= 0 it is sum_j t_j (x_k - x_j) + (1 - sum t) x_k. And it is at most gap(k, j) above the one of j.
    """
    numbers = range(len(cells))

    def gap(k: int, j: int) -> Any:
        return ZERO if k == j else min(gaps.get((k, j), cells[k][1] - cells[j][0]), cells[k][1] - cells[j][0])

    slopes = [t for _, _, _, t in cells]
    if min(slopes) >= 0:
        rest = ONE - sum(slopes, ZERO)
        for k in numbers:
            own = sum((slopes[j] * gap(k, j) for j in numbers if slopes[j]), ZERO)
            sides[k] = min(sides[k], own + rest * cells[k][1 if rest >= 0 else 0])
    for _ in numbers:
        sides = [min(sides[j] + gap(k, j) for j in numbers) for k in numbers]
    return sides


def rank_ends(node: Node, cells: list[Exact]) -> tuple[Exact, Exact]:
    """(below, above) of a median or mode of the cells of one window."""
    if not cells:
        return ZERO, ZERO
    order = sorted(cells)
    if node.function == "mode":
        return order[0], order[-1]
    middle = (order[(len(order) - 1) // 2] + order[len(order) // 2]) / 2
    return middle, middle


def rank_biases(node: Node, cells: list[tuple[Any, Any, Any, Any]]) -> tuple[Any, Any]:
    """The biases of planes below and above a median or mode: f(x) - x_j is largest with x_j low and the others high."""
    lows, highs, below, above = ([cell[k] for cell in cells] for k in range(4))
    if any(min(s, default=ZERO) < 0 or sum(s, ZERO) > 1 for s in (below, above)):
        raise refuse(f"slopes of node {node.name!r}", "must be >= 0 and sum to at most 1")

    def bias(slopes: Any, ends: Any, others: Any, side: int) -> Any:
        total = (ONE - sum(slopes, ZERO)) * rank_ends(node, ends)[side]
        for j, slope in enumerate(slopes):
            if slope:
                total += slope * (rank_ends(node, [*ends[:j], others[j], *ends[j + 1 :]])[side] - others[j])
        return total

    return bias(below, lows, highs, 0), bias(above, highs, lows, 1)


def smooth_biases(node: Node, cells: list[tuple[Any, Any, Any, Any]], zeros: int) -> tuple[Any, Any]:
    """The same for a smooth maximum or a norm; slopes of its plane below that are no weights are refused."""
    if not cells:
        return (smooth_value(node)([], zeros)[0],) * 2 if zeros else (ZERO, ZERO)
    (parameter,) = (fmpq(*p.as_integer_ratio()) for p in node.parameters)
    lows, highs, below, above = (list(column) for column in zip(*cells, strict=True))
    if node.function == "norm":
        lows = [max(x, ZERO) for x in lows]
        least = _enclosures.norm_least(below, highs, parameter)
        most = _enclosures.convex_most(lows, highs, above, lambda x: _enclosures.norm(x, parameter))
    elif parameter > 0:
        least = _enclosures.smooth_least(below, zeros, parameter)
        most = _enclosures.convex_most(lows, highs, above, lambda x: _enclosures.smooth_max(x, zeros, parameter))
    else:  # -f(-x) with the planes exchanged
        mirrored = [(-high, -low, t, s) for low, high, s, t in cells]
        opposite = replace(node, parameters=(-node.parameters[0],))
        least, most = (-bias for bias in reversed(smooth_biases(opposite, mirrored, zeros)))
    if least is None:
        raise refuse(f"slopes of node {node.name!r}", "must be weights of the plane below")
    return least, most
