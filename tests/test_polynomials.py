"""The polynomials of the elementwise kernels: as near to their functions as the kernels count on, and as generated."""

from __future__ import annotations

from typing import Any

import pytest
from flint import arb, ctx
from tools import polynomials


@pytest.fixture(autouse=True)
def precision() -> Any:
    before, ctx.prec = ctx.prec, polynomials.PRECISION
    yield
    ctx.prec = before


WEIGHTS = {"ExponentialRest": 0.1, "AtanhRest": 0.01, "ErfRest": 1.0, "Tail": 1.0}
"""What part of the result the polynomial makes at most: r^2 / 2 of exp(r), z^2 / 3 of atanh(z), or all."""


@pytest.mark.parametrize("p", polynomials.POLYNOMIALS, ids=lambda p: p.name)
@pytest.mark.parametrize("count", [1, 2])
def test_the_distance_from_the_function_is_what_the_formulas_allow(p: Any, count: int) -> None:
    if count == 2 and p.pair is None:
        assert p.name in ("ExponentialRest", "AtanhRest")  # pairs take Taylor's
        return
    unit = arb(2) ** (-45 if count == 1 else -86)
    allowed = 1.25 if p.name == "Tail" else 0.5  # formulas with a tail are given 4 units
    assert polynomials.bound(p, count) * WEIGHTS[p.name] < unit * allowed


def test_the_header_is_what_the_tool_writes() -> None:
    assert polynomials.TARGET.read_text() == polynomials.header()
