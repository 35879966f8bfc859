"""Every declared record is bounded, in every arithmetic; what is refused is on a list here and in the documentation."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import halfulp as hu
import halfulp.bounds as hb
from halfulp import ops
from halfulp.bounds._smooth_relaxation import norm_planes
from halfulp.conformance.build import small
from halfulp.records import Operator, _declaration, declarations
from tests.bounds.networks import shuffled
from tests.bounds.test_soundness import outside

REFUSED: tuple[str, ...] = (
    "LayerNorm", "GroupNorm", "InstanceNorm", "Softmax", "LogSoftmax", "Elu", "Gelu", "Silu", "Mish", "Hardswish",
    "Hardsigmoid", "Softplus", "Exp", "Expm1", "Log", "Log1p", "Sqrt", "Rsqrt", "Reciprocal", "Erf", "Pow",
    "Var", "MSELoss", "CrossEntropy",
)  # fmt: skip
"""Records that have no bounds. Softplus is bounded as ``halfulp.bounds.softplus``, and from ONNX and PyTorch."""
MANY_WAYS = {"SmoothMaxPool", "LpPool", "GlobalLpPool"}
"""Records that "any-order" refuses: there are many ways to compute them. Norms with p = 1 and infinity are bounded."""
OURS = [d for d in declarations() if d.record.__module__.startswith("halfulp.")]
DECLARED = [d for d in OURS if d.record.__name__ not in REFUSED]


def networks_of(declaration: Any, count: int) -> Iterator[tuple[Any, hb.Network]]:
    """The record alone, and behind a sum of two branches, with drawn constants."""
    rng = np.random.default_rng(len(declaration.name))
    seed = random.Random(declaration.name)
    for number in range(count):
        op, shapes = small(declaration, seed)
        drawn = declaration.draw.constants
        fixed = () if drawn is None else tuple(drawn(op, shapes, rng))
        constants = [None if s is None else dyadic(rng, s) for s in shapes[1 : len(shapes) - len(fixed)]]
        if not 0 < math.prod(shapes[0]) <= 400 or getattr(op, "training", False):
            continue  # statistics of the input are refused by name
        slope = getattr(op, "negative_slope", 0.0)
        if float(np.float32(slope)) != slope:
            continue  # so are slopes that are no numbers of the network's dtype
        if op.output_shape(*shapes) == ():
            continue  # certificates are of outputs with axes
        if declaration.name == "matmul" and len(shapes[1]) > 2:
            continue  # a stack of constant matrices is refused by name

        def function(x: Any, op: Any = op, rest: Any = (*constants, *fixed), deep: bool = number % 2 > 0) -> Any:
            return op(ops.relu(x) * 0.5 - x if deep else x, *rest)

        yield op, hb.from_function(function, shapes[0])


def dyadic(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Multiples of 1/8 in [-2, 2]: their products and sums are exact in float64."""
    return (rng.integers(-16, 17, size=shape) / 8).astype(np.float32)


