"""hb.bounds and hb.verify: backward bounds, slopes by gradient, then branch and bound."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from halfulp.bounds._alpha import optimise
from halfulp.bounds._arithmetic import Arithmetic
from halfulp.bounds._attack import search
from halfulp.bounds._backward import State, lower_bounds
from halfulp.bounds._box import Box
from halfulp.bounds._branching import Domain, Search
from halfulp.bounds._forward import Range
from halfulp.bounds._maps import Array
from halfulp.bounds._max_relaxation import MAX_RELAXATIONS
from halfulp.bounds._network import Network
from halfulp.bounds._proof import certificate_of_bounds
from halfulp.bounds._propagation import propagate
from halfulp.bounds._property import Property
from halfulp.bounds._result import Bounds, Verdict
from halfulp.errors import ModelError, PolicyError

METHODS = ("ibp", "crown", "alpha-crown")


def check_question(network: Network, box: Box, method: str, relaxation: str) -> None:
    """Refuse a method, relaxation or box that does not fit."""
    if method not in METHODS:
        known = ", ".join(repr(m) for m in METHODS)
        raise PolicyError("bounds", f"method={method!r}", f"must be one of {known}", "V4")
    if relaxation not in MAX_RELAXATIONS:
        known = ", ".join(repr(m) for m in MAX_RELAXATIONS)
        raise PolicyError("bounds", f"relaxation={relaxation!r}", f"must be one of {known}", "V4")
    if box.shape != network.input_shape:
        raise ModelError("bounds", f"box shape={box.shape}", f"must be {network.input_shape}", "V2")


def bounds(
    network: Network,
    box: Box,
    method: str = "crown",
    arithmetic: str = "real",
    *,
    relaxation: str = "best",
    steps: int = 40,
    progress: Any = None,
) -> Bounds:
    """Bounds of the output of a network on a box, and of every node on the way.

    ``method`` is ``"ibp"`` (intervals), ``"crown"`` (backward linear bounds) or ``"alpha-crown"`` (with ``steps`` steps
    of gradient on the slopes). ``arithmetic`` says which values are bounded: ``"real"``, ``"halfulp"`` (what halfulp
    computes in the network's dtype) or ``"any-order"`` (any IEEE evaluation). ``relaxation`` chooses the planes of
    maxima. ``progress`` is called with the share that is done.

    >>> import numpy as np, halfulp as hu, halfulp.bounds as hb
    >>> network = hb.from_function(lambda x: hu.max_pool(x, (2,), padding=1), (3,))
    >>> found = hb.bounds(network, hb.Box([-1, 0, 0], [1, 2, 0.5]))
    >>> found
    Bounds(crown, real numbers; shape=(2,), widest 2)
    >>> found.lower.tolist(), found.upper.tolist()
    ([-1.0, 0.0], [1.0, 2.0])
    """
    check_question(network, box, method, relaxation)
    state = propagate(
        State(network, box, Arithmetic.of(arithmetic, network.dtype), relaxation), method != "ibp", progress
    )
    last = network.output
    final: dict[int, Array] = {}
    if method != "ibp" and not state.tight[last]:
        rows, shape = identity_rows(network), network.output_shape
        low, high = (end.copy() for end in state.ranges[last])
        if method == "alpha-crown":
            found, final, _ = optimise(state, last, rows, {}, steps, lambda best: False, progress)
            state.alphas = {}
        else:
            found, _ = lower_bounds(state, last, rows)
        half = len(found) // 2
        low = np.maximum(low, found[:half].reshape(shape))
        high = np.minimum(high, -found[half:].reshape(shape))
        state.ranges[last] = Range(low, high)
    names = tuple((n.name, *r) for n, r in zip(network.nodes, state.ranges, strict=True))
    low, high = state.ranges[last]
    return Bounds(
        low, high, method, arithmetic, network.dtype, names,
        lambda: certificate_of_bounds(network, box, arithmetic, state, final),
    )  # fmt: skip


def identity_rows(network: Network) -> Array:
    """One row for every lower bound of the output, then one for every upper bound."""
    size = math.prod(network.output_shape)
    return np.concatenate([np.eye(size), -np.eye(size)]).reshape(2 * size, *network.output_shape)


def verify(
    network: Network,
    box: Box,
    property: Property,
    *,
    arithmetic: str = "real",
    method: str = "alpha-crown",
    time_limit: float = 60.0,
    attack_box: Box | None = None,
    progress: Any = None,
) -> Verdict:
    """Whether no input of the box has an unsafe output: ``holds``, ``violated`` with an executed input, or ``unknown``.

    Backward bounds come first, then a search for a counterexample, then slopes by gradient and branch and bound over
    rectifiers, cells of maxima and inputs, until ``time_limit`` seconds have passed.

    >>> import numpy as np, halfulp.bounds as hb
    >>> from halfulp import ops
    >>> network = hb.from_function(lambda x: ops.relu(x), (2,))
    >>> box = hb.Box([1.0, -1.0], [2.0, 0.5])
    >>> hb.verify(network, box, hb.robust(0, 2))
    Verdict(holds, real numbers, alpha-crown; margin 0.5, 1 domains)
    """
    check_question(network, box, method, "best")
    if property.outputs != math.prod(network.output_shape):
        size = math.prod(network.output_shape)
        raise ModelError("verify", f"property of {property.outputs} outputs", f"must have {size}", "V2")
    if not time_limit > 0:
        raise PolicyError("verify", f"time_limit={time_limit!r}", "must be a number of seconds > 0", "V4")
    began = time.monotonic()
    kind = Arithmetic.of(arithmetic, network.dtype)
    search_tree = Search(network, property, kind, method, began + time_limit, progress)

    def verdict(status: str, **found: Any) -> Verdict:
        return Verdict(
            status, arithmetic, network.dtype, method, float(search_tree.margin), time.monotonic() - began,
            search_tree.domains, **found,
        )  # fmt: skip

    root = propagate(State(network, box, kind), method != "ibp")
    if search_tree.decide(Domain(root, {}, ()), 0 if method != "alpha-crown" else 30, quick=True):
        return verdict("holds", _certificate=search_tree.certificate(box, root))
    found = search(network, attack_box or box, property, kind, began + time_limit)
    if found is not None:
        return verdict("violated", counterexample=found[0], output=found[1])
    if method == "alpha-crown" and search_tree.branch(Domain(root, {}, ())):
        return verdict("holds", _certificate=search_tree.certificate(box, root))
    return verdict("unknown")
