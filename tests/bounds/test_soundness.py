"""No evaluated point lies outside of the bounds: 20,000 networks and boxes, in each arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

import halfulp as hu
import halfulp.bounds as hb
from tests.bounds.networks import box_of, draw, points_of, shuffled

ARITHMETICS = ("real", "halfulp", "any-order")
METHODS = ("ibp", "crown", "crown", "ibp")


def outside(value: np.ndarray, found: hb.Bounds) -> bool:
    """Whether a value, exact or float, lies outside of the bounds, compared exactly."""
    exact = value if value.dtype == object else hu.exact(value)
    return bool((exact < hu.exact(found.lower)).any() or (exact > hu.exact(found.upper)).any())


@pytest.mark.parametrize("seed", range(40))
def test_no_point_is_outside(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    pairs = 0
    while pairs < 500:
        network = draw(rng)
        for turn in range(12):
            box = box_of(rng, network.input_shape)
            arithmetic = ARITHMETICS[(pairs + turn) % 3]
            found = hb.bounds(network, box, METHODS[turn % 4], arithmetic)
            for point in points_of(rng, box, 2):
                if arithmetic == "real":
                    value = network(hu.exact(point)) if turn % 4 == 0 else network(point.astype(np.float64))
                    slack = 0.0 if turn % 4 == 0 else 1e-4
                elif arithmetic == "halfulp":
                    value, slack = network(point), 0.0
                else:
                    value, slack = shuffled(network, point, rng), 0.0
                if slack:  # a float32 value next to the real one, where the exact evaluation would take too long
                    far = slack * (1 + np.abs(value))
                    assert (value >= found.lower - far).all()
                    assert (value <= found.upper + far).all()
                else:
                    assert not outside(value, found), (seed, pairs, network, arithmetic, found)
            pairs += 1


def test_the_check_finds_a_bound_that_is_narrower_by_one_ulp() -> None:
    network = hb.from_function(lambda x: hu.max_pool(x, (2,)), (2,))
    found = hb.bounds(network, hb.Box([0.5, 0.25], [1.0, 0.75]), "ibp")
    corner = network(np.array([1.0, 0.75], dtype=np.float32))
    assert not outside(corner, found)
    object.__setattr__(found, "upper", np.nextafter(found.upper, -np.inf))
    assert outside(corner, found)


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
                value = module(x + shift).detach().numpy()
                assert not outside(value, found)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("method", ["ibp", "crown"])
@pytest.mark.parametrize("arithmetic", ["real", "halfulp"])
def test_curves_smooth_maxima_and_products(method: str, arithmetic: str) -> None:
    from halfulp import ops

    functions = [
        lambda x: ops.sigmoid(x * 3.0),
        lambda x: ops.tanh(x) * x,
        lambda x: hb.softplus(x - 1.0),
        lambda x: hu.smooth_max_pool(x, (2,), 2.0, padding=1),
        lambda x: hu.smooth_max_pool(x, (3,), -0.5, stride=1),
        lambda x: ops.mul(ops.relu(x), ops.sigmoid(x)),
    ]
    rng = np.random.default_rng(5)
    for function in functions:
        network = hb.from_function(function, (4,))
        for _ in range(20):
            box = box_of(rng, (4,))
            found = hb.bounds(network, box, method, arithmetic)
            for point in points_of(rng, box, 6):
                value = network(point)
                room = 0.0 if arithmetic == "halfulp" else 1e-5 * (1 + np.abs(value))
                assert (value >= found.lower - room).all()
                assert (value <= found.upper + room).all()