def box_and_points(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[hb.Box, Any]:
    low = dyadic(rng, shape)
    width = rng.integers(0, 9, size=shape) / 8
    share = rng.integers(0, 5, size=(4, *shape)) / 4
    share[:2] = np.rint(share[:2])
    return hb.Box(low, low + width), (low + width * share).astype(np.float32)


@pytest.mark.parametrize("declaration", DECLARED, ids=lambda d: d.record.__name__)
def test_every_record_is_bounded_soundly(declaration: Any) -> None:
    rng = np.random.default_rng(7)
    checked = 0
    for op, network in networks_of(declaration, 14):
        for arithmetic in ("real", "halfulp", "any-order"):
            for method in ("ibp", "crown"):
                box, points = box_and_points(rng, network.input_shape)
                ways = type(op).__name__ in MANY_WAYS and getattr(op, "p", 2) not in (1, math.inf)
                if arithmetic == "any-order" and ways:
                    with pytest.raises(hu.ModelError, match=r"node '.*pool.*': arithmetic 'any-order' has no bound"):
                        hb.bounds(network, box, method, arithmetic)
                    continue
                found = hb.bounds(network, box, method, arithmetic)
                for point in points:
                    assert not outside(evaluated(network, point, arithmetic, rng), found), (op, arithmetic, method)
                    checked += 1
    assert checked >= 100


@pytest.mark.parametrize("declaration", DECLARED, ids=lambda d: d.record.__name__)
def test_every_record_has_certificates(declaration: Any) -> None:
    rng = np.random.default_rng(8)
    third = "real" if declaration.record.__name__ in MANY_WAYS else "any-order"
    for number, (_, network) in enumerate(networks_of(declaration, 3)):
        box, _ = box_and_points(rng, network.input_shape)
        found = hb.bounds(network, box, "crown", ("real", "halfulp", third)[number % 3])
        assert hb.replay(found.certificate, network).endswith("proved exactly")


def test_records_without_bounds_are_refused_by_name() -> None:
    without = [d for d in OURS if d not in DECLARED]
    assert {d.record.__name__ for d in without} == set(REFUSED)
    for declaration in without:
        with pytest.raises(hu.ModelError, match=rf"{declaration.name}.*these are: .*max_pool"):
            next(networks_of(declaration, 20))


def evaluated(network: hb.Network, point: Any, arithmetic: str, rng: np.random.Generator) -> Any:
    if arithmetic == "halfulp":
        return network(point)
    if arithmetic == "any-order":
        return shuffled(network, point, rng)
    # Everything before the record is exact in float64, and the record is rounded once. Rounding is monotone, so a
    # rounded value outside of bounds in float64 has an exact one outside.
    values = [point.astype(np.float64)]
    for node in network.nodes[1:]:
        values.append(node.run(*(values[i] for i in node.inputs)))
    return values[network.output]


def test_the_documentation_names_what_is_refused() -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/bound-a-network.md").read_text(encoding="utf-8")
    for name in (*REFUSED, *MANY_WAYS):
        assert f"`{name}`" in page


def test_a_minimum_is_a_negated_maximum() -> None:
    network = hb.from_function(lambda x: hu.min_pool(x, (2,), padding=1), (3,))
    found = hb.bounds(network, hb.Box([-1, 0, 0], [1, 2, 0.5]), "crown")
    assert found.lower.tolist() == [-1, 0]
    assert found.upper.tolist() == [1, 0.5]
    assert hb.replay(found.certificate, network).endswith("proved exactly")


@pytest.mark.parametrize("p", [1, 2, 3, 1.5, 40, 1e9, math.inf])
def test_norms_are_tight_where_they_are_linear(p: float) -> None:
    """One cell: the norm is |x|."""
    network = hb.from_function(lambda x: hu.lp_pool(x, p, (1,)), (3,))
    found = hb.bounds(network, hb.Box([1, -3, -1], [2, -1, 2]), "crown")
    lower, upper = np.array([1, 1, 0]), np.array([2, 3, 2])
    assert (found.lower <= lower).all()
    assert (found.upper >= upper).all()
    assert np.allclose(found.lower, lower)  # tight up to the outward roundings
    assert np.allclose(found.upper, upper)


@pytest.mark.parametrize("p", [2.0, 3.0, 1.25, 700.0, 2.0**50])
def test_planes_of_norms_hold_at_the_vertices(p: float) -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        cells = int(rng.integers(1, 5))
        low = rng.integers(0, 4, size=cells) * rng.choice([0.0, 0.25, 1.0, 2.0**40, 2.0**-40])
        high = low + rng.integers(0, 3, size=cells) * rng.choice([0.25, 2.0**-30, 2.0**30])
        planes = norm_planes(low, high, np.ones(cells, dtype=bool), p)
        for vertex in range(2**cells):
            x = np.where([(vertex >> k) & 1 for k in range(cells)], high, low)
            value = hu.exact(hu.LpPool((cells,), p)(x))[0]  # rounded once
            below, above = (
                (hu.exact(s) * hu.exact(x)).sum() + hu.exact(b)
                for s, b in ((planes.lower_slope, planes.lower_bias), (planes.upper_slope, planes.upper_bias))
            )
            room = value / 2**53  # the rounding of the value itself
            assert below <= value + room
            assert above >= value - room


# A linear record of a user


@dataclass(frozen=True, repr=False)
class Thirds(Operator):
    """x[i] / 3 - x[i + 1]: coefficients of both signs, some of which are no floats."""

    part: int = 3

    @property
    def name(self) -> str:
        return "thirds"

    def output_shape(self, *input_shapes: Any) -> Any:
        return (*input_shapes[0][:-1], input_shapes[0][-1] - 1)

    def __call__(self, *inputs: Any, out: Any = None) -> Any:
        (x,) = inputs
        if isinstance(x, hu.Traced):
            return ops.apply(self, x)
        if x.dtype == object:
            return x[..., :-1] / self.part - x[..., 1:]
        return hu.rounded(self(hu.exact(x)), x.dtype)


@pytest.mark.parametrize("part", [2, 3])
def test_a_linear_record_of_a_user_is_bounded_by_its_declaration(part: int) -> None:
    network_of = lambda: hb.from_function(lambda x: Thirds(part)(ops.relu(x)), (2, 4))  # noqa: E731
    with pytest.raises(hu.ModelError, match=r"thirds: is not bounded; these are: .*max_pool"):
        network_of()
    hu.declare(Thirds, kind="linear", curvature="linear", draw=hu.Draw(lambda choose: (Thirds(), ((4,),))), ranks=())
    try:
        network = network_of()
        rng = np.random.default_rng(2)
        for arithmetic in ("real", "halfulp", "any-order"):
            for method in ("ibp", "crown"):
                box, points = box_and_points(rng, (2, 4))
                found = hb.bounds(network, box, method, arithmetic)
                for point in points:
                    value = network(hu.exact(point)) if arithmetic == "real" else network(point)
                    assert not outside(value, found)
        if part == 2:
            assert hb.replay(found.certificate, network).endswith("proved exactly")
    finally:
        del _declaration._declared[Thirds]


def test_a_declared_record_without_a_rule_is_refused_with_its_kind() -> None:
    hu.declare(Thirds, kind="selecting", curvature="none", draw=hu.Draw(lambda choose: (Thirds(), ((4,),))), ranks=())
    try:
        rule = r"from_function: thirds: is declared as 'selecting' and is not bounded; these are: .*\[V3\]"
        with pytest.raises(hu.ModelError, match=rule):
            hb.from_function(lambda x: Thirds()(x), (4,))
    finally:
        del _declaration._declared[Thirds]
