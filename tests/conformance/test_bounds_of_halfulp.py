"""halfulp's own bounds under ``halfulp check --mode bounds``, and the same narrowed by one ulp."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from halfulp.bounds._record_lowering import bounded
from halfulp.conformance.bounds import check_bounds, draw, onnx_model
from halfulp.conformance.bounds.judge import Verdict
from halfulp.conformance.bounds.records import function_of
from halfulp.conformance.bounds.script import script
from halfulp.records import declarations


@pytest.mark.parametrize(("method", "networks"), [("halfulp-ibp", 80), ("halfulp", 60), ("halfulp-alpha-crown", 20)])
def test_our_bounds_are_sound_and_refuse_nothing(method: str, networks: int) -> None:
    grade = check_bounds(method, networks, seed=7, records=True, isolated=False)
    assert grade.statuses == {"sound": networks}
    assert grade.mean_tightness is not None
    assert grade.mean_tightness < (1.2 if method == "halfulp-ibp" else 1.000001)


def test_one_ulp_less_is_found() -> None:
    grade = check_bounds("verifiers:halfulp_one_ulp", 20, isolated=False)
    assert grade.statuses["rounding"] >= 1
    assert grade.findings[0].verdict.excess > 0


def test_every_record_of_the_registry_is_drawn_and_written() -> None:
    ours = [d.record for d in declarations() if d.record.__module__.startswith("halfulp.")]
    wanted = {record.__name__ for record in ours if bounded(record)}
    drawn = {}
    for number in range(3, 8000, 4):
        network = draw(0, number, records=True)
        drawn.setdefault(type(network.layers[-1].op).__name__, network)
        if set(drawn) >= wanted:
            break
    assert set(drawn) == wanted
    for network in drawn.values():
        function = function_of(onnx_model(network))
        assert np.array_equal(np.ravel(function(network.lower[None])), network.run(network.lower[None])[0])


def test_the_script_of_a_record_runs(tmp_path: Path) -> None:
    network = draw(0, 3, records=True)
    text = script("halfulp", network, Verdict("refused", "for example"))
    path = tmp_path / "finding.py"
    path.write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "lower bounds" in done.stdout
