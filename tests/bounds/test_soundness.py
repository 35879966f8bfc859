"""No evaluated point lies outside of the bounds: 20,000 networks and boxes, in each arithmetic."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx

import halfulp as hu
import halfulp.bounds as hb
from halfulp import ops
from tests.bounds.networks import box_of, draw, exactly, points_of, shuffled

ARITHMETICS = ("real", "halfulp", "any-order")
METHODS = ("ibp", "crown", "crown", "ibp")


def outside(value: np.ndarray, found: hb.Bounds) -> bool:
    """Whether a value, exact or float, lies outside of the bounds, compared exactly."""
    if value.dtype != object:  # float64 holds every float32: comparisons of floats are exact
        return bool((value < found.lower).any() or (value > found.upper).any())
    exact = value
    return bool((exact < hu.exact(found.lower)).any() or (exact > hu.exact(found.upper)).any())


@pytest.mark.parametrize("seed", range(40))
def test_no_point_is_outside(seed: int) -> None:
    """500 pairs of a network and a box. Real values are exact, float values are computed; nothing is tolerated."""
    rng = np.random.default_rng(1000 + seed)
    pairs = 0
    while pairs < 500:
        dyadic = bool(rng.integers(0, 4))  # most networks have few bits, for which float64 is exact
        network = draw(rng, dyadic)
        for turn in range(12):
            few = dyadic and turn % 4 > 0
            box = box_of(rng, network.input_shape, few)
            arithmetic = ARITHMETICS[(pairs + turn) % 3]
            found = hb.bounds(network, box, METHODS[turn % 4], arithmetic)
            for point in points_of(rng, box, 2, few):
                for value in values_of(network, point, arithmetic, rng):
                    assert not outside(value, found), (seed, pairs, network, arithmetic, found)
            pairs += 1


def values_of(network: hb.Network, point: np.ndarray, arithmetic: str, rng: np.random.Generator) -> list[np.ndarray]:
    """What the bounds must hold: the exact value, what halfulp computes, or that and sums in a drawn order."""
    if arithmetic == "real":
        return [exactly(network, point)]
    return [network(point)] + [shuffled(network, point, rng)] * (arithmetic == "any-order")


def test_exact_evaluation_is_exact() -> None:
    rng = np.random.default_rng(4)
    floats = 0
    for turn in range(120):
        network = draw(rng, turn % 3 > 0)
        (point,) = points_of(rng, box_of(rng, network.input_shape, turn % 3 > 0), 1, turn % 3 > 0)
        value = exactly(network, point)
        floats += value.dtype != object
        assert ((value if value.dtype == object else hu.exact(value)) == network(hu.exact(point))).all()
    assert floats > 40


def test_the_check_finds_a_bound_that_is_narrower_by_one_ulp() -> None:
    network = hb.from_function(lambda x: hu.max_pool(x, (2,)), (2,))
    found = hb.bounds(network, hb.Box([0.5, 0.25], [1.0, 0.75]), "ibp")
    corner = network(np.array([1.0, 0.75], dtype=np.float32))
    assert not outside(corner, found)
    object.__setattr__(found, "upper", np.nextafter(found.upper, -np.inf))
    assert outside(corner, found)


def _other_channels(module: Any, torch: Any) -> Any:
    """The same real function, with the channels between the two convolutions in another order."""
    other = copy.deepcopy(module)
    order = torch.randperm(8)
    with torch.no_grad():
        other[0].weight.copy_(module[0].weight[order])
        other[0].bias.copy_(module[0].bias[order])
        other[3].weight.copy_(module[3].weight[:, order])
    return other


@pytest.mark.parametrize("threads", [1, 2])
def test_torch_in_any_order_is_inside(threads: int) -> None:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        torch.manual_seed(0)
        module = torch.nn.Sequential(
            torch.nn.Conv2d(2, 8, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(3, 2, 1),
            torch.nn.Conv2d(8, 8, 3),
            torch.nn.BatchNorm2d(8),
            torch.nn.LeakyReLU(0.25),
            torch.nn.AvgPool2d(2, 1, 1, count_include_pad=False),
            torch.nn.Flatten(),
            torch.nn.Linear(8 * 5 * 5, 5),
        ).eval()
        x = torch.randn(1, 2, 12, 12)
        network = hb.from_torch(module, x)
        box = hb.Box.around(x.numpy(), 2.0**-20)
        for method in ("ibp", "crown"):
            found = hb.bounds(network, box, method, "any-order")
            for shift in (0.0, 2.0**-21, -(2.0**-21)):
                assert not outside(module(x + shift).detach().numpy(), found)
                assert not outside(_other_channels(module, torch)(x + shift).detach().numpy(), found)
    finally:
        torch.set_num_threads(before)


def _smooth_max(x: Any, k: int, step: int, before: int, beta: float) -> list[Any]:
    """The smooth maxima of a line as balls."""
    cells = [None] * before + list(x) + [None] * before
    windows = [cells[i : i + k] for i in range(0, len(cells) - k + 1, step)]
    return [sum((arb(0) if c is None else arb(c) * beta).exp() for c in w).log() / beta for w in windows]


CURVED: list[tuple[Any, Any]] = [
    (lambda x: ops.sigmoid(x * 3.0), lambda x: [1 / (1 + (-3 * v).exp()) for v in x]),
    (lambda x: ops.tanh(x) * x, lambda x: [v.tanh() * v for v in x]),
    (lambda x: hb.softplus(x - 1.0), lambda x: [(1 + (v - 1).exp()).log() for v in x]),
    (lambda x: hu.smooth_max_pool(x, (2,), 2.0, padding=1), lambda x: _smooth_max(x, 2, 2, 1, 2.0)),
    (lambda x: hu.smooth_max_pool(x, (3,), -0.5, stride=1), lambda x: _smooth_max(x, 3, 1, 0, -0.5)),
    (
        lambda x: ops.mul(ops.relu(x), ops.sigmoid(x)),
        lambda x: [(v if v > 0 else arb(0)) / (1 + (-v).exp()) for v in x],
    ),
]
"""Functions of four numbers, and the same in balls of 200 bits."""


@pytest.mark.parametrize("method", ["ibp", "crown"])
@pytest.mark.parametrize("number", range(len(CURVED)))
def test_curves_smooth_maxima_and_products(method: str, number: int) -> None:
    function, balls = CURVED[number]
    network = hb.from_function(function, (4,))
    rng = np.random.default_rng(5)
    with ctx.workprec(200):
        for _ in range(20):
            box = box_of(rng, (4,))
            real, computed = (hb.bounds(network, box, method, a) for a in ("real", "halfulp"))
            for point in points_of(rng, box, 6):
                assert not outside(network(point), computed)
                for value, low, high in zip(balls([arb(float(v)) for v in point]), real.lower, real.upper, strict=True):
                    assert not value < arb(float(low))
                    assert not value > arb(float(high))
