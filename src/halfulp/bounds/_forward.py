"""Interval bounds of one node from the bounds of its inputs, and the error that its arithmetic adds.

``"real"`` and ``"any-order"`` use float64 with the error of every float64 operation added. ``"halfulp"`` evaluates
the operator itself at the ends: rounding to nearest is monotone, so the rounded exact ends are the exact range of the
computed values of one node.
"""

from __future__ import annotations

from itertools import product as pairs
from typing import Any, NamedTuple

import numpy as np

from halfulp.autograd.operators import arithmetic as tape
from halfulp.bounds import _maps as maps
from halfulp.bounds._arithmetic import TINY, TRANSCENDENTAL, UNIT64, Arithmetic
from halfulp.bounds._directed import add_down, add_up, mul_down, mul_up, sub_down, sub_up
from halfulp.bounds._maps import Array
from halfulp.bounds._network import ABSENT, Node
from halfulp.bounds._rank_relaxation import rank_range
from halfulp.bounds._smooth_relaxation import _value, norm_value
from halfulp.errors import ModelError
from halfulp.records import Conv


class Range(NamedTuple):
    """float64 bounds of a node's value, computed with the arithmetic's errors."""

    lower: Array
    upper: Array

    @property
    def magnitude(self) -> Array:
        """The largest absolute value."""
        return np.maximum(np.abs(self.lower), np.abs(self.upper))


class Step(NamedTuple):
    """The bounds of a node, the arithmetic's error of it, and sum of |products| at most."""

    range: Range
    error: Array | None
    magnitude: Array | None


def step(node: Node, inputs: list[Range], arithmetic: Arithmetic) -> Step:
    """Interval bounds of a node. What may overflow is an error."""
    with np.errstate(all="ignore"):
        if node.kind == "affine":
            found = _affine(node, inputs, arithmetic)
        elif node.kind == "curve":
            found = _curve(node, inputs[0], arithmetic)
        elif node.kind == "max":
            found = Step(_max(node, inputs[0]), None, None)
        elif node.kind == "rank":
            found = _rank(node, inputs[0], arithmetic)
        elif node.kind == "smooth":
            found = _smooth(node, inputs[0], arithmetic)
        else:
            found = _product(node, inputs[0], inputs[1], arithmetic)
    low, high = found.range
    limit = np.finfo(np.float64).max if arithmetic.name == "real" else arithmetic.largest
    reach = found.range.magnitude
    if arithmetic.name == "any-order" and found.magnitude is not None:
        reach = np.maximum(reach, found.magnitude + (0.0 if found.error is None else found.error))
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (reach <= limit).all()):
        rule = f"its values or their sums can exceed the largest {arithmetic.format.dtype} on this box"
        rule = rule if arithmetic.name != "real" else "its bounds exceed the largest float64 on this box"
        raise ModelError("bounds", f"node {node.name!r}", rule, "V5")
    return found


def _affine(node: Node, inputs: list[Range], arithmetic: Arithmetic) -> Step:
    if node.operator is None:  # cells move, and a constant is added only to 0
        return Step(_moved(node, inputs), None, None)
    mixed = isinstance(node.maps[0], maps.Dense) and not node.maps[0].monotone
    if arithmetic.name == "halfulp" and node.spread is None and not mixed:
        rounded = _rounded_ends(node, inputs, arithmetic)
        return Step(rounded, arithmetic.half_ulp(rounded.magnitude), None)
    centre = np.zeros(node.shape)
    around, reach = np.zeros(node.shape), np.zeros(node.shape)
    terms = 8
    for linear, given in zip(node.maps, inputs, strict=True):
        middle = given.lower / 2 + given.upper / 2
        radius = np.maximum(sub_up(given.upper, middle), sub_up(middle, given.lower))
        absolute = absolute_of(linear)
        centre = centre + linear.forward(middle[None])[0]
        wide, far = absolute.forward(np.stack([radius, given.magnitude]))
        around, reach = around + wide, reach + far
        terms += linear.terms
    bias = 0.0 if node.bias is None else node.bias
    reach = (reach + (np.abs(bias) if node.spread is None else node.spread)) * (1 + terms * UNIT64) + TINY
    error = np.zeros(node.shape) if node.spread is None else reach * 2.0**-50
    if arithmetic.name == "halfulp" and not mixed:
        bounds = _rounded_ends(node, inputs, arithmetic)
        return Step(bounds, error + arithmetic.half_ulp(bounds.magnitude), reach)
    if arithmetic.name == "any-order":
        error = (error + arithmetic.any_order(node, reach)) * (1 + UNIT64)
    room = around + error + terms * UNIT64 * (2 * reach + around) + TINY
    total = centre + bias
    bounds = Range(np.nextafter(total - room, -np.inf), np.nextafter(total + room, np.inf))
    if arithmetic.name == "halfulp":  # rounding is monotone
        bounds = Range(*(end.astype(arithmetic.format.dtype).astype(np.float64) for end in bounds))
        error = error + arithmetic.half_ulp(bounds.magnitude)
    return Step(bounds, error if error.any() else None, reach)


