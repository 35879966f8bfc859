"""Certificates: the checker accepts what was proved and refuses every change."""

from __future__ import annotations

import ast
import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import halfulp as hu
import halfulp.bounds as hb
from halfulp import ops
from halfulp.bounds._curves import softplus
from halfulp.bounds._exact_planes import window_biases
from tests.bounds.networks import box_of, draw

FOLDER = Path(hb.__file__).parent


def _network() -> hb.Network:
    rng = np.random.default_rng(2)
    kernel = rng.normal(size=(2, 1, 2, 2)).astype(np.float32)
    matrices = [rng.normal(size=(3, 8)).astype(np.float32), rng.normal(size=(2, 3)).astype(np.float32)]

    def function(x: Any) -> Any:
        x = hu.max_pool2d(ops.relu(hu.conv2d(x, kernel)), 2, 1, 1)
        x = hu.avg_pool2d(x, 2)
        return ops.linear(ops.relu(ops.linear(ops.reshape(x, (8,)), matrices[0])), matrices[1])

    return hb.from_function(function, (1, 4, 4))


@pytest.fixture(scope="module")
def proof() -> tuple[hb.Network, hb.Certificate]:
    network = _network()
    box = hb.Box.around(np.random.default_rng(3).normal(size=(1, 4, 4)), 0.2)
    return network, hb.bounds(network, box, "crown").certificate


def test_a_certificate_is_saved_and_replayed(proof: tuple[hb.Network, hb.Certificate], tmp_path: Path) -> None:
    network, certificate = proof
    certificate.save(tmp_path / "proof.json")
    assert hb.replay(tmp_path / "proof.json", network).endswith("proved exactly")


@pytest.mark.parametrize("arithmetic", ["real", "halfulp", "any-order"])
def test_drawn_networks_replay(arithmetic: str) -> None:
    rng = np.random.default_rng(11)
    for _ in range(25):
        network = draw(rng)
        for method in ("ibp", "crown", "alpha-crown"):
            found = hb.bounds(network, box_of(rng, network.input_shape), method, arithmetic, steps=3)
            assert hb.replay(found.certificate, network).endswith("proved exactly")


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [p for k, v in value.items() for p in [(*path, k), *_paths(v, (*path, k))]]
    if isinstance(value, list):
        return [p for k, v in enumerate(value[:3]) for p in [(*path, k), *_paths(v, (*path, k))]]
    return []


def test_every_changed_field_is_refused(proof: tuple[hb.Network, hb.Certificate]) -> None:
    network, certificate = proof
    paths = _paths(certificate.content)
    assert len(paths) > 60
    for path in paths:
        changed = copy.deepcopy(certificate.content)
        place = changed
        for key in path[:-1]:
            place = place[key]
        old = place[path[-1]]
        place[path[-1]] = "0x1.8p+0" if old != "0x1.8p+0" else 7
        with pytest.raises(hu.CertificateError):
            hb.replay(hb.Certificate(changed), network)


def _resealed(content: dict[str, Any]) -> hb.Certificate:
    body = {k: v for k, v in content.items() if k != "checksum"}
    text = json.dumps(body, separators=(",", ":"), sort_keys=True)
    return hb.Certificate({**body, "checksum": hashlib.sha256(text.encode()).hexdigest()})


def test_what_a_new_checksum_lets_through_proves_the_same_claim(proof: tuple[hb.Network, hb.Certificate]) -> None:
    """Other slopes, or a looser bound on the way, may still prove the claim. The statement itself must not change."""
    network, certificate = proof
    refused = 0
    for path in _paths(certificate.content):
        if path[0] in ("checksum", "claim") or (path[0] == "box" and len(path) == 3):
            continue  # numbers of the statement: a weaker statement is true, a stronger one is refused below
        changed = copy.deepcopy(certificate.content)
        place = changed
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = "0x1.8p+0" if place[path[-1]] != "0x1.8p+0" else 7
        try:
            hb.replay(_resealed(changed), network)
        except hu.CertificateError:
            refused += 1
            continue
        assert path[0] in ("root", "leaves"), path
    assert refused > 20


