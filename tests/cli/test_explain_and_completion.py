"""`halfulp explain` and `completion`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import halfulp as hu
from halfulp.cli import main
from halfulp.errors import CONSTRAINTS


@pytest.mark.parametrize("label", list(CONSTRAINTS))
def test_every_label_is_explained(label: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", f"[{label.lower()}]"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{label}  {CONSTRAINTS[label]}")
    if ">>>" in out:
        assert out.rstrip().endswith(f"[{label}]")  # the example breaks this very constraint


def test_explain_lists_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {label:3} {rule}" in out for label, rule in CONSTRAINTS.items())


def test_explain_refuses_an_unknown_label(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "Z9"]) == 2
    assert "there is no constraint Z9; labels are W1, " in capsys.readouterr().err


def test_bash_completes_operators_and_subjects(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    ask = 'COMP_WORDS=(halfulp check --op conv); COMP_CWORD=3; _halfulp; echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["conv", "conv_transpose"]
    ask = 'COMP_WORDS=(halfulp check --jo); COMP_CWORD=2; _halfulp; echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["--jobs", "--journal"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "torch-channels-last" in capsys.readouterr().out


def test_bash_completes_files_after_options_that_take_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "result.json").touch()
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    ask = f'COMP_WORDS=(halfulp check --json {tmp_path}/res); COMP_CWORD=3; _halfulp; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{tmp_path}/result.json"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("r", ["run"]),
        ("run --prof", ["--profile"]),
        ("verify --method c", ["crown"]),
        ("pyramid --method m", ["mean", "max", "min", "median", "mode"]),
        ("show mi", ["min_pool"]),
        ("check --mode b", ["bounds"]),
    ],
)
def test_every_command_and_its_choices_are_completed(
    typed: str, expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", "bash"]) == 0
    script, words = capsys.readouterr().out, typed.split()
    ask = f'COMP_WORDS=(halfulp {typed}); COMP_CWORD={len(words)}; _halfulp; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == expected


def test_without_a_command_the_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    shown = capsys.readouterr().err
    assert all(command in shown for command in ("check", "show", "explain", "run", "verify", "pyramid", "completion"))


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "halfulp", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"halfulp {hu.__version__}\n"
