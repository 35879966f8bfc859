"""Every form of a result: JSON against its schema, JUnit, Markdown, HTML, scripts that run."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from rich.console import Console

from halfulp import SumPool
from halfulp.cli import main
from halfulp.conformance import Demand, Plan, Result, UserSubject, check, load_subject, probes
from halfulp.conformance.cases import Arrays
from halfulp.conformance.circumstances import adjoint_script
from halfulp.conformance.oracle import Oracle
from halfulp.conformance.report.changes import changes
from halfulp.conformance.report.data import from_json, load_schema, to_json, write_json
from halfulp.conformance.report.html import to_html
from halfulp.conformance.report.junit import to_junit, write_junit
from halfulp.conformance.report.markdown import to_markdown
from halfulp.conformance.report.result import SubjectResult
from halfulp.conformance.report.scripts import write_scripts
from halfulp.conformance.report.terminal import print_reproducer, print_result
from halfulp.conformance.severity import SEVERITIES, severity
from halfulp.conformance.summary import Cell, Summary
from halfulp.conformance.units import case_of
from halfulp.conformance.verdict import judge

SUBJECTS = ("halfulp", "torch", "jax", "onnxruntime")


@pytest.fixture(scope="module")
def result() -> Result:
    plan = Plan(operators=("max_pool", "avg_pool"), dtypes=("float32",), cases=12, probes=False)
    return check(SUBJECTS, plan, jobs=1)


def test_the_json_validates_and_comes_back(result: Result, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    write_json(result, path)
    data = json.loads(path.read_text())
    jsonschema.Draft202012Validator.check_schema(load_schema())
    jsonschema.Draft202012Validator(load_schema()).validate(data)
    assert to_json(from_json(data)) == data


def test_the_schema_refuses_what_is_not_a_report(result: Result) -> None:
    data = to_json(result)
    for broken in (
        {**data, "format": "halfulp-check/0"},
        {**data, "extra": 1},
        {**data, "subjects": [{**data["subjects"][0], "cells": [{"operator": "conv"}]}]},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, load_schema())


def test_a_report_of_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="format='halfulp-check/0': must be 'halfulp-check/1'"):
        from_json({"format": "halfulp-check/0"})


def test_halfulp_passes_and_torch_does_not(result: Result) -> None:
    by_name = {subject.name: subject for subject in result.subjects}
    assert result.demand.met_by(by_name["halfulp"])
    assert not result.demand.met_by(by_name["jax"])
    assert not result.passed
    assert result.demand.met_by(by_name["torch"])  # rounding and conventions alone, in these few cases
    assert not Demand.parse("any").met_by(by_name["torch"])
    assert not Demand.parse("rounding").met_by(by_name["torch"])
    tolerant = Demand.parse("shape,ulps>1e30")
    assert tolerant.met_by(by_name["torch"])
    assert not Demand.parse("ulps>0.5").met_by(by_name["torch"])
    assert Demand.parse("none").met_by(by_name["torch"])


def test_words_of_a_demand_are_checked() -> None:
    with pytest.raises(ValueError, match=r"--fail-on speed: must be one of wrong, .* ulps>N, unsupported, any, none"):
        Demand.parse("shape,speed")


def test_junit_has_a_suite_per_subject_and_a_test_per_cell(result: Result, tmp_path: Path) -> None:
    write_junit(result, tmp_path / "junit.xml")
    root = ET.parse(tmp_path / "junit.xml").getroot()
    assert [suite.get("name", "").split()[0] for suite in root] == list(SUBJECTS)
    halfulp, _, jax, onnxruntime = root
    assert (halfulp.get("failures"), halfulp.get("tests")) == ("0", "6")
    assert int(jax.get("failures", "0")) > 0
    skipped = onnxruntime.findall(".//skipped")
    assert any("has no derivatives" in item.get("message", "") for item in skipped)
    assert len(to_junit(result)) == len(SUBJECTS)


def test_texts_with_control_characters_give_valid_xml(tmp_path: Path) -> None:
    class Rude:
        complete = True
        version = "1\x1b\x00\ud800\ufffe"

        def forward(self, op: Any, *inputs: Any) -> Any:
            raise type("Bad\x07Error", (RuntimeError,), {})("\x1b[31mred\x00 \ud800 \ufffe\x0b")

    rude = check([UserSubject("rude", Rude())], Plan(operators=("conv",), dtypes=("float32",), cases=4), jobs=0)
    write_junit(rude, tmp_path / "junit.xml")
    write_json(rude, tmp_path / "a.json")
    root = ET.parse(tmp_path / "junit.xml").getroot()
    assert root[0].get("failures") == "3"
    assert "\\x1b[31mred\\x00 \\ud800" in (root.findall(".//failure")[0].text or "")
    assert json.loads((tmp_path / "a.json").read_text())["passed"] is False
    (tmp_path / "a.html").write_text(to_html(rude), encoding="utf-8")
    console = Console(width=80, record=True, file=sys.stderr, force_terminal=False)
    print_result(rude, console)
    assert "\x1b[31m" not in console.export_text()


def test_a_subject_that_answers_nothing_is_an_error_in_every_report(tmp_path: Path) -> None:
    def broken(op: Any, *inputs: Any) -> Any:
        raise RuntimeError("no")

    nothing = check([UserSubject("broken", broken)], Plan(operators=("conv",), dtypes=("float32",), cases=4))
    suite = to_junit(nothing)[0]
    assert (suite.get("errors"), suite.get("tests")) == ("1", "4")
    assert to_json(nothing)["passed"] is False
    assert "answers nothing: not a pass" in to_html(nothing)
    console = Console(width=160, record=True, file=sys.stderr, force_terminal=False)
    print_result(nothing, console, quiet=True)
    assert "supports nothing of what was asked (RuntimeError: no): not a pass" in console.export_text()


def test_pairs_of_options_are_in_every_report(result: Result) -> None:
    listed = to_json(result)["coverage"]
    assert [(item["operator"], item["rank"]) for item in listed] == [
        (operator, rank) for operator in ("max_pool", "avg_pool") for rank in (1, 2, 3)
    ]
    possible = sum(item["possible"] for item in listed)
    drawn = dataclasses.replace(result, coverage=[dataclasses.replace(item, covered=2) for item in result.coverage])
    for shown, there in ((drawn, True), (result, False)):  # the few cases of this result are curated, not drawn
        console = Console(width=160, record=True, file=sys.stderr, force_terminal=False)
        print_result(shown, console, reproducers=0)
        assert (f"pairs of options drawn: 12 of {possible:,}" in console.export_text()) == there
        assert ("<h2>Pairs of options</h2>" in to_html(shown)) == there


def test_markdown_has_a_column_per_subject(result: Result) -> None:
    head, _, first, *_ = to_markdown(result).splitlines()
    assert head.startswith("| operator | mode | halfulp ")
    assert first.split(" | ")[2].startswith("136/136")
    assert "not supported" in to_markdown(result)


@pytest.mark.parametrize(
    ("dtypes", "shown"), [(("float32",), "all digits lost"), (("float32", "float64"), "5e06 ulps")]
)
def test_markdown_has_a_word_for_errors_as_large_as_the_value(dtypes: tuple[str, ...], shown: str) -> None:
    cell = Cell(cases=20, failed=20, elements=40, correct=39, worst=5e6)
    subject = SubjectResult("torch", "2", Summary({("conv", "forward", "float32"): cell}))
    plan = Plan(("conv",), ("forward",), dtypes, 1, 0)
    assert f"| conv | 97.50 %, {shown} |" in to_markdown(Result(plan, [subject]))


@pytest.mark.parametrize("width", [80, 160])
def test_the_table_fits_the_terminal(result: Result, width: int) -> None:
    console = Console(width=width, record=True, file=sys.stderr, force_terminal=False)
    print_result(result, console, reproducers=0)
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= width
    assert any(line.startswith("halfulp: ") and line.endswith("passes: every answer is right") for line in lines)
    rows = [line.split() for line in lines if line.startswith("max_pool ")]
    assert rows[0][1:5] == ["36", "–", "100", "%"]
    assert not any("…" in item for row in rows for item in row)


def test_scripts_are_printed_so_that_they_can_be_copied(result: Result) -> None:
    console = Console(width=60, record=True, file=sys.stderr, force_terminal=False)
    print_result(result, console, reproducers=1)
    printed = console.export_text().splitlines()
    scripts = [subject.reproducers[0].script for subject in result.subjects if subject.reproducers]
    assert scripts
    for script in scripts:
        assert [line for line in script.splitlines() if line.rstrip() not in {p.rstrip() for p in printed}] == []


def test_the_html_is_one_small_file_without_addresses(result: Result) -> None:
    page = to_html(result)
    assert len(page.encode()) < 3_000_000
    for word in ("http://", "https://", "src=", "@import", "url("):
        assert word not in page.replace("http://www.w3.org/2000/svg", ""), word
    assert page.count("<details class='finding'") == sum(len(s.findings()) for s in result.subjects)


def test_reproducers_run_with_the_framework_alone(result: Result, tmp_path: Path) -> None:
    written = write_scripts(result, tmp_path)
    assert len(written) == sum(len(subject.reproducers) for subject in result.subjects)
    for framework in ("torch", "jax", "onnxruntime"):
        scripts = [path for path in written if path.name.startswith(f"{framework}_")]
        assert scripts
        run_all(scripts, 3)


def run_all(scripts: list[Path], limit: int) -> None:
    """Run scripts in one process that cannot import halfulp; each must end by saying that the answer differs."""
    runner = (
        "import sys, runpy\n"
        "sys.modules['halfulp'] = None\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n"
        "        runpy.run_path(path)\n"
        "    except SystemExit as end:\n"
        "        assert end.code == 'the answer differs from the exact one, rounded once', (path, end.code)\n"
        "    else:\n"
        "        raise AssertionError(path)\n"
    )
    command = [sys.executable, "-c", runner, *map(str, scripts[:limit])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


CIRCUMSTANCES = {
    "torch": (("forward", "jvp", "vjp"), ("number of threads", "batch size", "memory layout (channels last)")),
    "halfulp": (("forward", "jvp", "vjp"), ("number of threads", "batch size", "memory layout (negative strides)")),
    "jax": (("forward", "vjp"), ("batch size",)),
    "onnxruntime": (("forward",), ("number of threads", "batch size")),
    "openvino": (("forward",), ("number of threads", "batch size")),
}


@pytest.mark.parametrize("subject", CIRCUMSTANCES)
def test_scripts_for_threads_batch_and_layout_run(subject: str, tmp_path: Path) -> None:
    """Whether the bits differ is the machine's affair; that the script says so is ours."""
    modes, names = CIRCUMSTANCES[subject]
    found = [*(f"depends on the {name}" for name in names), "differs from run to run"]
    scripts = []
    for mode in modes:
        for name in found:
            text = probes.script(load_subject(subject), "conv", mode, "float32", name)
            assert text is not None
            scripts.append(tmp_path / f"{mode}_{len(scripts)}.py")
            scripts[-1].write_text(text)
    said = ends_of(scripts, without=[] if subject == "halfulp" else ["halfulp"])
    assert said.count("elements differ") == len(scripts)
    assert subject != "halfulp" or said.splitlines() == [line for line in said.splitlines() if line.startswith("0 of ")]