def test_a_false_claim_is_refused_also_with_a_new_checksum(proof: tuple[hb.Network, hb.Certificate]) -> None:
    network, certificate = proof
    for key, way in (("lower", 1e-6), ("upper", -1e-6)):
        content = copy.deepcopy(certificate.content)
        claims = content["claim"][key]
        claims[0] = (float.fromhex(claims[0]) + way).hex()
        with pytest.raises(hu.CertificateError, match=r"is not proved in the leaf of cuts \[\] \[V7\]"):
            hb.replay(_resealed(content), network)
    content = copy.deepcopy(certificate.content)
    claim = next(iter(content["root"]["ranges"].values()))
    claim["upper"][0] = (float.fromhex(claim["lower"][0]) - 1.0).hex()
    with pytest.raises(hu.CertificateError, match=r"of node \d+: is not proved \[V7\]"):
        hb.replay(_resealed(content), network)


def test_leaves_that_do_not_cover_the_box_are_refused(proof: tuple[hb.Network, hb.Certificate]) -> None:
    network, certificate = proof
    content = copy.deepcopy(certificate.content)
    content["leaves"][0]["cuts"] = [[0, 0, 1, (0.0).hex()]]
    with pytest.raises(hu.CertificateError, match=r"cuts at depth"):
        hb.replay(_resealed(content), network)


def test_another_network_is_refused(proof: tuple[hb.Network, hb.Certificate]) -> None:
    _, certificate = proof
    other = hb.from_function(lambda x: ops.relu(x), (1, 4, 4))
    with pytest.raises(hu.CertificateError, match=r"is the digest of another network \[V7\]"):
        hb.replay(certificate, other)


@pytest.mark.parametrize("arithmetic", ["real", "halfulp", "any-order"])
def test_a_division_is_replayed_with_its_exact_quotients(arithmetic: str) -> None:
    divisor = np.array([3.0, -7.0, 0.1], dtype=np.float32)
    network = hb.from_function(lambda x: ops.relu(ops.relu(x / divisor) - x / 3.0), (3,))
    found = hb.bounds(network, hb.Box([-1, -1, 0], [1, 2, 1]), "crown", arithmetic)
    assert hb.replay(found.certificate, network).endswith("proved exactly")


def _linear(rng: Any, *shape: int) -> Any:
    return rng.normal(size=shape).astype(np.float32)


def _irrational() -> dict[str, tuple[Any, tuple[int, ...]]]:
    rng = np.random.default_rng(7)
    first, last, kernel = _linear(rng, 5, 4), _linear(rng, 2, 5), _linear(rng, 2, 1, 2, 2)

    def curve(function: Any) -> tuple[Any, tuple[int, ...]]:
        return lambda x: ops.linear(function(ops.linear(x, first)), last), (4,)

    def pool(record: Any) -> tuple[Any, tuple[int, ...]]:
        return lambda x: ops.relu(record(hu.conv2d(x, kernel)) - 0.5), (1, 4, 4)

    mean, variance = _linear(rng, 2), np.abs(_linear(rng, 2))
    normalize = hu.BatchNorm(eps=2.0**-17)
    scale, shift = _linear(rng, 2), _linear(rng, 2)
    return {
        "sigmoid": curve(ops.sigmoid),
        "tanh": curve(ops.tanh),
        "softplus": curve(softplus),
        "smooth max": pool(hu.SmoothMaxPool((2, 2), 3.0, 1, 1)),
        "smooth min": pool(hu.SmoothMaxPool((2, 2), -0.5)),
        "norm 2": pool(hu.LpPool((2, 2), 2.0)),
        "norm 3.5": pool(hu.LpPool((2, 2), 3.5)),
        "batch norm": (
            lambda x: ops.relu(
                normalize(ops.reshape(hu.conv2d(x, kernel), (1, 2, 3, 3)), scale, shift, mean, variance)
            ),
            (1, 4, 4),
        ),
    }


