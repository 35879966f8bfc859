"""Bounds against exact ranges, refusals by their whole text, verification and counterexamples."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import halfulp as hu
import halfulp.bounds as hb
from halfulp import ops
from tests.bounds.networks import shuffled

MONOTONE = [
    lambda x: hu.conv2d(x, WEIGHT, BIAS, padding=1),
    lambda x: hu.conv2d(x, WEIGHT[:, :1], None, stride=2, groups=2),
    lambda x: hu.conv_transpose2d(x, WEIGHT, None, stride=2),
    lambda x: hu.conv_transpose2d(x, WEIGHT[:, :1], None, groups=2),
    lambda x: hu.avg_pool2d(x, 2, 1, 1, count_include_pad=False),
    lambda x: hu.max_pool2d(x, 3, 2, 1),
    lambda x: hu.smooth_max_pool2d(x, 2, 1.5),
    lambda x: ops.linear(x, WEIGHT[0, 0, :, :1].repeat(5, axis=1) * MATRIX),
    lambda x: x * np.float32(-0.3),
]
_RNG = np.random.default_rng(0)
WEIGHT = _RNG.normal(size=(2, 2, 3, 3)).astype(np.float32)
BIAS = _RNG.normal(size=2).astype(np.float32)
MATRIX = _RNG.normal(size=(3, 5)).astype(np.float32)


@pytest.mark.parametrize("number", range(len(MONOTONE)))
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_halfulp_intervals_are_the_exact_range_rounded(number: int, dtype: type) -> None:
    """The exact ends are reached at corners that the signs of the coefficients name."""

    def function(x: object) -> object:
        return MONOTONE[number](x)

    global WEIGHT, BIAS, MATRIX
    kept = WEIGHT, BIAS, MATRIX
    WEIGHT, BIAS, MATRIX = (a.astype(dtype) for a in kept)
    try:
        network = hb.from_function(function if number != 8 else lambda x: x * dtype(-0.3), (2, 5, 5), dtype)
    finally:
        WEIGHT, BIAS, MATRIX = kept
    rng = np.random.default_rng(3)
    low = rng.normal(size=(2, 5, 5)).astype(dtype)
    high = (low + np.abs(rng.normal(size=low.shape)).astype(dtype)).astype(dtype)
    found = hb.bounds(network, hb.Box(low, high), "ibp", "halfulp")
    node = network.nodes[-1]
    if node.maps:
        size = low.size
        matrix = node.maps[0].forward(np.eye(size).reshape(size, 2, 5, 5)).reshape(size, -1).T
        for row, (least, most) in enumerate(zip(found.lower.reshape(-1), found.upper.reshape(-1), strict=True)):
            corner = np.where(matrix[row] >= 0, low.reshape(-1), high.reshape(-1)).reshape(low.shape).astype(dtype)
            other = np.where(matrix[row] >= 0, high.reshape(-1), low.reshape(-1)).reshape(low.shape).astype(dtype)
            assert network(corner).reshape(-1)[row] == least
            assert network(other).reshape(-1)[row] == most
    else:
        assert (network(low) == found.lower).all()
        assert (network(high) == found.upper).all()


def test_a_padded_overlapping_max_pool_is_bounded_exactly() -> None:
    network = hb.from_function(lambda x: hu.max_pool2d(x, 3, 2, 1, ceil_mode=True), (4, 4))
    low = -np.arange(1.0, 17.0).reshape(4, 4)
    found = hb.bounds(network, hb.Box(low, low + 0.5))
    assert found.lower.tolist() == np.asarray(hu.max_pool2d(low, 3, 2, 1, ceil_mode=True)).tolist()
    assert found.upper.tolist() == (found.lower + 0.5).tolist()
    assert (found.upper < 0).all()  # zero is not the padding of a maximum


def test_backward_bounds_are_tighter_and_alpha_is_tighter_still() -> None:
    rng = np.random.default_rng(7)
    weights = [rng.normal(size=(6, 6)).astype(np.float32) for _ in range(3)]

    def function(x: object) -> object:
        for weight in weights[:-1]:
            x = ops.relu(ops.linear(x, weight))
        return ops.linear(x, weights[-1])

    network = hb.from_function(function, (6,))
    box = hb.Box.around(rng.normal(size=6), 0.3)
    widths = []
    for method in ("ibp", "crown", "alpha-crown"):
        found = hb.bounds(network, box, method)
        widths.append(float((found.upper - found.lower).sum()))
    assert widths[0] > widths[1] > widths[2]


def test_results_name_their_arithmetic_and_hold_every_node() -> None:
    network = hb.from_function(lambda x: ops.relu(x) + 1.0, (2,))
    found = hb.bounds(network, hb.Box([-1, -1], [1, 2]), "ibp", "any-order")
    assert "any-order float32" in repr(found)
    assert [name for name, _, _ in found.nodes] == ["input", "relu", "add"]
    assert found.nodes[1][2].tolist() == [1.0, 2.0]


def _affine() -> hb.Network:
    return hb.from_function(lambda x: ops.relu(x), (2,))


REFUSALS = [
    (lambda: hb.Box([0.0, np.nan], [1.0, 1.0]), "Box: lower=nan at (1,): must be finite [V1]"),
    (lambda: hb.Box([0.0], [np.inf]), "Box: upper=inf at (0,): must be finite [V1]"),
    (lambda: hb.Box([2.0], [1.0]), "Box: lower=2.0 at (0,): must be at most upper=1.0 [V1]"),
    (lambda: hb.Box(["a"], [1.0]), "Box: lower dtype=<U1: must be float or integer numbers [V1]"),
    (lambda: hb.Box([0.0], [1.0, 2.0]), "Box: upper shape=(2,): must be (1,), the shape of the lower one [V2]"),
    (lambda: hb.Box.around([0.0], -1.0), "Box.around: radius=-1.0: must be a finite number >= 0 [V1]"),
    (lambda: hb.bounds(_affine(), hb.Box([0.0], [1.0])), "bounds: box shape=(1,): must be (2,) [V2]"),
    (lambda: _affine()(np.zeros(3)), "network: input shape=(3,): must be (2,) [V2]"),
    (
        lambda: hb.bounds(_affine(), hb.Box([0, 0], [1, 1]), "milp"),
        "bounds: method='milp': must be one of 'ibp', 'crown', 'alpha-crown' [V4]",
    ),
    (
        lambda: hb.bounds(_affine(), hb.Box([0, 0], [1, 1]), "ibp", "float"),
        "bounds: arithmetic='float': must be one of 'real', 'halfulp', 'any-order' [V4]",
    ),
    (
        lambda: hb.verify(_affine(), hb.Box([0, 0], [1, 1]), hb.robust(0, 3)),
        "verify: property of 3 outputs: must have 2 [V2]",
    ),
    (
        lambda: hb.verify(_affine(), hb.Box([0, 0], [1, 1]), hb.robust(0, 2), time_limit=0),
        "verify: time_limit=0: must be a number of seconds > 0 [V4]",
    ),
    (lambda: hb.robust(4, 3), "robust: label=4: must be from 0 to 2 [V6]"),
    (lambda: hb.Property([([[1, 2], [1]], [0, 0])]), "Property: rows of lengths [1, 2]: must all have one length [V6]"),
    (lambda: hb.Property([([[1, np.inf]], [0])]), "Property: number inf: must be a finite real number [V6]"),
    (
        lambda: hb.bounds(hb.from_function(lambda x: x * np.float32(3e38), (1,)), hb.Box([0], [4]), "ibp", "halfulp"),
        "bounds: node 'mul': its values or their sums can exceed the largest float32 on this box [V5]",
    ),
    (
        lambda: hb.bounds(
            hb.from_function(lambda x: hu.smooth_max_pool(x, (2,), 1.0), (2,)),
            hb.Box([0, 0], [1, 1]),
            "ibp",
            "any-order",
        ),
        "bounds: node 'smooth_max_pool1d': arithmetic 'any-order' has no bound for the many ways to compute it; "
        "use 'halfulp' or 'real' [V3]",
    ),
]


@pytest.mark.parametrize("number", range(len(REFUSALS)))
def test_refusals(number: int) -> None:
    call, text = REFUSALS[number]
    with pytest.raises(hu.HalfulpError) as caught:
        call()
    assert str(caught.value) == text


def test_an_operator_that_cannot_be_bounded_is_named_with_those_that_can() -> None:
    with pytest.raises(
        hu.ModelError, match=r"from_function: log: .*is not bounded; these are: .*max_pool.*relu.* \[V3\]"
    ):
        hb.from_function(lambda x: ops.log(x), (2,))


def test_an_onnx_node_that_cannot_be_bounded_is_named() -> None:
    import onnx.parser

    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[1, 2] x) => (float[1, 2] y) { y = Softmax(x) }'
    )
    with pytest.raises(
        hu.ModelError, match=r"^load: node 0 \(Softmax\): softmax: .*is not bounded; these are: .*\[V3\]"
    ):
        hb.load(proto)


def test_verify_finds_and_executes_a_counterexample() -> None:
    network = hb.from_function(lambda x: ops.linear(ops.relu(x), np.eye(2, dtype=np.float32)), (2,))
    box = hb.Box([0.0, 0.0], [1.0, 1.0])
    for arithmetic in ("real", "halfulp", "any-order"):
        found = hb.verify(network, box, hb.robust(0, 2), arithmetic=arithmetic)
        assert found.status == "violated"
        point = found.counterexample
        assert ((point >= box.lower) & (point <= box.upper)).all()
        assert hb.robust(0, 2).is_unsafe(network(hu.exact(point) if arithmetic == "real" else point))


def test_branch_and_bound_decides_what_planes_cannot() -> None:
    """|x| + |y| >= 0 needs splits: relu(x) + relu(-x) has a lower plane below 0 on a box around 0."""
    network = hb.from_function(
        lambda x: ops.reshape(
            ops.sum(ops.relu(x) + ops.relu(ops.neg(x)) * np.float32(0.5)) - ops.sum(x) * np.float32(0.25), (1,)
        ),
        (2,),
    )
    box = hb.Box([-1.0, -1.0], [1.0, 1.5])
    claim = hb.Property([([[1]], [Fraction(-1, 100)])])
    found = hb.verify(network, box, claim, time_limit=30)
    assert found.status == "holds"
    assert "proved exactly" in hb.replay(found.certificate, network)


def test_a_property_with_several_lines_in_an_alternative() -> None:
    network = hb.from_function(lambda x: ops.relu(x), (2,))
    box = hb.Box([0.0, 0.0], [1.0, 1.0])
    safe = hb.Property([([[1, 0], [0, -1]], [Fraction(1, 2), -2])])  # y0 <= 1/2 and y1 >= 2: never
    assert hb.verify(network, box, safe).status == "holds"


def test_certified_radius_is_proved_and_not_far_from_the_truth() -> None:
    network = hb.from_function(lambda x: ops.linear(x, np.array([[1, 0], [0, 1]], dtype=np.float32)), (2,))
    radius = hb.certified_radius(network, np.array([1.0, 0.0]), 0)
    assert 0.49 < radius < 0.5
    assert hb.certified_radius(network, np.array([0.0, 1.0]), 0) == 0.0


def test_branch_and_bound_makes_the_radius_larger() -> None:
    """|x0 - x1| + |x0 + x1| = 2 max(|x0|, |x1|): planes of four rectifiers lose what two splits win back."""
    mixed = np.array([[1, -1], [-1, 1], [1, 1], [-1, -1]], dtype=np.float32)
    total = np.array([[0, 0, 0, 0], [1, 1, 1, 1]], dtype=np.float32)
    network = hb.from_function(
        lambda x: ops.linear(ops.relu(ops.linear(x, mixed)), total, np.array([1, 0], dtype=np.float32)), (2,)
    )
    x = np.array([0.125, 0.0])
    plain = hb.certified_radius(network, x, 0)
    found = hb.certified_radius(network, x, 0, time_limit=5.0, tolerance=0.01)
    assert plain < 0.34
    assert 0.36 < found < 0.375  # 2 (0.125 + radius) < 1
    with pytest.raises(hu.PolicyError, match=r"time_limit=0: must be a number of seconds > 0 \[V4\]"):
        hb.certified_radius(network, x, 0, time_limit=0)


@pytest.mark.parametrize("name", ["max", "avg"])
def test_torch_and_onnx_networks_compute_the_same(name: str, tmp_path: Path) -> None:
    import torch

    torch.manual_seed(1)
    pool = torch.nn.MaxPool2d(2) if name == "max" else torch.nn.AvgPool2d(2, 1, 1)
    module = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Sigmoid(), pool, torch.nn.Flatten()).eval()
    x = torch.randn(1, 1, 6, 6)
    network = hb.from_torch(module, x)
    assert np.allclose(network(x.numpy()), module(x).detach().numpy(), atol=1e-6)


def test_joint_bounds_of_patches_are_sound_and_decide_more() -> None:
    """Many channels over one small patch: single planes lose more than the parts of the patch do."""
    from halfulp.bounds._arithmetic import Arithmetic
    from halfulp.bounds._backward import State, lower_bounds
    from halfulp.bounds._patches import refine
    from halfulp.bounds._propagation import propagate

    rng = np.random.default_rng(9)
    kernel = rng.normal(size=(12, 1, 2, 2)).astype(np.float32)
    matrix = rng.normal(size=(3, 12 * 9)).astype(np.float32)
    for arithmetic in ("real", "halfulp", "any-order"):
        for padding in (0, 1):
            size = 4 if padding == 0 else 2
            network = hb.from_function(
                lambda x, p=padding: ops.linear(ops.reshape(ops.relu(hu.conv2d(x, kernel, padding=p)), (108,)), matrix),
                (1, size, size),
            )
            box = hb.Box.around(rng.integers(-32, 33, size=(1, size, size)) / 16, 0.5)
            state = propagate(State(network, box, Arithmetic.of(arithmetic, network.dtype)), True)
            rows = np.concatenate([np.eye(3), -np.eye(3)])
            single, _ = lower_bounds(state, network.output, rows)
            joint, _ = refine(state, network.output, rows, np.full(6, np.inf), {})
            assert (joint > single).all()
            for share in rng.random((200, 1, size, size)):
                point = (box.lower + np.rint(share * 2) / 2).astype(np.float32)  # exact, in a box of width 1
                if arithmetic == "real":
                    value = np.asarray(network(hu.exact(point)), dtype=object)
                elif arithmetic == "halfulp":
                    value = hu.exact(network(point))
                else:
                    value = hu.exact(shuffled(network, point, rng))
                assert (np.concatenate([value, -value]) >= hu.exact(joint)).all()
