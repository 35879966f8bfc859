"""``halfulp verify``: answers, exit codes, files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from halfulp.cli import main


@pytest.fixture
def model(tmp_path: Path) -> Path:
    weight = np.array([[1.0, 1.0], [0.0, 1.0]], dtype=np.float32)
    nodes = [
        helper.make_node("Relu", ["x"], ["h"]),
        helper.make_node("Gemm", ["h", "w"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])],
        [numpy_helper.from_array(weight, "w")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "model.onnx"
    onnx.save(proto, path)
    return path


def _question(folder: Path, least: float) -> str:
    text = "(declare-const X_0 Real)(declare-const X_1 Real)(declare-const Y_0 Real)(declare-const Y_1 Real)"
    text += f"(assert (>= X_0 {least}))(assert (<= X_0 1.0))(assert (>= X_1 -1.0))(assert (<= X_1 1.0))"
    path = folder / "property.vnnlib"
    path.write_text(text + "(assert (<= Y_0 Y_1))", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("arithmetic", ["real", "halfulp", "any-order"])
def test_holds(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arithmetic: str) -> None:
    proof, picture, report = (tmp_path / name for name in ("proof.json", "picture.svg", "report.json"))
    question = _question(tmp_path, 0.5)
    arguments = ["verify", str(model), question, "--arithmetic", arithmetic, "--certificate", str(proof)]
    assert main([*arguments, "--picture", str(picture), "--json", str(report)]) == 0
    assert capsys.readouterr().out.startswith("holds\n")
    assert picture.read_text(encoding="utf-8").startswith("<svg")
    assert json.loads(report.read_text(encoding="utf-8"))["status"] == "holds"
    assert main(["verify", str(model), "--replay", str(proof)]) == 0
    assert "proved exactly" in capsys.readouterr().out


def test_violated(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(model), _question(tmp_path, -0.5), "--json", "-"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["status"] == "violated"
    assert len(found["counterexample"]) == 2


def test_unknown(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(model), _question(tmp_path, 0.5), "--method", "ibp"]) == 3
    assert capsys.readouterr().out.startswith("unknown\n")


def test_usage(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(model)]) == 2
    assert main(["verify", str(tmp_path / "no.onnx"), _question(tmp_path, 0.5)]) == 2
    assert "is not a file [O1]" in capsys.readouterr().err


def test_a_changed_certificate_is_refused(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proof = tmp_path / "proof.json"
    assert main(["verify", str(model), _question(tmp_path, 0.5), "--certificate", str(proof)]) == 0
    proof.write_text(proof.read_text(encoding="utf-8").replace('"version":1', '"version":2'), encoding="utf-8")
    assert main(["verify", str(model), "--replay", str(proof)]) == 1
    assert "does not fit the content [V7]" in capsys.readouterr().err