@pytest.mark.parametrize("arithmetic", ["real", "halfulp", "any-order"])
@pytest.mark.parametrize("name", _irrational())
def test_irrational_values_are_enclosed_by_the_checker(name: str, arithmetic: str) -> None:
    function, shape = _irrational()[name]
    network = hb.from_function(function, shape)
    if arithmetic == "any-order" and any(node.kind == "smooth" for node in network):
        with pytest.raises(hu.ModelError, match="has no bound"):
            hb.bounds(network, hb.Box.around(np.zeros(shape), 0.5), "crown", arithmetic)
        return
    rng = np.random.default_rng(5)
    for radius, method in ((0.0, "crown"), (0.01, "crown"), (0.5, "ibp"), (0.5, "alpha-crown"), (30.0, "crown")):
        box = hb.Box.around(rng.normal(size=shape), radius)
        found = hb.bounds(network, box, method, arithmetic, steps=2)
        assert hb.replay(found.certificate, network).endswith("proved exactly")


@pytest.mark.parametrize("name", ["tanh", "softplus", "smooth max", "norm 3.5", "batch norm"])
def test_false_claims_about_irrational_values_are_refused(name: str) -> None:
    function, shape = _irrational()[name]
    network = hb.from_function(function, shape)
    certificate = hb.bounds(network, hb.Box.around(np.full(shape, 0.25), 0.25)).certificate
    for path in _paths(certificate.content):
        changed = copy.deepcopy(certificate.content)
        place = changed
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = "0x1.8p+0" if place[path[-1]] != "0x1.8p+0" else 7
        with pytest.raises(hu.CertificateError):
            hb.replay(hb.Certificate(changed), network)
    for key, way in (("lower", 1e-6), ("upper", -1e-6)):
        content = copy.deepcopy(certificate.content)
        claims = content["claim"][key]
        claims[:] = [(float.fromhex(text) + way).hex() for text in claims]
        with pytest.raises(hu.CertificateError, match="is not proved"):
            hb.replay(_resealed(content), network)


def test_slopes_that_are_no_weights_are_refused() -> None:
    function, shape = _irrational()["smooth max"]
    network = hb.from_function(function, shape)
    content = copy.deepcopy(hb.bounds(network, hb.Box.around(np.zeros(shape), 0.5)).certificate.content)
    pool = str(next(p for p, node in enumerate(network) if node.kind == "smooth"))
    values = content["root"]["planes"][pool]["lower"]["values"]
    values[0] = (float.fromhex(values[0]) + 2.0).hex()
    with pytest.raises(hu.CertificateError, match=r"slopes of node 'smooth_max_pool2d': must be weights of the plane"):
        hb.replay(_resealed(content), network)


def test_only_what_holds_has_a_certificate() -> None:
    network = hb.from_function(lambda x: ops.relu(x), (2,))
    found = hb.verify(network, hb.Box([0, 0], [1, 1]), hb.robust(0, 2))
    with pytest.raises(hu.CertificateError) as caught:
        _ = found.certificate
    assert str(caught.value) == "certificate: status='violated': only a property that holds has a certificate [V7]"


def test_the_biases_of_a_window_are_the_best_ones() -> None:
    """Against brute force over a grid that holds every vertex and many other points."""
    from itertools import product

    from flint import fmpq

    rng = np.random.default_rng(4)
    for _ in range(100):
        count = int(rng.integers(1, 4))
        low = [fmpq(int(v), 2) for v in rng.integers(-3, 3, size=count)]
        high = [a + fmpq(int(w), 2) for a, w in zip(low, rng.integers(0, 4, size=count), strict=True)]
        under = [fmpq(int(v), 4) for v in rng.integers(-1, 5, size=count)]
        over = [fmpq(int(v), 4) for v in rng.integers(-1, 5, size=count)]
        least, most = window_biases(list(zip(low, high, under, over, strict=True)))
        grid = [[a + (b - a) * fmpq(k, 6) for k in range(7)] for a, b in zip(low, high, strict=True)]
        gaps_under, gaps_over = [], []
        for x in product(*grid):
            gaps_under.append(max(x) - sum((s * v for s, v in zip(under, x, strict=True)), fmpq(0)))
            gaps_over.append(max(x) - sum((s * v for s, v in zip(over, x, strict=True)), fmpq(0)))
        assert min(gaps_under) >= least
        assert max(gaps_over) == most


