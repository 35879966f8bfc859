"""Branch and bound over rectifiers, cells of maxima and inputs: the part of a verification that splits the box."""

from __future__ import annotations

import heapq
import math
import time
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from halfulp.bounds._alpha import Splits, optimise
from halfulp.bounds._arithmetic import Arithmetic
from halfulp.bounds._backward import State, lower_bounds
from halfulp.bounds._box import Box
from halfulp.bounds._forward import Range, cell_bounds, step
from halfulp.bounds._maps import Array
from halfulp.bounds._network import Network
from halfulp.bounds._patches import Joint, refine
from halfulp.bounds._proof import Leaf, certificate_of_property
from halfulp.bounds._propagation import Empty
from halfulp.bounds._property import Property


class Domain(NamedTuple):
    """A part of the box: narrowed ranges, and the splits of rectifiers that multipliers belong to."""

    state: State
    splits: Splits
    cuts: tuple[tuple[int, int, int, float], ...]
    """(node, cell, side, threshold) of every split."""


class Search:
    """Branch and bound: domains wait in a heap, the least bound first."""

    def __init__(
        self, network: Network, claim: Property, arithmetic: Arithmetic, method: str, deadline: float, progress: Any
    ) -> None:
        self.network, self.claim, self.arithmetic, self.method = network, claim, arithmetic, method
        self.deadline, self.progress = deadline, progress
        self.rows, self.bound, self.owner = claim.lines()
        self.margin = -math.inf
        self.domains = 0
        self.leaves: list[Leaf] = []

    def certificate(self, box: Box, root: State) -> Any:
        """A function that makes the certificate of the domains that were decided."""
        leaves = tuple(self.leaves)
        return lambda: certificate_of_property(self.network, box, self.arithmetic.name, self.claim, root, leaves)

    def decide(self, domain: Domain, steps: int, quick: bool = False) -> float | None:
        """The margin of a domain if it is proved, and 0 if not; the leaf is kept for the certificate."""
        self.domains += 1
        shape = self.network.output_shape
        rows = self.rows.reshape(len(self.rows), *shape)
        state, last = domain.state, self.network.output
        first = self._margins(self._interval(state))
        state.alphas = {}
        count = len(rows)
        plain = lower_bounds(state, last, rows)[0] if self.method != "ibp" else first
        own = np.zeros(count, dtype=np.bool_)
        best = np.maximum(self._margins(plain), first)
        alphas: dict[int, Array] = {}
        betas: dict[int, Array] = {}
        joints: list[Joint | None] = [None] * count
        if steps and not self._proved(best):
            open_rows = np.flatnonzero(~self._done(best))
            own[open_rows] = True
            found, alphas, betas = optimise(
                state, last, rows[open_rows], domain.splits, steps,
                lambda b: bool((b > self.bound[open_rows]).all()) or time.monotonic() > self.deadline,
            )  # fmt: skip
            best[open_rows] = np.maximum(best[open_rows], self._margins(found, open_rows))
            alphas = {p: _spread(a, open_rows, len(rows)) for p, a in alphas.items()}
            betas = {p: _spread(b, open_rows, len(rows)) for p, b in betas.items()}
            state.alphas = {}
            if not self._proved(best) and not domain.cuts:
                open_rows = np.flatnonzero(~self._done(best))
                shared = {p: a[open_rows] for p, a in alphas.items()}
                joint, proofs = refine(state, last, rows[open_rows], self.bound[open_rows], shared)
                best[open_rows] = np.maximum(best[open_rows], self._margins(joint, open_rows))
                for row, proof in zip(open_rows.tolist(), proofs, strict=True):
                    joints[row] = proof
        margin = min(max(best[self.owner == k]) for k in range(len(self.claim.unsafe)))
        if quick:
            self.margin = margin
        if margin > 0:
            self.leaves.append(Leaf(state, domain.cuts, domain.splits, alphas, betas, own, joints))
            return float(margin)
        self._last = (float(margin), best)
        return None

    def _margins(self, found: Array, which: Any = slice(None)) -> Array:
        return np.asarray(np.nextafter(found - self.bound[which], -np.inf))

    def _interval(self, state: State) -> Array:
        """Bounds of the rows from the ranges of the output alone."""
        low, high = (end.reshape(-1) for end in state.ranges[self.network.output])
        terms = np.where(self.rows > 0, self.rows * low, self.rows * high)
        return np.asarray(terms.sum(axis=1) - (low.size + 4) * 2.0**-52 * np.abs(terms).sum(axis=1) - 2.0**-960)

    def _done(self, best: Array) -> Array:
        proved = [k for k in range(len(self.claim.unsafe)) if (best[self.owner == k] > 0).any()]
        return np.isin(self.owner, proved)

    def _proved(self, best: Array) -> bool:
        return bool(self._done(best).all())

    def branch(self, root: Domain) -> bool:
        """Split until every domain is proved, or time is over."""
        self.leaves.clear()
        order = count()
        heap: list[tuple[float, int, Domain]] = [(-math.inf, next(order), root)]
        closed, weight = 0.0, {0: 1.0}
        while heap:
            if time.monotonic() > self.deadline:
                return False
            _, number, domain = heapq.heappop(heap)
            share = weight.pop(number, 0.0)
            cut = self._choice(domain)
            if cut is None:
                return False
            for side in (1, -1):
                child = self._child(domain, cut, side)
                if child is None:  # the splits leave no input: the parent's bounds show it
                    cuts = (*domain.cuts, (cut[0], cut[1], side, cut[2]))
                    self.leaves.append(
                        Leaf(domain.state, cuts, {}, {}, {}, np.zeros(len(self.rows), dtype=np.bool_), [])
                    )
                    closed += share / 2
                    continue
                if self.decide(child, 12) is None:
                    place = next(order)
                    weight[place] = share / 2
                    heapq.heappush(heap, (self._last[0], place, child))
                else:
                    closed += share / 2
            if self.progress is not None:
                self.progress(closed)
        self.margin = max(self.margin, 0.0)
        return True

    def _choice(self, domain: Domain) -> tuple[int, int, float] | None:
        """(node, cell, threshold) whose planes lose most in the worst bound."""
        state, last = domain.state, self.network.output
        state.alphas = {}
        rows = self.rows.reshape(len(self.rows), *self.network.output_shape)
        found, trail = lower_bounds(state, last, rows, keep=True)
        worst = int(np.argmin(found - self.bound))
        best: tuple[float, int, int, float] | None = None
        for position, arrived in trail.coefficients.items():
            candidate = self._loss(state, position, arrived[worst])
            if candidate is not None and (best is None or candidate[0] > best[0]):
                best = candidate
        return None if best is None else best[1:]

    def _loss(self, state: State, position: int, arrived: Array) -> tuple[float, int, int, float] | None:
        node = self.network.nodes[position]
        low, high = state.ranges[position] if node.kind == "input" else state.ranges[node.inputs[0]]
        if node.kind == "affine":
            return None
        if node.kind == "input":
            small = math.prod(node.shape) <= 16
            loss = np.abs(arrived) * (high - low) * (0.5 if small else 1e-6)
            cell = int(np.argmax(loss))
            middle = float((low.reshape(-1)[cell] + high.reshape(-1)[cell]) / 2)
            return (float(loss.reshape(-1)[cell]), 0, cell, middle) if loss.max() > 0 else None
        line = state.line(position)
        if node.kind == "curve":
            middle_all = low / 2 + high / 2
            gap = (line.upper_slope - line.lower_slope) * middle_all + line.upper_bias - line.lower_bias
            loss = np.abs(arrived) * gap
            cell = int(np.argmax(loss))
            at, least, most = loss.reshape(-1)[cell], low.reshape(-1)[cell], high.reshape(-1)[cell]
            threshold = 0.0 if node.function in ("relu", "leaky_relu") else float(least / 2 + most / 2)
            if node.function == "clip":
                inside = [p for p in node.parameters if least < p < most]
                threshold = inside[0] if inside else threshold
            return (float(at), node.inputs[0], cell, threshold) if at > 1e-12 and least < threshold < most else None
        if node.kind == "product":
            loss = np.abs(arrived) * (high - low)
            cell = int(np.argmax(loss))
            middle = float((low.reshape(-1)[cell] + high.reshape(-1)[cell]) / 2)
            return (float(loss.reshape(-1)[cell]), node.inputs[0], cell, middle) if loss.max() > 1e-12 else None
        cells_low, cells_high, real = cell_bounds(node, Range(low, high))
        middle_all = cells_low / 2 + cells_high / 2
        gap = ((line.upper_slope - line.lower_slope) * middle_all).sum(axis=-1) + line.upper_bias - line.lower_bias
        loss = np.abs(arrived) * gap
        window = int(np.argmax(loss))
        if loss.reshape(-1)[window] <= 1e-12 or node.index is None:
            return None
        index = node.index.reshape(-1, node.index.shape[-1])[window]
        least = cells_low.reshape(-1, index.size)[window]
        most = cells_high.reshape(-1, index.size)[window]
        there = real.reshape(-1, index.size)[window]
        chosen = int(np.argmax(np.where(there, most - least, -np.inf)))
        threshold = float(least[chosen] / 2 + most[chosen] / 2)
        if not least[chosen] < threshold < most[chosen]:
            return None
        return (float(loss.reshape(-1)[window]), node.inputs[0], int(index[chosen]), threshold)

    def _child(self, domain: Domain, cut: tuple[int, int, float], side: int) -> Domain | None:
        position, cell, threshold = cut
        state = domain.state.copy()
        state.lines = {}
        low, high = (end.copy() for end in state.ranges[position])
        (low if side > 0 else high).reshape(-1)[cell] = threshold
        state.ranges[position] = Range(low, high)
        try:
            _renew(state, position)
        except Empty:
            return None
        splits = dict(domain.splits)
        if position and threshold == 0.0:
            cells, sides = splits.get(position, (np.zeros(0, dtype=np.int64), np.zeros(0)))
            splits[position] = (np.append(cells, cell), np.append(sides, float(side)))
        return Domain(state, splits, (*domain.cuts, (position, cell, side, threshold)))


def _spread(found: Array, rows: Array, count: int) -> Array:
    out = np.zeros((count, *found.shape[1:]))
    out[rows] = found
    return out


def _renew(state: State, position: int) -> None:
    """Interval bounds after a split, within what was known before."""
    for place in range(position + 1, len(state.network.nodes)):
        node = state.network.nodes[place]
        found = step(node, [state.ranges[i] for i in node.inputs], state.arithmetic).range
        known = state.ranges[place]
        low, high = np.maximum(found.lower, known.lower), np.minimum(found.upper, known.upper)
        if (low > high).any():
            raise Empty
        state.ranges[place] = Range(low, high)
