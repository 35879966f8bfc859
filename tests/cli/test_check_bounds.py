"""The command ``halfulp check --mode bounds``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from halfulp.cli import main

FOLDER = Path(__file__).parent.parent / "conformance"


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FOLDER), *sys.path]))


def test_a_sound_verifier(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--mode", "bounds", "verifiers:bounds", "--cases", "10", "--jobs", "0"]) == 0
    printed = capsys.readouterr().out
    assert "Bounds of verifiers:bounds, seed 0" in printed
    assert "verifiers:bounds: 10 networks: 10 sound; 1." in printed


def test_a_wrong_one_with_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, scripts = tmp_path / "report.json", tmp_path / "scripts"
    command = ["check", "--mode", "bounds", "verifiers:include_pad", "verifiers", "--cases", "30", "--jobs", "0"]
    table = tmp_path / "table.md"
    assert main([*command, "--json", str(report), "--scripts", str(scripts), "--markdown", str(table)]) == 1
    rows = table.read_text(encoding="utf-8").splitlines()
    assert rows[0].startswith("30 networks, seed 0, ")
    assert [row.split(" | ")[0] for row in rows[4:6]] == ["| verifiers:include_pad", "| verifiers"]
    assert any(row.startswith("| avg: count_include_pad=False | ") for row in rows)
    printed = capsys.readouterr().out
    assert "unsound, network" in printed
    assert "from halfulp.conformance.bounds import Layer, Network, onnx_model" in printed
    first, second = json.loads(report.read_text(encoding="utf-8"))
    assert (first["subject"], first["passed"], second["passed"]) == ("verifiers:include_pad", False, True)
    assert first["statuses"]["unsound"] >= 1
    assert sum(first["statuses"].values()) == first["networks"] == 30
    assert set(first["features"]["avg: count_include_pad=False"]) >= {"unsound"}
    written = sorted(scripts.iterdir())
    assert len(written) == len(first["findings"])
    done = subprocess.run([sys.executable, str(written[0])], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr


def test_quiet_prints_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["check", "--mode", "bounds", "verifiers:zero_padding", "--cases", "5", "--jobs", "0", "--quiet"]
    main(arguments)
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_a_wrong_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--mode", "bounds", "nonesuch"]) == 2
    assert "halfulp check: nonesuch is neither one of halfulp, " in capsys.readouterr().err


def test_bounds_stands_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--mode", "bounds,vjp", "halfulp"]) == 2
    assert "--mode bounds: must be one of forward, jvp, vjp" in capsys.readouterr().err


def test_options_without_meaning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--mode", "bounds", "verifiers", "--junit", str(tmp_path / "x.xml")]) == 2
    assert capsys.readouterr().err == "halfulp check: --junit: has no meaning with --mode bounds\n"
    assert main(["check", "--mode", "bounds", "verifiers", "--fail-on", "ulps>2"]) == 2
    expected = "halfulp check: --fail-on ulps>2: must be any or none with --mode bounds\n"
    assert capsys.readouterr().err == expected


def test_fail_on_none(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["check", "--mode", "bounds", "verifiers:nan", "--cases", "2", "--jobs", "0", "--quiet"]
    assert main(arguments) == 1
    assert main([*arguments, "--fail-on", "none"]) == 0
    assert "2 malformed" in capsys.readouterr().out
