"""``halfulp check --mode bounds``: sound verifiers pass, each seeded defect is found, and findings are scripts."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from halfulp.conformance.bounds import (
    Answer,
    Network,
    check_bounds,
    draw,
    evidence,
    exact_range,
    features,
    judge,
    onnx_model,
)
from halfulp.conformance.bounds.modules import torch_module
from halfulp.conformance.bounds.script import script
from halfulp.conformance.bounds.shrinking import smaller
from halfulp.conformance.bounds.verifiers import verifier

FOLDER = Path(__file__).parent


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`verifiers` is found as a user's module would be, here and in child processes."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FOLDER), *sys.path]))
    yield
    sys.modules.pop("verifiers", None)


def test_the_reference_agrees_with_onnxruntime() -> None:
    """Both evaluators of a network, and an independent one, on the file that verifiers read."""
    for number in range(60):
        network = draw(1, number)
        found = evidence(network, number)
        session = onnxruntime.InferenceSession(
            onnx_model(network).SerializeToString(), providers=["CPUExecutionProvider"]
        )
        point = found.greatest_at[0]
        theirs = session.run(None, {"x": point[None].astype(np.float32)})[0].reshape(-1)
        ours = network.run(point[None])[0]
        np.testing.assert_allclose(theirs, ours, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(
            ours, [float(Fraction(int(v.p), int(v.q))) for v in network.exact(point)], rtol=1e-12
        )


def test_models_are_valid() -> None:
    for number in range(40):
        onnx.checker.check_model(onnx_model(draw(2, number)), full_check=True)


def test_every_feature_is_drawn() -> None:
    drawn = {feature for number in range(400) for feature in features(draw(0, number))}
    windows = ("padding", "asymmetric padding", "dilation", "ceil_mode", "overlap")
    expected = {f"{kind}: {feature}" for kind in ("max", "avg") for feature in windows}
    expected |= {"conv: padding", "conv: dilation", "conv: groups", "avg: count_include_pad=False", "relu", "linear"}
    expected |= {"min: padding", "min: ceil_mode", "norm: overlap", "norm: asymmetric padding", "sum: padding"}
    assert expected <= drawn
    assert {len(draw(0, number).layers) for number in range(400)} >= {1, 2, 3, 4}


def test_draws_repeat() -> None:
    first, second = draw(5, 7), draw(5, 7)
    assert onnx_model(first).SerializeToString() == onnx_model(second).SerializeToString()
    assert first.lower.tobytes() == second.lower.tobytes()


def corners(network: Network) -> np.ndarray:
    wide = np.flatnonzero((network.lower < network.upper).ravel())
    points = np.repeat(network.lower.ravel()[None], 2 ** len(wide), axis=0)
    for bit, cell in enumerate(wide):
        points[(np.arange(len(points)) >> bit) & 1 == 1, cell] = network.upper.ravel()[cell]
    return points.reshape(-1, *network.lower.shape)


def test_exact_ranges_are_those_of_all_corners() -> None:
    """Affine and monotone networks take their extremes at corners: compare with the enumeration of all of them."""
    compared = 0
    for number in range(300):
        network = draw(3, number)
        if exact_range(network) is None or np.count_nonzero(network.lower < network.upper) > 10:
            continue
        found, values = evidence(network, 0), network.run(corners(network))
        assert [float(v) for v in found.least] == pytest.approx(values.min(axis=0).tolist(), rel=1e-12, abs=1e-12)
        assert [float(v) for v in found.greatest] == pytest.approx(values.max(axis=0).tolist(), rel=1e-12, abs=1e-12)
        compared += 1
    assert compared > 20


def test_points_lie_in_the_box() -> None:
    for number in range(40):
        network = draw(4, number)
        found = evidence(network, number)
        for point in found.least_at + found.greatest_at:
            assert (network.lower <= point).all()
            assert (point <= network.upper).all()
        assert all(low <= high for low, high in zip(found.least, found.greatest, strict=True))


def test_a_sound_verifier_passes() -> None:
    grade = check_bounds("verifiers", 40, isolated=False)
    assert grade.passed
    assert grade.statuses == {"sound": 40}
    assert grade.mean_tightness is not None
    assert 1.0 <= grade.mean_tightness < 2.0


@pytest.mark.parametrize(
    ("defect", "status", "kind"),
    [
        ("one_ulp", "rounding", None),
        ("one_ulp_float32", "rounding", None),
        ("zero_padding", "unsound", "max"),
        ("unpadded_indices", "unsound", "max"),
        ("include_pad", "unsound", "avg"),
    ],
)
def test_seeded_defects_are_found(defect: str, status: str, kind: str | None, tmp_path: Path) -> None:
    grade = check_bounds(f"verifiers:{defect}", 40, isolated=False)
    assert not grade.passed
    assert set(grade.statuses) <= {"sound", status}
    finding = grade.findings[0]
    assert finding.verdict.status == status
    assert finding.verdict.excess > 0
    if kind is not None:
        assert kind in [layer.kind for layer in finding.network.layers]
        assert len(finding.network.layers) == 1
    file = tmp_path / "finding.py"
    file.write_text(script(grade.name, finding.network, finding.verdict), encoding="utf-8")
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert f"{finding.verdict.side} bound" in done.stdout
    sound = file.read_text(encoding="utf-8").replace(f"verifiers:{defect}", "verifiers:bounds")
    file.write_text(sound, encoding="utf-8")
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "status", "text"),
    [
        ("everything", "sound", ""),
        ("nan", "malformed", "a bound is NaN"),
        ("wrong_shape", "malformed", "lower and"),
        ("empty_set", "unsound", "below the lower bound inf"),
    ],
)
def test_odd_answers(name: str, status: str, text: str) -> None:
    grade = check_bounds(f"verifiers:{name}", 6, isolated=False)
    assert grade.statuses == {status: 6}
    assert all(text in finding.verdict.text for finding in grade.findings)


def test_refusals_are_counted_and_no_finding() -> None:
    grade = check_bounds("verifiers:refuses_max", 20, isolated=False)
    assert grade.passed
    assert grade.refusals["NotImplementedError: MaxPool"] == grade.statuses["refused"] > 0


def test_only_refusals_do_not_pass() -> None:
    grade = check_bounds("verifiers:refuses_all", 3, isolated=False)
    assert grade.statuses == {"refused": 3}
    assert not grade.passed


def test_crashes_and_hangs_are_survived() -> None:
    grade = check_bounds("verifiers:dies", 2)
    assert grade.statuses == {"crashed": 2}
    assert grade.findings[0].verdict.text == "the process ended with exit code 7"
    grade = check_bounds("verifiers:sleeps", 1, case_timeout=0.2)
    assert grade.statuses == {"hung": 1}
    assert check_bounds("verifiers", 2).statuses == {"sound": 2}


def test_unknown_verifiers() -> None:
    with pytest.raises(ValueError, match="nonesuch is neither one of halfulp, "):
        verifier("nonesuch")
    with pytest.raises(ValueError, match=r"is not a function bounds\(model_path, lower, upper\)"):
        verifier("math:pi")


def test_rationals_decide() -> None:
    """An upper bound of 1/3 rounded down is wrong, rounded up it is right."""
    network = draw(0, 0)
    found = evidence(network, 0)
    outputs = len(found.least)
    for up, status in ((False, "rounding"), (True, "sound")):
        found.greatest[0] = Fraction(1, 3)
        high = np.full(outputs, np.inf)
        high[0] = np.nextafter(1 / 3, 1) if up else 1 / 3
        assert Fraction(1 / 3) < Fraction(1, 3)
        assert judge(network, found, Answer(np.full(outputs, -np.inf), high)).status == status


def test_smaller_networks_fit() -> None:
    for number in range(20):
        for candidate in smaller(draw(0, number)):
            assert candidate.run(candidate.lower[None]).shape == (1, math.prod(candidate.shapes[-1]))


def test_modules_compute_the_model(tmp_path: Path) -> None:
    """The PyTorch modules for verifiers that do not read ONNX."""
    import torch

    built = 0
    for number in range(100):
        network = draw(0, number)
        path = tmp_path / "network.onnx"
        path.write_bytes(onnx_model(network).SerializeToString())
        try:
            module = torch_module(str(path))
            theirs = module(torch.tensor(network.lower[None], dtype=torch.float32)).detach().numpy().reshape(-1)
        except (ValueError, RuntimeError):
            continue  # what PyTorch has no layer for
        np.testing.assert_allclose(theirs, network.run(network.lower[None])[0], rtol=1e-5, atol=1e-5)
        built += 1
    assert built >= 20
