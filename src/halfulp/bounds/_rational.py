"""What the checker of certificates computes with: rational arrays, linear maps over them, the best biases of planes.

Nothing here is shared with the code that finds bounds; no float is computed with.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from flint import fmpq

from halfulp import spec
from halfulp.autograd.operators.arithmetic import Div
from halfulp.bounds import _enclosures
from halfulp.bounds._maps import Convolution, Dense, Gather, Matrix, Mean, Scale
from halfulp.bounds._network import Node
from halfulp.errors import CertificateError
from halfulp.numbers import exact

Exact = Any
"""An object array of rationals."""
ZERO, ONE = fmpq(0), fmpq(1)
larger: Any = np.frompyfunc(max, 2, 1)
smaller: Any = np.frompyfunc(min, 2, 1)
size_of: Any = np.frompyfunc(abs, 1, 1)


def refuse(argument: str, rule: str) -> CertificateError:
    """The error of a certificate that is not accepted."""
    return CertificateError("replay", argument, rule, "V7")


def number(text: Any) -> Exact:
    """A dyadic number from its hexadecimal text."""
    return fmpq(*float.fromhex(text).as_integer_ratio())


def numbers(texts: Any, shape: tuple[int, ...]) -> Exact:
    """An object array from hexadecimal texts."""
    flat = np.empty(len(texts), dtype=object)
    flat[:] = [number(t) for t in texts]
    return flat.reshape(shape)


def zeros(shape: tuple[int, ...]) -> Exact:
    """An object array of rational zeros."""
    out = np.empty(shape, dtype=object)
    out[...] = ZERO
    return out


def sparse(given: dict[str, Any], shape: tuple[int, ...]) -> Exact:
    """An array that is 0 but for some cells."""
    out = zeros(shape)
    flat = out.reshape(-1)
    for cell, text in zip(given["cells"], given["values"], strict=True):
        if not 0 <= cell < flat.size:
            raise refuse(f"cell {cell}", f"must be from 0 to {flat.size - 1}")
        flat[cell] = number(text)
    return out


class Affine(NamedTuple):
    """An affine node over rationals: the sum of ``maps`` of the inputs, plus ``bias``.

    The exact value differs from it by at most ``slack`` (|x| + ``offset``); ``slack`` is None where it is exact.
    ``reach`` is the sum of the absolute terms besides those with x.
    """

    maps: list[Linear]
    bias: Exact | None
    reach: Exact | None
    slack: Exact | None = None
    offset: Exact | None = None


def affine_of(node: Node) -> Affine:
    """The exact coefficients of an affine node; where these are irrational, enclosures of them."""
    bias = None if node.bias is None else exact(node.bias)
    operator: Any = node.operator
    if node.spread is None:
        return Affine([Linear(m) for m in node.maps], bias, None if bias is None else size_of(bias))
    if isinstance(operator, Div):
        factor = np.broadcast_to(ONE / exact(np.asarray(node.constants[1])), node.shape)
        return Affine([Linear(node.maps[0], factor)], None, None)
    if isinstance(node.maps[0], Dense):  # a linear record, of which the map has rounded coefficients
        table, start = operator.coefficients(node.maps[0].source)
        start = start.reshape(node.shape)
        return Affine([Linear(node.maps[0], table)], start, size_of(start))
    return _normalization(node)


def _normalization(node: Node) -> Affine:
    """Batch normalization: (x - mean) scale / sqrt(variance + epsilon) + shift."""
    operator: Any = node.operator
    shape = (-1, *(1,) * (len(node.shape) - 2))
    scale, shift, mean, variance = (
        np.broadcast_to(exact(np.asarray(v)).reshape(shape), node.shape)
        for v in (*node.constants[1:], operator.mean, operator.variance)
    )
    epsilon = exact(np.array([operator.epsilon], dtype=np.float64))[0]
    known: dict[Any, Any] = {}
    for value in variance.reshape(-1):
        if value not in known:
            known[value] = _enclosures.root(value + epsilon)
    low, high = (np.frompyfunc(lambda v, k=k: ONE / known[v][k], 1, 1)(variance) for k in (1, 0))
    factor, slack = scale * low, size_of(scale) * (high - low)
    reach = size_of(shift) + size_of(mean * factor)
    return Affine([Linear(node.maps[0], factor)], shift - mean * factor, reach, slack, size_of(mean))


class Linear:
    """An affine node's map over rationals, on a batch; ``weight`` is given where the map's own is rounded."""

    def __init__(self, linear: Any, weight: Exact | None = None) -> None:
        self.map = linear
        own = getattr(linear, "weight", getattr(linear, "factor", None))
        self.weight: Any = weight if weight is not None or own is None else exact(own)

    def forward(self, x: Exact, sign: int = 0) -> Exact:
        """The map; with sign 1 or -1 only its positive or negative coefficients."""
        linear: Any = self.map
        weight: Any = self.weight
        if weight is not None and sign:
            weight = larger(weight, ZERO) if sign > 0 else smaller(weight, ZERO)
        if isinstance(linear, Convolution):
            return spec.forward(linear._push, linear._images(x, linear.source), weight, None).reshape(
                -1, *linear.target
            )
        if isinstance(linear, Matrix):
            return np.matmul(x, weight.T)
        if isinstance(linear, Dense):
            return np.matmul(x.reshape(len(x), -1), weight.T).reshape(-1, *linear.target)
        if isinstance(linear, Scale):
            return x * weight
        own = linear.sign if isinstance(linear, Gather) else linear.sign * _mean_sign(linear)
        if sign and sign != own:
            return zeros((len(x), *linear.target))
        if isinstance(linear, Gather):
            padded = np.concatenate([x.reshape(len(x), -1), zeros((len(x), 1))], axis=1)
            return padded[:, linear.index] * fmpq(linear.sign)
        return spec.forward(linear.record, x) * fmpq(linear.sign)

    def transpose(self, g: Exact) -> Exact:
        """The transposed map."""
        linear: Any = self.map
        if isinstance(linear, Convolution):
            out = spec.forward(linear._pull, linear._images(g, linear.target), self.weight, None)
            spatial = linear.source[len(linear.source) - linear.record.ndim :]
            key: Any = (Ellipsis, *(slice(0, n) for n in spatial))
            return out[key].reshape(-1, *linear.source)
        if isinstance(linear, Matrix):
            return np.matmul(g, self.weight)
        if isinstance(linear, Dense):
            return np.matmul(g.reshape(len(g), -1), self.weight).reshape(-1, *linear.source)
        if isinstance(linear, Scale):
            return g * self.weight
        if isinstance(linear, Mean):
            (share,) = spec.vjp(linear.record, (zeros((len(g), *linear.source)),), g)
            return np.asarray(share) * fmpq(linear.sign)
        out = zeros((len(g), int(np.prod(linear.source))))
        rows, flat = g.reshape(len(g), -1), linear.index.reshape(-1)
        for place, cell in enumerate(flat.tolist()):
            if cell >= 0:
                out[:, cell] = out[:, cell] + rows[:, place] * fmpq(linear.sign)
        return out.reshape(len(g), *linear.source)


def _mean_sign(linear: Mean) -> int:
    return -1 if (getattr(linear.record, "divisor_override", None) or 1) < 0 else 1


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
        places = {i: place for place, i in enumerate(i for i in row if i >= 0)}
        own = {(places[k], places[j]): gap for (k, j), gap in known.items()}
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
    places = range(len(cells))

    def gap(k: int, j: int) -> Any:
        return ZERO if k == j else min(gaps.get((k, j), cells[k][1] - cells[j][0]), cells[k][1] - cells[j][0])

    slopes = [t for _, _, _, t in cells]
    if min(slopes) >= 0:
        rest = ONE - sum(slopes, ZERO)
        for k in places:
            own = sum((slopes[j] * gap(k, j) for j in places if slopes[j]), ZERO)
            sides[k] = min(sides[k], own + rest * cells[k][1 if rest >= 0 else 0])
    for _ in places:
        sides = [min(sides[j] + gap(k, j) for j in places) for k in places]
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


def add_to(waiting: dict[int, Exact], position: int, share: Exact) -> None:
    """Add coefficients to those that wait at a node."""
    waiting[position] = waiting[position] + share if position in waiting else share


def rational(text: Any) -> Exact:
    """A rational number from its text, as in 1/3."""
    value = Fraction(text)
    return fmpq(value.numerator, value.denominator)


def check_cover(cuts: list[Any], depth: int) -> None:
    """Refuse leaves that are not all of the box: at every depth both sides of the same cut are there."""
    if len(cuts) == 1 and len(cuts[0]) == depth:
        return
    if not cuts or any(len(c) <= depth for c in cuts) or len({(*c[depth][:2], c[depth][3]) for c in cuts}) != 1:
        raise refuse(f"cuts at depth {depth}", "must be both sides of one cut, each once")
    for side in (1, -1):
        check_cover([c for c in cuts if c[depth][2] == side], depth + 1)
