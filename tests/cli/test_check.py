"""`halfulp check` from the outside: options, files, exit codes and messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from halfulp.cli import main

QUICK = ["--op", "max_pool", "--mode", "forward", "--dtype", "float32", "--cases", "8", "--jobs", "0"]


def test_a_subject_that_meets_the_demand_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *QUICK]) == 0
    out = capsys.readouterr().out
    assert "halfulp: 8 cases in" in out
    assert "passes: every answer is right" in out


def test_a_subject_that_fails_exits_with_1_and_shows_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["check", "numpy-naive", "--op", "conv", "--mode", "vjp", "--dtype", "float32", "--cases", "16"]
    assert main([*arguments, "--jobs", "0", "--show", "1"]) == 1
    out = capsys.readouterr().out
    assert "numpy-naive: 16 cases" in out
    assert "raise SystemExit" in out
    assert main([*arguments, "--jobs", "0", "--fail-on", "shape,nan", "--quiet"]) == 0


def test_every_file_is_written(tmp_path: Path) -> None:
    names = {"--json": "a.json", "--junit": "a.xml", "--report": "a.html", "--markdown": "a.md", "--scripts": "scripts"}
    arguments = [part for flag, name in names.items() for part in (flag, str(tmp_path / name))]
    assert main(["check", "numpy-naive", "halfulp", *QUICK, "--quiet", *arguments]) == 0
    assert all((tmp_path / name).exists() for name in names.values())
    assert json.loads((tmp_path / "a.json").read_text())["plan"]["cases"] == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--op", "pool"], "halfulp check: --op pool (did you mean 'lp_pool'?): must be one of max_pool, "),
        (["--mode", "backward"], "halfulp check: --mode backward: must be one of forward, jvp, vjp"),
        (
            ["--dtype", "float128"],
            "halfulp check: --dtype float128 (did you mean 'float32'?): must be one of float16, ",
        ),
        (["--fail-on", "speed"], "halfulp check: --fail-on speed: must be one of wrong, convention, rounding, shape, "),
        (["--fail-on", "ulps>-1"], "halfulp check: --fail-on ulps>-1: N must be a number of at least 0"),
        (
            ["--replay", "conv/vjp/float32/1.0", "--json", "a"],
            "halfulp check: --jobs, --json: cannot be used with --replay",
        ),
        (["--op", "max_pol"], "halfulp check: --op max_pol (did you mean 'max_pool'?): must be one of "),
        (["max_pool2d"], "halfulp check: 'max_pool2d' is an operator, not a subject; write --op max_pool2d"),
        (["--operator", "max_pol"], "halfulp check: --op max_pol (did you mean 'max_pool'?): must be one of "),
        (["pytorch"], "halfulp check: there is no subject 'pytorch' (did you mean 'torch'?)"),
        (["--show", "9", "--quiet"], "halfulp check: --show: cannot be used with --quiet"),
        (
            ["--memory-limit", "9"],
            "halfulp check: --memory-limit: cannot be used with --jobs 0, which has no processes",
        ),
        (["--scheduler", "x"], "halfulp check: --jobs: cannot be used with --scheduler"),
        (["--compare", "a", "b", "--cases", "9"], "halfulp check: --cases, --jobs: cannot be used with --compare"),
        (
            ["troch", "theano"],
            "halfulp check: there is no subject 'troch' (did you mean 'torch'?), 'theano'; known are",
        ),
        (["onnx:json"], "halfulp check: subject 'onnx:json': the module json has no function run_model or prepare"),
        (["nothing"], "halfulp check: there is no subject 'nothing'; known are halfulp, torch, "),
        (["nothing:at_all"], "halfulp check: subject 'nothing:at_all' cannot be loaded: No module named 'nothing'"),
    ],
)
def test_a_wrong_command_line_exits_with_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *arguments, "--jobs", "0"]) == 2
    assert capsys.readouterr().err.startswith(message)


@pytest.mark.parametrize(
    ("flag", "value"), [("--cases", "0"), ("--jobs", "-1"), ("--memory-limit", "0"), ("--cases", "x")]
)
def test_numbers_have_a_least_value(flag: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["check", flag, value])
    assert end.value.code == 2
    assert f"argument {flag}: {value}: must be an integer of at least" in capsys.readouterr().err


def test_a_subject_that_cannot_be_loaded_in_a_process_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "nothing", "--jobs", "1"]) == 2
    assert "there is no subject 'nothing'" in capsys.readouterr().err


def test_help_names_subjects_options_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["check", "--help"])
    assert end.value.code == 0
    out = capsys.readouterr().out
    for word in ("torch-channels-last", "module:object", "--fail-on", "--scheduler", "--journal", "exit code"):
        assert word in out


def test_a_journal_of_another_campaign_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = ["--journal", str(tmp_path / "journal"), "--quiet"]
    assert main(["check", *QUICK, *journal]) == 0
    assert main(["check", *QUICK, *journal, "--seed", "9"]) == 2
    assert "is the journal of another campaign" in capsys.readouterr().err


def test_a_file_that_is_no_journal_exits_with_2_and_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my only copy")
    assert main(["check", *QUICK, "--journal", str(path), "--quiet"]) == 2
    assert f"halfulp check: {path} is not a journal and would be overwritten" in capsys.readouterr().err
    assert path.read_text() == "my only copy"


@pytest.mark.parametrize("flag", ["--json", "--junit", "--report", "--markdown", "--journal"])
def test_files_that_cannot_be_written_are_refused_before_the_work(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *QUICK, flag, str(tmp_path / "nowhere" / "file")]) == 2
    assert f"halfulp check: {flag} {tmp_path / 'nowhere' / 'file'}: there is no folder" in capsys.readouterr().err
    assert main(["check", *QUICK, flag, str(tmp_path)]) == 2
    assert "is a folder; give the name of a file" in capsys.readouterr().err


def test_a_combination_without_a_case_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--op", "conv", "--dtype", "int8", "--jobs", "0"]) == 2
    assert "halfulp check: nothing would be checked" in capsys.readouterr().err


def test_a_case_can_be_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--replay", "max_pool/vjp/float32/0.1"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("halfulp ")
    assert "max_pool/vjp/float32/0.1 (seed 0; ceil_mode, partial last window, negative; layout C)" in out
    assert "\npassed: right\n" in out
    assert main(["check", "numpy-naive", "--replay", "smooth_max_pool/forward/float32/2.0"]) == 1
    assert "failed: value: " in capsys.readouterr().out


@pytest.mark.parametrize("key", ["conv", "conv/vjp/float32/x", "pool/vjp/float32/0.1"])
def test_a_case_that_is_not_there_exits_with_2(key: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--replay", key]) == 2
    assert f"--replay: {key}: a case is called operator/mode/dtype/setting.filling" in capsys.readouterr().err