def ends_of(scripts: list[Path], without: list[str]) -> str:
    """What scripts print that end with 0 or by saying that bits differ, in a process without some modules."""
    runner = (
        "import sys, runpy\n"
        f"for name in {without}: sys.modules[name] = None\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n"
        "        runpy.run_path(path)\n"
        "    except SystemExit as end:\n"
        "        assert end.code in (0, 'the bits differ'), (path, end.code)\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", runner, *map(str, scripts)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["halfulp", "torch", "jax", "numpy-naive"])
def test_scripts_for_transposes_run(name: str, tmp_path: Path) -> None:
    subject = load_subject(name)
    case = case_of("conv/vjp/float32/0.0", 0)
    text = adjoint_script(subject, subject.asked(case.setting.op), case.arrays())
    assert text is not None
    (tmp_path / "transpose.py").write_text(text)
    said = ends_of([tmp_path / "transpose.py"], without=["halfulp"] if name in ("torch", "jax") else [])
    pushed, pulled = re.findall(r"= (.*)$", said, re.MULTILINE)
    assert float(pushed) == pytest.approx(float(pulled), rel=1e-4, abs=1e-4)


def test_a_vjp_that_is_not_a_transpose_has_a_script(tmp_path: Path) -> None:
    plan = Plan(operators=("conv",), dtypes=("float32",), cases=24, probes=False)
    result = check(["tests.conformance.defects:NotATranspose"], plan, jobs=0)
    (found,) = [r for r in result.subjects[0].reproducers if r.aspect == "adjoint"][:1]
    (tmp_path / "transpose.py").write_text(found.script)
    command = [sys.executable, str(tmp_path / "transpose.py")]
    root = str(Path(__file__).parent.parent.parent)
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": root}, check=False)
    assert done.stderr.strip() == "the VJP is not the transpose of the JVP"