def _imports(module: str) -> set[str]:
    """The modules of halfulp.bounds that a module imports, in functions too."""
    tree = ast.parse((FOLDER / f"{module}.py").read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("halfulp.bounds"):
            name = (node.module or "").removeprefix("halfulp.bounds").lstrip(".")
            found |= {name} if name else {alias.name for alias in node.names}
    return found


def test_the_checker_shares_nothing_with_the_search() -> None:
    reached, waiting = set(), {"_replay"}
    while waiting:
        module = waiting.pop()
        reached.add(module)
        waiting |= _imports(module) - reached - {"_onnx_reader"}  # reads the model, which the checker needs
    checker = {"_replay", "_exact_intervals", "_exact_planes", "_exact_patches", "_rational", "_enclosures"}
    assert reached == checker | {"_certificate", "_network", "_maps", "_windows"}
    sizes = [len((FOLDER / f"{module}.py").read_text(encoding="utf-8").splitlines()) for module in checker]
    assert max(sizes) <= 300
    assert "_backward" in _imports("_proof")  # the search is found where it is


@pytest.mark.parametrize("arithmetic", ["real", "halfulp", "any-order"])
@pytest.mark.parametrize("padding", [0, 1])
def test_joint_bounds_of_patches_have_certificates(arithmetic: str, padding: int) -> None:
    """Many channels over one small patch: single planes do not decide, the parts of the patch do."""
    from halfulp.bounds._arithmetic import Arithmetic
    from halfulp.bounds._backward import State
    from halfulp.bounds._patches import refine
    from halfulp.bounds._proof import Leaf, certificate_of_property
    from halfulp.bounds._propagation import propagate

    rng = np.random.default_rng(9 + padding)
    kernel, matrix = _linear(rng, 6, 1, 2, 2), _linear(rng, 1, 54)
    size = 4 - 2 * padding
    network = hb.from_function(
        lambda x: ops.linear(ops.reshape(ops.relu(hu.conv2d(x, kernel, padding=padding)), (54,)), matrix),
        (1, size, size),
    )
    box = hb.Box.around(rng.integers(-32, 33, size=(1, size, size)) / 16, 0.5)
    state = propagate(State(network, box, Arithmetic.of(arithmetic, network.dtype)), True)
    (joint,), proofs = refine(state, network.output, np.eye(1), np.full(1, np.inf), {})
    assert joint > hb.bounds(network, box, "crown", arithmetic).lower[0]
    for limit, holds in ((np.nextafter(joint, -np.inf), True), (joint + 1e-3, False)):
        claim = hb.Property([([[1]], [float(limit)])])
        leaf = Leaf(state, (), {}, {}, {}, np.zeros(1, dtype=bool), proofs)
        certificate = certificate_of_property(network, box, arithmetic, claim, state, (leaf,))
        if holds:
            assert hb.replay(certificate, network).endswith("proved exactly")
            continue
        with pytest.raises(hu.CertificateError, match="is not proved"):
            hb.replay(certificate, network)
    for key, value in (("place", 1), ("pieces", 99)):
        changed = copy.deepcopy(certificate.content)
        changed["leaves"][0]["patches"][0][key] = value
        with pytest.raises(hu.CertificateError, match=r"patches at node 1|pieces=99: must be from 1 to 8"):
            hb.replay(_resealed(changed), network)
