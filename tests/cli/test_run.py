"""``halfulp run``: values, the first node that differs, scripts and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tests.onnx.models import model, network

import halfulp.onnx
from halfulp.cli import main
from halfulp.conformance.models import compare_nodes, first_beyond, load_runtime


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "network.onnx"
    onnx.save(network(), target)
    return target


def test_outputs_and_their_digests(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(0).standard_normal((2, 2, 8, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    arguments = ["run", str(path), "--input", str(tmp_path / "x.npy"), "--output", str(tmp_path / "out"), "--json", "-"]
    assert main(arguments) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["outputs"]["y"]["shape"] == [2, 3]
    saved = np.load(tmp_path / "out" / "y.npy")
    assert np.array_equal(saved, halfulp.onnx.load(path)(x))
    assert main(["run", str(path), "--input", f"x={tmp_path / 'x.npy'}"]) == 0
    assert report["outputs"]["y"]["sha256"][:12] in capsys.readouterr().out


def test_the_time_of_every_node(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(path), "--profile", "2", "--json", "-"]) == 0
    profile = json.loads(capsys.readouterr().out)["profile"]
    assert [entry["operator"] for entry in profile["nodes"]] == [node.op_type for node in network().graph.node]
    assert all(entry["seconds"] >= 0 for entry in profile["nodes"])
    assert profile["nodes"][0]["output"] == "float32[1x4x4x4]"
    assert profile["runs"] == 2
    assert sum(row["nodes"] for row in profile["operators"].values()) == 7
    assert main(["run", str(path), "--profile"]) == 0
    shown = capsys.readouterr().out
    assert "the best of 5 runs for every node" in shown
    assert "slowest nodes" in shown
    assert "BatchNormalization" in shown
    with pytest.raises(SystemExit):
        main(["run", str(path), "--profile", "0"])


def test_drawn_inputs_depend_on_the_seed_alone(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digests = []
    for seed in ("0", "0", "1"):
        assert main(["run", str(path), "--shape", "x=3,2,8,8", "--seed", seed, "--json", "-"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["inputs"]["x"]["shape"] == [3, 2, 8, 8]
        digests.append(report["outputs"]["y"]["sha256"])
    assert digests[0] == digests[1] != digests[2]


def _with_a_wrong_node(found: list[np.ndarray], names: list[str]) -> list[np.ndarray]:
    """A runtime whose rectifier lets one negative number through."""
    place = names.index("r")
    wrong = found[place].copy()
    wrong.flat[np.flatnonzero(wrong == 0)[0]] = -1
    return [wrong if i == place else value for i, value in enumerate(found)]


def test_the_first_wrong_node_is_named() -> None:
    exact = load_runtime("halfulp.onnx")

    def run(proto, folder, inputs, names):
        return _with_a_wrong_node(exact.run(proto, folder, inputs, names), list(names))

    x = np.random.default_rng(0).standard_normal((2, 2, 8, 8)).astype(np.float32)
    results = compare_nodes(network(), Path(), {"x": x}, exact._replace(run=run))
    first = first_beyond(results, 0)
    assert first is not None
    assert (first.operator, first.output) == ("Relu", "r")
    assert [r.output for r in results if not r.same] == ["r"]  # nodes after it get the wrong input and answer rightly
    assert first.text.startswith("1 of 128 differ, by up to")
    assert first.got[first.difference.position] == -1


def test_halfulp_agrees_with_itself(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(path), "--compare", "halfulp.onnx"]) == 0
    assert "no node differs" in capsys.readouterr().out


def test_a_script_shows_the_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """2**24 + 1 + 1 in float32: one after the other the sum stays, as onnxruntime has it."""
    proto = model(
        "m (float[1] a, float[1] b, float[1] c) => (float[1] y) { [both] y = Sum(a, b, c) }", opset=13, ir_version=8
    )
    onnx.save(proto, tmp_path / "sum.onnx")
    for name, value in (("a", 2.0**24), ("b", 1), ("c", 1)):
        np.save(tmp_path / f"{name}.npy", np.array([value], np.float32))
    inputs = [word for name in "abc" for word in ("--input", f"{name}={tmp_path / name}.npy")]
    scripts = tmp_path / "scripts"
    arguments = ["run", str(tmp_path / "sum.onnx"), *inputs, "--compare", "onnxruntime", "--script", str(scripts)]
    assert main([*arguments, "--json", str(tmp_path / "report.json")]) == 1
    shown = capsys.readouterr().out
    assert "first node that differs: node 'both' (Sum), output 'y': 1 of 1 differ, by up to 1 ulp" in shown
    finding = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["compare"]["first"]
    assert (finding["node"], finding["ulps"]) == ("node 'both' (Sum)", 1)
    done = subprocess.run([sys.executable, scripts / "node_both.py"], capture_output=True, text=True, check=True)
    assert "1 of 1 elements differ" in done.stdout
    assert "got 16777216.0, want 16777218.0" in done.stdout
    assert main([*arguments, "--tolerance", "1"]) == 0
    assert "no node differs by more than 1 ulps" in capsys.readouterr().out


def test_external_data_is_compared_too(tmp_path: Path) -> None:
    proto = model("m (float[4] x) => (float[4] y) { y = Add(x, w) }", opset=13, ir_version=8)
    proto.graph.initializer.append(numpy_helper.from_array(np.arange(4, dtype=np.float32), "w"))
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    assert (tmp_path / "w.bin").is_file()
    assert main(["run", str(tmp_path / "m.onnx"), "--compare", "onnxruntime"]) == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["absent.onnx"], "is not a file [O1]"),
        (["MODEL", "--input", "absent.npy"], "--input absent.npy: cannot be read as an .npy file"),
        (["MODEL", "--input", "z=absent.npy"], "the model has no input 'z'; it has ['x']"),
        (["MODEL", "--shape", "x=1,a"], "must be sizes with commas between them"),
        (["MODEL", "--shape", "x=-1,2,8,8"], "every size must be >= 0"),
        (["MODEL", "--shape", "q=1"], "the model has no input 'q'"),
        (["MODEL", "--shape", "x=1,2,8"], "input 'x' shape=(1, 2, 8): must be [N, 2, 8, 8]"),
        (["MODEL", "--compare", "onnxruntimes"], "there is no runtime 'onnxruntimes'"),
        (["MODEL", "--compare", "json"], "the module 'json' has no function run_model"),
        (["MODEL", "--script", "s"], "--script: is written by --compare"),
        (["MODEL", "--json", "no/such/folder/x.json"], "there is no folder"),
    ],
)
def test_refusals(path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], text: str) -> None:
    assert main(["run", *(str(path) if word == "MODEL" else word for word in arguments)]) == 2
    assert text in capsys.readouterr().err


def test_shape_and_type_differences_are_infinite() -> None:
    exact = load_runtime("halfulp.onnx")
    proto = helper.make_model(
        model("m (float[2] x) => (float[2] y) { y = Relu(x) }").graph,
        opset_imports=[helper.make_opsetid("", 22)],
        ir_version=10,
    )
    broken = exact._replace(run=lambda *given: [np.zeros(3, np.float32)])
    (result,) = compare_nodes(proto, Path(), {"x": np.ones(2, np.float32)}, broken)
    assert result.ulps == float("inf")
    assert result.text == "float32[3] instead of float32[2]"