_absolutes: dict[int, tuple[Any, Any]] = {}


def absolute_of(linear: Any) -> Any:
    """The map of absolute values, made once per map."""
    known = _absolutes.get(id(linear))
    if known is None or known[0] is not linear:
        if len(_absolutes) > 256:
            _absolutes.clear()
        known = (linear, linear.absolute())
        _absolutes[id(linear)] = known
    return known[1]


def _moved(node: Node, inputs: list[Range]) -> Range:
    low, high = np.zeros(node.shape), np.zeros(node.shape)
    for linear, given in zip(node.maps, inputs, strict=True):
        ends = [linear.forward(end[None])[0] for end in given]
        low, high = low + np.minimum(*ends), high + np.maximum(*ends)
    bias = 0.0 if node.bias is None else node.bias
    return Range(low + bias, high + bias)


def _rounded_ends(node: Node, inputs: list[Range], arithmetic: Arithmetic) -> Range:
    """The exact ends of the range, rounded once, by halfulp's own kernels in the dtype."""
    dtype = arithmetic.format.dtype
    if isinstance(node.maps[0], (maps.Convolution, maps.Matrix)):
        ends = _stacked(node, inputs[0], dtype)
    elif len(inputs) == 2:
        (a, b), (c, d) = ([end.astype(dtype) for end in given] for given in inputs)
        c, d = (d, c) if isinstance(node.operator, tape.Sub) else (c, d)
        ends = [node.run(a, c), node.run(b, d)]
    else:
        ends = [node.run(end.astype(dtype)) for end in inputs[0]]
    low, high = (end.astype(np.float64) for end in ends)
    return Range(np.minimum(low, high), np.maximum(low, high))


def _stacked(node: Node, given: Range, dtype: Any) -> list[Array]:
    """W+ l + W- u + b and W+ u + W- l + b, each as one sum: channels [l, u] against weights [W+, W-], in one call."""
    both, bias = _signed(node, dtype)
    linear: Any = node.maps[0]
    low, high = given.lower.astype(dtype), given.upper.astype(dtype)
    if isinstance(linear, maps.Matrix):
        ends = np.stack([np.concatenate(pair, axis=-1) for pair in ((low, high), (high, low))])
        return list(node.operator(ends, both, bias))
    ndim, groups = linear.record.ndim, linear.record.groups
    shape = (
        -1,
        groups,
        linear.source[len(linear.source) - ndim - 1] // groups,
        *linear.source[len(linear.source) - ndim :],
    )
    low, high = low.reshape(shape), high.reshape(shape)
    ends = np.concatenate([np.concatenate(pair, axis=2) for pair in ((low, high), (high, low))])
    found = node.operator(ends.reshape(len(ends), -1, *shape[3:]), both, bias)
    return list(found.reshape(2, *node.shape))


