"""The checker's interval bounds of a node, and the errors of the three arithmetics, in rationals."""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import fmpq

from halfulp.bounds._enclosures import VALUES
from halfulp.bounds._exact_planes import CURVES, cells_of_windows, padded_zeros, rank_ends, smooth_value
from halfulp.bounds._network import Network, Node
from halfulp.bounds._rational import ONE, ZERO, Exact, affine_of, larger, refuse, size_of, smaller, zeros
from halfulp.numbers import float_format, round_rational


class Intervals:
    """The nodes of a network in one arithmetic."""

    def __init__(self, network: Network, name: str, box: tuple[Exact, Exact]) -> None:
        if name not in ("real", "halfulp", "any-order"):
            raise refuse(f"arithmetic={name!r}", "must be 'real', 'halfulp' or 'any-order'")
        self.name, self.box = name, box
        self.format = float_format(network.dtype)
        self.unit = fmpq(1, 2**self.format.precision)
        self.eta = fmpq(1, 2**-self.format.quantum)
        self.affine = {p: affine_of(n) for p, n in enumerate(network.nodes) if n.kind == "affine"}

    def of(self, position: int, node: Node, found: Any) -> tuple[Exact, Exact, Exact | None]:
        """The exact interval bounds of a node from those of its inputs, widened by the arithmetic's error."""
        given = [found[i] for i in node.inputs]
        if node.kind == "input":
            return (*self.box, None)
        affine = node.kind == "affine" and node.operator is not None and self.name == "halfulp"
        other = node.kind in ("product", "smooth", "rank") or node.function == "leaky_relu"
        if self.name != "real" and (affine or other):
            # The inputs are floats: those next to an end may stand for it.
            nearest = np.frompyfunc(self.rounded, 1, 1)
            given = [tuple(nearest(end) for end in ends) for ends in given]
        if node.kind == "max":
            cells = [cells_of_windows(node, end) for end in given[0]]
            low, high = (
                np.array([max(w, default=ZERO) for w in end], dtype=object).reshape(node.shape) for end in cells
            )
            return low, high, None
        if node.kind == "rank":
            return self.rank(node, given[0])
        if node.kind == "smooth":
            return self.smooth(node, given[0])
        if node.kind == "curve" and node.function in VALUES:
            low, high = (np.frompyfunc(lambda x, k=k: VALUES[node.function](x)[k], 1, 1)(given[0][k]) for k in (0, 1))
            if self.name == "real":
                return low, high, None
            error = (larger(size_of(low), size_of(high)) * self.unit + self.eta) * 16
            return low - error, high + error, error
        if node.kind == "curve":
            ends = [CURVES[node.function](node, end) for end in given[0]]
            low, high = smaller(*ends), larger(*ends)
            if node.function == "leaky_relu":
                through = np.array([a < 0 < b for a, b in zip(*(e.reshape(-1) for e in given[0]), strict=True)])
                low = np.where(through.reshape(low.shape), smaller(low, ZERO), low)
                return self.widened(node, low, high, larger(size_of(low), size_of(high)))
            return low, high, None
        if node.kind == "product":
            corners = [a * b for a in given[0] for b in given[1]]
            low, high = corners[0], corners[0]
            for corner in corners[1:]:
                low, high = smaller(low, corner), larger(high, corner)
            return self.widened(node, low, high, larger(size_of(low), size_of(high)))
        low, high, reach = zeros(node.shape), zeros(node.shape), zeros(node.shape)
        known = self.affine[position]
        for linear, (a, b) in zip(known.maps, given, strict=True):
            big = larger(size_of(a), size_of(b))
            stack = np.stack([a, b, big])
            plus, minus = linear.forward(stack, 1), linear.forward(stack, -1)
            low, high, reach = low + plus[0] + minus[1], high + plus[1] + minus[0], reach + plus[2] - minus[2]
        if known.bias is not None:
            low, high, reach = low + known.bias, high + known.bias, reach + known.reach
        if node.operator is None:
            return low, high, None
        if known.slack is None:
            return self.widened(node, low, high, reach)
        off = known.slack * (larger(size_of(given[0][0]), size_of(given[0][1])) + known.offset)
        low, high, error = self.widened(node, low - off, high + off, reach + off)
        return low, high, off if error is None else error + off

    def rank(self, node: Node, given: tuple[Exact, Exact]) -> tuple[Exact, Exact, Exact | None]:
        """The interval bounds of a median or mode, and the error of the mean of the middle two cells."""
        windows = [cells_of_windows(node, end) for end in given]
        low, high = zeros(node.shape), zeros(node.shape)
        for out, cells, side in zip((low, high), windows, (0, 1), strict=True):
            out.reshape(-1)[:] = [rank_ends(node, window)[side] for window in cells]
        if self.name == "real" or node.function == "mode":
            return low, high, None
        if self.name == "halfulp":
            return self.widened(node, low, high, larger(size_of(low), size_of(high)))
        sums = [2 * max((abs(x) for x in (*a, *b)), default=ZERO) for a, b in zip(*windows, strict=True)]
        error = self.any_order(node, np.array(sums, dtype=object).reshape(node.shape))
        return low - error, high + error, error

    def smooth(self, node: Node, given: tuple[Exact, Exact]) -> tuple[Exact, Exact, Exact | None]:
        """The interval bounds of a smooth maximum or norm: it grows with every cell."""
        value, padding = smooth_value(node), padded_zeros(node)
        low, high = zeros(node.shape), zeros(node.shape)
        for out, end, side in ((low, given[0], 0), (high, given[1], 1)):
            windows = zip(cells_of_windows(node, end), padding, strict=True)
            out.reshape(-1)[:] = [value(cells, count)[side] for cells, count in windows]
        return self.widened(node, low, high, larger(size_of(low), size_of(high)))

    def widened(self, node: Node, low: Exact, high: Exact, reach: Exact) -> tuple[Exact, Exact, Exact | None]:
        """Bounds of the computed values, and of their distance to the exact ones."""
        if self.name == "real":
            return low, high, None
        if self.name == "halfulp" or node.kind != "affine":
            rounding = np.frompyfunc(self.rounded, 1, 1)
            low, high = rounding(low), rounding(high)
            return low, high, larger(size_of(low), size_of(high)) * self.unit + self.eta
        error = self.any_order(node, reach)
        return low - error, high + error, error

    def any_order(self, node: Node, reach: Exact) -> Exact:
        """The error of a sum in any order, whose absolute terms add up to ``reach``."""
        share = node.roundings * self.unit
        return reach * (share / (ONE - share)) + 2 * node.roundings * self.eta

    def rounded(self, value: Exact) -> Exact:
        """The nearest float; an overflow proves nothing."""
        near = round_rational(int(value.p), int(value.q), self.format)
        if near in (float("inf"), float("-inf")):
            raise refuse(f"value {value}", "overflows")
        return fmpq(*near.as_integer_ratio())