def test_findings_come_worst_first(result: Result) -> None:
    order = list(SEVERITIES)
    for subject in result.subjects:
        classes = [order.index(severity(f.aspect, f.name)) for _, f in subject.findings()]
        assert classes == sorted(classes)
        assert sum(subject.counts().values()) == sum(f.count for _, f in subject.findings())


def test_a_sum_that_cancels_loses_all_digits() -> None:
    class Sequential:
        def forward(self, op: Any, x: Any) -> Any:
            return (x[..., :1] + x[..., 1:2]) + x[..., 2:]

    given = np.array([[1, 1e8, -1e8]], np.float32)
    oracle = Oracle(Arrays((given,), (np.zeros_like(given),), np.ones((1, 1), np.float32)))
    verdict = judge(UserSubject("sequential", Sequential()), SumPool((3,)), "forward", oracle)
    assert (verdict.aspect, verdict.name) == ("value", "cancellation: all digits lost")
    assert severity(verdict.aspect, verdict.name) == "rounding"


def test_two_reports_are_compared(result: Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_json(result, tmp_path / "new.json")
    better = from_json(to_json(result))
    for subject in better.subjects:
        for cell in subject.summary.cells.values():
            cell.findings.clear()
    write_json(better, tmp_path / "old.json")
    old, new = str(tmp_path / "old.json"), str(tmp_path / "new.json")
    assert main(["check", "--compare", new, new]) == 0
    assert "0 new failures of class wrong" in capsys.readouterr().out
    assert main(["check", "--compare", new, old]) == 0
    assert main(["check", "--compare", old, new]) == 1
    assert any(change.worse for change in changes(better, result))
    capsys.readouterr()
    (tmp_path / "bad.json").write_text("[]")
    assert main(["check", "--compare", old, str(tmp_path / "bad.json")]) == 2
    assert "bad.json: not a report written with --json" in capsys.readouterr().err
    assert main(["check", "--compare", old, str(tmp_path / "none.json")]) == 2
    assert "none.json: No such file or directory" in capsys.readouterr().err


def test_an_onnx_backend_is_graded_and_its_scripts_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
import numpy as np, onnxruntime

def run_model(model, inputs, device="CPU"):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    outputs = session.run(None, {i.name: a for i, a in zip(model.graph.input, inputs)})
    return [outputs[0] + 1, *outputs[1:]]
"""
    (tmp_path / "off_by_one_backend.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    plan = Plan(operators=("max_pool",), modes=("forward",), dtypes=("float32",), cases=6, probes=False)
    graded = check(["onnx:off_by_one_backend"], plan, jobs=0)
    (subject,) = graded.subjects
    assert subject.counts()["wrong"] > 0
    assert not graded.passed
    script = subject.reproducers[0].script
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert "the answer differs from the exact one" in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_terminal_without_unicode_gets_ascii(encoding: str) -> None:
    command = [sys.executable, "-m", "halfulp", "check", "--op", "MaxPool2d", "--cases", "4", "--jobs", "0"]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"passes: every answer is right" in done.stdout


def test_a_notebook_shows_verdicts_comparison_and_findings(result: Result) -> None:
    html = result._repr_html_()
    assert html.count("<li class='chip") == len(result.subjects)
    assert "<table class='compare'>" in html
    found = sum(len(subject.findings()) for subject in result.subjects)
    assert html.count("<details class='finding'") == found > 0
    assert "<script" not in html
    assert "<dt>want</dt>" in html


def test_rows_that_no_subject_supports_are_folded() -> None:
    plan = Plan(operators=("max_pool", "median_pool"), modes=("forward",), dtypes=("float32",), cases=2)
    html = to_html(check(["onnxruntime"], plan, jobs=0))
    table, folded = html.split("<summary>Supported by no subject</summary>")
    assert "<tr data-operator='max_pool'" in table
    assert "<tr data-operator='median_pool'" not in table
    assert "<tr data-operator='median_pool'" in folded


def test_got_and_want_stand_above_a_script_and_fit_the_line(result: Result) -> None:
    reproducer = next(r for subject in result.subjects for r in subject.reproducers if r.got and r.want)
    console = Console(width=60, file=io.StringIO(), color_system=None)
    print_reproducer(reproducer, console)
    _, got, want, *_ = console.file.getvalue().splitlines()
    assert got.startswith("got  ")
    assert want.startswith("want ")
    assert max(len(got), len(want)) <= 60
