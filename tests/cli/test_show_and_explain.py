"""`halfulp show`, `explain` and `completion`."""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from halfulp import AvgPool, Conv, MaxPool
from halfulp.cli import main
from halfulp.cli.drawing.canvas import Line, lay_out
from halfulp.cli.drawing.scene import make_scene
from halfulp.cli.drawing.text import to_text
from halfulp.errors import CONSTRAINTS

X = np.array([[1.0, 3.0, 3.0], [0.0, 3.0, 2.0]])


def test_a_scene_knows_winners_ties_and_flow() -> None:
    scene = make_scene(MaxPool((2, 2), stride=1), X)
    first, second = scene.views
    assert first.shares == {(0, 1): 1.0}
    assert first.tied == {(0, 1), (1, 1)}
    assert second.tied == {(0, 1), (0, 2), (1, 1)}
    assert scene.back.tolist() == [[0, 2, 0], [0, 0, 0]]


def test_shares_follow_the_tie_rule() -> None:
    scene = make_scene(MaxPool((2, 3), ties="split"), X)
    assert scene.views[0].shares == {(0, 1): 1 / 3, (0, 2): 1 / 3, (1, 1): 1 / 3}


def test_padding_is_part_of_the_picture() -> None:
    scene = make_scene(AvgPool((2,), padding=1), np.array([2.0, 4.0]))
    assert (scene.before, scene.after) == ((1,), (1,))
    assert scene.views[0].cells == ((-1,), (0,))
    assert to_text(scene).splitlines()[2] == "  · 2 4 ·"


def test_a_convolution_flows_along_its_taps() -> None:
    scene = make_scene(Conv(2), np.ones((2, 2)), np.array([[1.0, 0.0], [0.0, -1.0]]))
    assert scene.views[0].shares == {(0, 0): 1.0, (1, 1): -1.0}


@pytest.mark.parametrize(
    "operator",
    [
        "max_pool",
        "avg_pool",
        "smooth_max_pool",
        "adaptive_avg_pool",
        "adaptive_max_pool",
        "global_avg_pool",
        "global_max_pool",
        "conv",
        "conv_transpose",
    ],
)
@pytest.mark.parametrize("size", ["5", "3x4"])
def test_every_operator_is_shown(operator: str, size: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "picture.svg"
    assert main(["show", operator, "--size", size, "--output", str(path)]) == 0
    assert capsys.readouterr().out.startswith(f"{operator}{len(size.split('x'))}d: ")
    root = ET.fromstring(path.read_text())
    assert root.tag.endswith("svg")
    assert len(root.findall("{*}rect")) > 3


def test_one_arrow_per_share() -> None:
    scene = make_scene(MaxPool((2, 2), stride=1), X)
    arrows = [shape for shape in lay_out(scene).shapes if isinstance(shape, Line)]
    assert len(arrows) == sum(len(view.shares) for view in scene.views) == 2


def test_a_png_is_a_png(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    assert main(["show", "max_pool", "--input", "1 3 3; 0 3 2", "--stride", "1", "--output", str(path)]) == 0
    assert path.read_bytes().startswith(b"\x89PNG")


def test_options_reach_the_record(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--kernel", "3", "--stride", "2", "--padding", "1", "--ceil-mode", "--ties", "all", "--size", "4x4"]
    assert main(["show", "max_pool", *arguments]) == 0
    out = capsys.readouterr().out
    assert out.startswith("max_pool2d: MaxPool((3, 3), stride=2, padding=1, ceil_mode=True, ties='all')")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["max_pool", "--kernel", "9"], "max_pool2d: kernel_size=(9, 9)"),
        (["max_pool", "--input", "1 2; 3"], "'1 2; 3': every row must have the same number of numbers"),
        (["max_pool", "--size", "2x2x2"], "--size 2x2x2: pictures have one or two axes"),
        (["max_pool", "--kernel", "two"], "--kernel two: must be a number per axis, such as 3 or 2x3"),
        (["conv", "--weight", "1 2", "--size", "3x3"], "--weight has 1 axes, but the input has 2"),
        (["max_pool", "--output", "picture.gif"], "--output picture.gif: must end in .svg or .png"),
    ],
)
def test_what_cannot_be_shown_is_explained(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"halfulp show: {message}")


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