def _signed(node: Node, dtype: Any) -> tuple[Array, Array | None]:
    """The weights [W+, W-] along the input channels, and the bias; made once per node and dtype."""
    known: dict[Any, tuple[Array, Array | None]] = node.__dict__.setdefault("_signs", {})
    if dtype not in known:
        _, weight, bias = node.constants
        weight, zero = weight.astype(dtype), dtype.type(0)
        positive, negative = np.maximum(weight, zero), np.minimum(weight, zero)
        record = getattr(node.maps[0], "record", None)
        if record is None or isinstance(record, Conv):
            both = np.concatenate([positive, negative], axis=1)
        else:
            split = (record.groups, weight.shape[0] // record.groups, *weight.shape[1:])
            both = np.concatenate([positive.reshape(split), negative.reshape(split)], axis=1)
            both = both.reshape(2 * weight.shape[0], *weight.shape[1:])
        known[dtype] = (both, None if bias is ABSENT else bias.astype(dtype))
    return known[dtype]


def cell_bounds(node: Node, given: Range) -> tuple[Array, Array, Array]:
    """(lower, upper, which cells exist) of every window, cells in the last axis; absent cells are 0."""
    index = node.index
    if index is None:
        raise AssertionError("a node over windows knows its cells")
    real = index >= 0
    low, high = (np.where(real, end.reshape(-1)[np.maximum(index, 0)], 0.0) for end in given)
    return low, high, real


def _max(node: Node, given: Range) -> Range:
    low, high, real = cell_bounds(node, given)
    there = real.any(axis=-1)
    ends = (np.where(there, np.where(real, end, -np.inf).max(axis=-1), 0.0) for end in (low, high))
    return Range(*ends)


def _rank(node: Node, given: Range, arithmetic: Arithmetic) -> Step:
    cells = cell_bounds(node, given)
    if node.function == "mode":
        return Step(Range(*rank_range(*cells, "mode")), None, None)
    if arithmetic.name == "halfulp":  # rounding is monotone, and so is the median
        ends = [node.run(end.astype(arithmetic.format.dtype)).astype(np.float64) for end in given]
        bounds = Range(ends[0], ends[1])
        return Step(bounds, arithmetic.half_ulp(bounds.magnitude), None)
    bounds = Range(*rank_range(*cells, "median"))
    if arithmetic.name == "real":
        return Step(bounds, None, None)
    sums = 2 * np.maximum(np.abs(cells[0]), np.abs(cells[1])).max(axis=-1)  # of the middle two, at most
    error = arithmetic.any_order(node, sums)
    return Step(Range(sub_down(bounds.lower, error), add_up(bounds.upper, error)), error, sums)


def _smooth(node: Node, given: Range, arithmetic: Arithmetic) -> Step:
    if arithmetic.name == "any-order":
        rule = "arithmetic 'any-order' has no bound for the many ways to compute it; use 'halfulp' or 'real'"
        raise ModelError("bounds", f"node {node.name!r}", rule, "V3")
    low, high, real = cell_bounds(node, given)
    if arithmetic.name == "halfulp":
        ends = [node.run(end.astype(arithmetic.format.dtype)).astype(np.float64) for end in given]
        bounds = Range(ends[0], ends[1])
        return Step(bounds, arithmetic.half_ulp(bounds.magnitude), None)
    if node.function == "norm":
        ends = [norm_value(np.where(real, end, 0.0), node.parameters[0]) for end in (low, high)]
        least, most = ends[0][0] - ends[0][1], ends[1][0] + ends[1][1]
        return Step(Range(np.maximum(np.nextafter(least, -np.inf), 0.0), np.nextafter(most, np.inf)), None, None)
    (beta,) = node.parameters
    zeros = np.asarray(node.padded, dtype=np.float64)
    side = 1.0 if beta > 0 else -1.0
    there = real.any(axis=-1) | (zeros > 0)
    found = []
    for end, way in ((low, -1.0), (high, 1.0)):
        value, error = _value(np.where(real, side * end, -np.inf), zeros, abs(beta))
        found.append(np.where(there, side * value + way * error, 0.0))
    return Step(Range(np.nextafter(found[0], -np.inf), np.nextafter(found[1], np.inf)), None, None)


def _curve(node: Node, given: Range, arithmetic: Arithmetic) -> Step:
    low, high = given
    if node.function in TRANSCENDENTAL:
        ends = [np.asarray(node.run(end)) for end in given]
        margin = [np.abs(end) * 2.0**-46 + TINY for end in ends]
        low, high = np.nextafter(ends[0] - margin[0], -np.inf), np.nextafter(ends[1] + margin[1], np.inf)
        if arithmetic.name == "real":
            return Step(Range(low, high), None, None)
        error = arithmetic.curve(np.maximum(np.abs(low), np.abs(high)))
        return Step(Range(sub_down(low, error), add_up(high, error)), error, None)
    if node.function == "leaky_relu":
        (slope,) = node.parameters
        if arithmetic.name == "real":
            candidates = [
                (np.where(end >= 0, end, mul_down(np.full_like(end, slope), end)),
                 np.where(end >= 0, end, mul_up(np.full_like(end, slope), end)))
                for end in given
            ]  # fmt: skip
            lows, highs = [c[0] for c in candidates], [c[1] for c in candidates]
        else:
            lows = highs = [node.run(e.astype(arithmetic.format.dtype)).astype(np.float64) for e in given]
        through = (low < 0) & (high > 0) & (slope < 0)  # the kink is the least value
        bounds = Range(np.where(through, 0.0, np.minimum(*lows)), np.maximum(*highs))
        noise = None if arithmetic.name == "real" else arithmetic.half_ulp(bounds.magnitude)
        return Step(bounds, noise, None)
    if node.function == "clip":
        least, most = node.parameters
        return Step(Range(*(np.clip(end, least, most) for end in given)), None, None)
    return Step(Range(np.maximum(low, 0.0), np.maximum(high, 0.0)), None, None)


def _product(node: Node, a: Range, b: Range, arithmetic: Arithmetic) -> Step:
    if arithmetic.name == "real":
        lows = [mul_down(x, y) for x, y in pairs(a, b)]
        highs = [mul_up(x, y) for x, y in pairs(a, b)]
    else:
        dtype = arithmetic.format.dtype
        lows = highs = [(x.astype(dtype) * y.astype(dtype)).astype(np.float64) for x, y in pairs(a, b)]
    bounds = Range(np.min(lows, axis=0), np.max(highs, axis=0))
    error = None if arithmetic.name == "real" else arithmetic.half_ulp(bounds.magnitude)
    return Step(bounds, error, None)


__all__ = ["Range", "Step", "absolute_of", "add_down", "cell_bounds", "step"]
