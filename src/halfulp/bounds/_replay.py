"""The checker of certificates: rational arithmetic alone, none of the code that found the proof.

For every node, in order, the exact interval bounds are computed, then the certificate's tighter bounds are proved by
carrying rows back to the input. A plane needs only its slopes from the certificate: the best bias that makes it sound
is computed here, window by window, so a wrong slope can make a bound weaker but never wrong.
"""

from __future__ import annotations

import hashlib
import json
import os
from itertools import pairwise
from typing import Any

import numpy as np
from flint import fmpq

from halfulp.bounds._exact_intervals import Intervals
from halfulp.bounds._exact_patches import joint_bound
from halfulp.bounds._exact_planes import planes_of
from halfulp.bounds._maps import Gather
from halfulp.bounds._network import Network, Node
from halfulp.bounds._rational import (
    ONE,
    ZERO,
    Exact,
    Linear,
    add_to,
    check_cover,
    larger,
    number,
    numbers,
    rational,
    refuse,
    size_of,
    smaller,
    sparse,
    zeros,
)
from halfulp.errors import CertificateError


def replay(certificate: Any, network: Any) -> str:
    """Check a certificate against a network with exact arithmetic; what is proved comes back as a sentence.

    ``certificate`` is a :class:`Certificate` or the path of one, ``network`` a :class:`Network` or the path of an ONNX
    model. A certificate that was changed, belongs to another network, or does not prove its claim is a
    :class:`halfulp.CertificateError`.

    >>> import halfulp.bounds as hb
    >>> from halfulp import ops
    >>> network = hb.from_function(lambda x: ops.relu(x[0] - x[1]), (2,))
    >>> found = hb.bounds(network, hb.Box([0.0, 0.0], [1.0, 1.0]))
    >>> hb.replay(found.certificate, network)
    'bounds of 1 outputs, real arithmetic, 1 leaves: proved exactly'
    """
    from halfulp.bounds._certificate import FORMAT, Certificate

    if not isinstance(certificate, Certificate):
        certificate = Certificate.load(certificate)
    if isinstance(network, (str, os.PathLike)):
        from halfulp.bounds._onnx_reader import load

        network = load(network)
    content = dict(certificate.content)
    seal = content.pop("checksum", None)
    text = json.dumps(content, separators=(",", ":"), sort_keys=True)
    if seal != hashlib.sha256(text.encode()).hexdigest():
        raise refuse(f"checksum={seal!r}", "does not fit the content")
    if content.get("format") != FORMAT or content.get("version") != 1:
        raise refuse(f"format={content.get('format')!r}", f"must be {FORMAT!r}, version 1")
    if content.get("network") != network.digest():
        raise refuse(f"network={content.get('network')!r}", "is the digest of another network")
    try:
        return _Checker(network, content).check()
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        if isinstance(error, CertificateError):
            raise
        raise refuse(f"content: {type(error).__name__}: {error}", "is malformed") from error


