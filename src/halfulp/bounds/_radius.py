"""The largest radius around a point that can be proved."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from halfulp.bounds._alpha import optimise
from halfulp.bounds._arithmetic import Arithmetic
from halfulp.bounds._backward import State, lower_bounds
from halfulp.bounds._box import Box
from halfulp.bounds._network import Network
from halfulp.bounds._propagation import propagate
from halfulp.bounds._property import robust
from halfulp.bounds._verify import check_question, verify
from halfulp.errors import PolicyError


def certified_radius(
    network: Network,
    x: Any,
    label: int,
    *,
    arithmetic: str = "real",
    method: str = "crown",
    relaxation: str = "best",
    clip: tuple[float, float] | None = None,
    largest: float = 1.0,
    tolerance: float = 1e-3,
    time_limit: float | None = None,
) -> float:
    """A radius around ``x`` within which every input is proved to keep its label, by bisection; 0 if none is found.

    The search stops at the relative precision ``tolerance``. The returned radius is proved; a larger one may be
    provable. With a ``time_limit``, branch and bound runs for up to that many seconds at each radius.

    >>> import numpy as np, halfulp.bounds as hb
    >>> network = hb.from_function(lambda x: x, (2,))
    >>> round(hb.certified_radius(network, np.array([1.0, 0.0]), 0), 2)
    0.5
    """
    claim = robust(label, math.prod(network.output_shape))
    rows, bound, _ = claim.lines()
    kind = Arithmetic.of(arithmetic, network.dtype)

    def proved(radius: float) -> bool:
        box = Box.around(x, radius, clip)
        check_question(network, box, method, relaxation)
        state = propagate(State(network, box, kind, relaxation), method != "ibp")
        if method == "ibp":
            low, high = (end.reshape(-1) for end in state.ranges[network.output])
            others = np.delete(high, label)
            return bool(low[label] > others.max(initial=-np.inf))
        shaped = rows.reshape(len(rows), *network.output_shape)
        if method == "alpha-crown":
            found, _, _ = optimise(state, network.output, shaped, {}, 20, lambda b: bool((b > bound).all()))
        else:
            found, _ = lower_bounds(state, network.output, shaped)
        return bool((found > bound).all())

    def searched(radius: float) -> bool:
        box, limit = Box.around(x, radius, clip), 0.0 if time_limit is None else time_limit
        return verify(network, box, claim, arithmetic=arithmetic, time_limit=limit).status == "holds"

    if time_limit is not None and not time_limit > 0:
        raise PolicyError("certified_radius", f"time_limit={time_limit!r}", "must be a number of seconds > 0", "V4")
    if not proved(0.0):
        return 0.0
    if proved(largest):
        return largest
    low = _bisected(proved, 0.0, largest, tolerance)
    return low if time_limit is None else _bisected(searched, low, min(largest, 2 * low), tolerance)


def _bisected(proved: Callable[[float], bool], low: float, high: float, tolerance: float) -> float:
    """The largest radius found that is proved, where ``low`` is."""
    while high - low > tolerance * high and high > 2.0**-60:
        middle = (low + high) / 2 if low > 0 else high / 4
        if proved(middle):
            low = middle
        else:
            high = middle
    return low