class _Checker:
    """One certificate and one network."""

    def __init__(self, network: Network, content: dict[str, Any]) -> None:
        self.network, self.content = network, content
        self.kept: dict[int, Any] = {}
        self.gaps: dict[int, dict[tuple[int, int], Exact]] = {}
        """Maximum -> cells k, j of its input -> a proved upper bound of their difference."""
        shape = network.input_shape
        box = (numbers(content["box"]["lower"], shape), numbers(content["box"]["upper"], shape))
        self.intervals = Intervals(network, content["arithmetic"], box)

    def check(self) -> str:
        """Everything: the root's bounds, the tree of splits, the claim in every leaf."""
        content, root = self.content, self.content["root"]
        ranges, errors = self.ranges([], None, root)
        leaves = content["leaves"]
        check_cover([leaf["cuts"] for leaf in leaves], 0)
        for leaf in leaves:
            inside, noise = (ranges, errors) if not leaf["cuts"] else self.ranges(leaf["cuts"], ranges, None)
            if inside is not None:
                self.claim(leaf, inside, noise, leaf["planes"] or root["planes"])
        kind = content["claim"]["kind"]
        what = f"bounds of {len(content['claim']['lower'])} outputs" if kind == "bounds" else "property"
        return f"{what}, {self.intervals.name} arithmetic, {len(leaves)} leaves: proved exactly"

    def ranges(self, cuts: Any, known: Any, root: Any) -> Any:
        """Bounds and errors of every node; None if the cuts leave nothing."""
        found: list[tuple[Exact, Exact]] = []
        errors: list[Exact | None] = []
        for position, node in enumerate(self.network.nodes):
            low, high, error = self.intervals.of(position, node, found)
            if known is not None:
                low, high = larger(low, known[position][0]), smaller(high, known[position][1])
            for place, cell, side, text in cuts:
                if place == position:
                    low, high, threshold = low.copy(), high.copy(), number(text)
                    end, better = (low, max) if side > 0 else (high, min)
                    end.reshape(-1)[cell] = better(end.reshape(-1)[cell], threshold)
            if (low > high).any():
                return None, None
            found.append((low, high))
            errors.append(error)
            if root is not None and str(position) in root["ranges"]:
                found[position] = self.tightened(position, found, errors, root)
            if root is not None and str(position) in root["differences"]:
                self.gaps[position] = self.differences(node, found, errors, root, root["differences"][str(position)])
        return found, errors

    def tightened(self, position: int, found: Any, errors: Any, root: Any) -> tuple[Exact, Exact]:
        """The certificate's bounds of some cells, after they are proved."""
        claim = root["ranges"][str(position)]
        low, high = (end.copy() for end in found[position])
        cells = claim["cells"]
        for sign, texts, end, better in ((ONE, claim["lower"], low, max), (-ONE, claim["upper"], high, min)):
            rows = [{cell: sign} for cell in cells]
            proved = self.proved(position, rows, found, errors, root["planes"])
            for cell, text, least in zip(cells, texts, proved, strict=True):
                wanted, at = number(text), end.reshape(-1)[cell]
                if max(least, sign * at) < sign * wanted:
                    raise refuse(f"bound {text} of cell {cell} of node {position}", "is not proved")
                end.reshape(-1)[cell] = better(at, wanted)
        return low, high

    def differences(self, node: Node, found: Any, errors: Any, root: Any, claim: Any) -> Any:
        """The certificate's bounds of differences x_k - x_j of cells of a maximum's input, after they are proved."""
        pairs = list(zip(claim["above"], claim["below"], strict=True))
        rows = [{k: -ONE, j: ONE} for k, j in pairs]
        proved = self.proved(node.inputs[0], rows, found, errors, root["planes"])
        for pair, text, least in zip(pairs, claim["values"], proved, strict=True):
            if -least > number(text):
                raise refuse(f"difference {text} of cells {pair} below node {node.name!r}", "is not proved")
        return dict(zip(pairs, (-least for least in proved), strict=True))

    def proved(self, position: int, rows: list[dict[int, Any]], found: Any, errors: Any, planes: Any) -> list[Any]:
        """Exact lower bounds of rows, each a few cells of a node with coefficients."""
        shape, out = self.network.nodes[position].shape, []
        for first in range(0, len(rows), 128):
            part = zeros((len(rows[first : first + 128]), int(np.prod(shape))))
            for k, row in enumerate(rows[first : first + 128]):
                for cell, value in row.items():
                    if not 0 <= cell < part.shape[1]:
                        raise refuse(f"cell {cell} of node {position}", f"must be from 0 to {part.shape[1] - 1}")
                    part[k, cell] = value
            out += self.back(position, part.reshape(-1, *shape), found, errors, planes).tolist()
        return out

    def claim(self, leaf: Any, ranges: Any, errors: Any, planes: Any) -> None:
        """The claim in one leaf: every row by its own slopes and multipliers, or by the output's ranges."""
        claim, last = self.content["claim"], self.network.output
        low, _ = (end.reshape(-1) for end in ranges[last])
        if claim["kind"] == "bounds":
            wanted = [number(t) for t in claim["lower"]] + [-number(t) for t in claim["upper"]]
            rows = np.concatenate([np.diag([ONE] * low.size), np.diag([-ONE] * low.size)])
            rows = np.array([[fmpq(v) if isinstance(v, int) else v for v in r] for r in rows.tolist()], dtype=object)
            groups = [[k] for k in range(len(wanted))]
        else:
            parts = claim["unsafe"]
            lines = [(r, b) for part in parts for r, b in zip(part["rows"], part["bound"], strict=True)]
            rows = np.array([[rational(v) for v in row] for row, _ in lines], dtype=object)
            wanted = [rational(bound) for _, bound in lines]
            starts = np.cumsum([0, *(len(part["bound"]) for part in parts)]).tolist()
            groups = [list(range(a, b)) for a, b in pairwise(starts)]
        strict = claim["kind"] != "bounds"
        if rows.shape != (len(wanted), low.size) or not groups or not all(groups):
            raise refuse("claim", f"must have rows of {low.size} numbers")
        for group in groups:
            if not any(self.row(k, rows[k], wanted[k], strict, leaf, ranges, errors, planes) for k in group):
                raise refuse(f"claim {group[0]}", f"is not proved in the leaf of cuts {leaf['cuts']}")

    def row(
        self, k: int, row: Exact, wanted: Any, strict: bool, leaf: Any, ranges: Any, errors: Any, planes: Any
    ) -> bool:
        """Whether one line of the claim is proved."""
        last = self.network.output
        low, high = (end.reshape(-1) for end in ranges[last])
        least = sum((a * (p if a > 0 else q) for a, p, q in zip(row, low, high, strict=True) if a != 0), ZERO)
        if not (least > wanted or (least == wanted and not strict)):
            own = leaf["slopes"][k] if leaf["slopes"] else {}
            extra = leaf["multipliers"][k] if leaf["multipliers"] else {}
            rows = row.reshape(1, *self.network.output_shape)
            least = self.back(last, rows, ranges, errors, planes, own, extra)[0]
            patches = leaf["patches"][k] if leaf["patches"] else {}
            if patches and not least > wanted:
                constant, left = self.down(last, rows, ranges, errors, planes, own, extra, patches["place"])
                least = constant[0] + joint_bound(self.network, left, patches, ranges, errors)
        return bool(least > wanted or (least == wanted and not strict))

    def back(
        self, start: int, rows: Exact, ranges: Any, errors: Any, planes: Any, own: Any = None, extra: Any = None
    ) -> Exact:
        """Exact lower bounds of rows · value of a node."""
        return self.down(start, rows, ranges, errors, planes, own, extra, -1)[0]

    def down(
        self, start: int, rows: Exact, ranges: Any, errors: Any, planes: Any, own: Any, extra: Any, stop: int
    ) -> tuple[Exact, dict[int, Exact]]:
        """Rows carried back to the input, or to the node ``stop``: constants, and the coefficients that are left."""
        waiting = {start: rows}
        constant = zeros((len(rows),))
        for position in range(start, stop, -1):
            node = self.network.nodes[position]
            if extra and str(position) in extra:
                added = sparse(extra[str(position)], node.shape)
                if any((added * end > 0).any() for end in ranges[position]):
                    raise refuse(f"multiplier of node {position}", "needs a split that gives its cells a sign")
                waiting[position] = waiting.get(position, zeros((len(rows), *node.shape))) + added
            arrived = waiting.pop(position, None)
            if arrived is None:
                continue
            axes = tuple(range(1, arrived.ndim))
            if errors[position] is not None:
                constant = constant - (size_of(arrived) * errors[position]).sum(axis=axes)
            positive = (arrived > 0).astype(bool)
            if node.kind == "input":
                constant = constant + (arrived * np.where(positive, *ranges[0])).sum(axis=axes)
            elif node.kind == "affine":
                known = self.intervals.affine[position]
                if known.bias is not None:
                    constant = constant + (arrived * known.bias).sum(axis=axes)
                for source, linear in zip(node.inputs, known.maps, strict=True):
                    add_to(waiting, source, linear.transpose(arrived))
            else:
                slopes = planes.get(str(position))
                if own and str(position) in own and slopes is not None:
                    slopes = {**slopes, "lower": own[str(position)]}
                shares, biases = self.planes(position, slopes, ranges)
                constant = constant + (arrived * np.where(positive, *biases)).sum(axis=axes)
                self.spread(node, waiting, arrived, positive, shares)
        return constant, waiting

    def planes(self, position: int, slopes: Any, ranges: Any) -> Any:
        """The planes of a node; many rows have the same, so those made last are kept with what they were made of."""
        node = self.network.nodes[position]
        given = [ranges[i] for i in node.inputs]
        kept = self.kept.get(position)
        if kept is None or kept[0] is not slopes or any(a is not b for a, b in zip(kept[1], given, strict=True)):
            kept = self.kept[position] = (slopes, given, planes_of(node, slopes, given, self.gaps.get(position)))
        return kept[2]

    def spread(self, node: Node, waiting: Any, arrived: Exact, positive: Any, shares: Any) -> None:
        """The coefficients of a curved node's inputs."""
        low, high = shares
        if node.kind == "curve":
            add_to(waiting, node.inputs[0], arrived * np.where(positive, low, high))
            return
        chosen = arrived[..., None] * np.where(positive[..., None], low, high)
        if node.kind == "product":
            for k, source in enumerate(node.inputs):
                add_to(waiting, source, chosen[..., k])
            return
        cells = Linear(Gather(node.index, self.network.nodes[node.inputs[0]].shape))  # type: ignore[arg-type]
        add_to(waiting, node.inputs[0], cells.transpose(chosen))
