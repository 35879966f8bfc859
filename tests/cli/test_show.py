"""`halfulp show`: what is drawn, and that it can be read."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from halfulp import AvgPool, Conv, ConvTranspose, GlobalMaxPool, MaxPool, MedianPool, SmoothMaxPool
from halfulp.cli import main
from halfulp.cli.show import shown_operators
from halfulp.drawing.canvas import COLOURS, Canvas, Line, Rectangle, Words, lay_out
from halfulp.drawing.scene import Scene, make_scene
from halfulp.drawing.text import WIDTH, to_text
from halfulp.drawing.words import number

X = np.array([[1.0, 3.0, 3.0], [0.0, 3.0, 2.0]])
OPTIONS = {
    "plain": ["--size", "4x4"],
    "row": ["--size", "7"],
    "overlapping": ["--kernel", "3", "--stride", "1", "--padding", "1", "--size", "5x6"],
    "dilated": ["--kernel", "2", "--dilation", "2", "--size", "6x5"],
    "large": ["--kernel", "3", "--size", "70x90", "--window", "4,5"],
    "fractions": ["--input", "1/7 22/7 0.125 -3e5; 1e-9 123456789 -1/3 5; 0 0 0 0; 1 2 3 4"],
    "special": ["--input", "nan 1 -0 inf; 2 2 -inf 2; 0 0 0 0; 1 1 1 1"],
}


def values(scene: Scene, array: np.ndarray) -> list[str]:
    return [number(value) for value in array.ravel()]


def shares(scene: Scene, position: tuple[int, ...]) -> dict[tuple[int, ...], str]:
    return {cell: number(share) for cell, share in scene.view(position).shares.items()}


def test_a_scene_knows_winners_ties_and_flow() -> None:
    scene = make_scene(MaxPool((2, 2), stride=1), X)
    assert shares(scene, (0, 0)) == {(0, 1): "1"}
    assert scene.view((0, 0)).tied == {(0, 1), (1, 1)}
    assert scene.view((0, 1)).tied == {(0, 1), (0, 2), (1, 1)}
    assert values(scene, scene.back) == ["0", "2", "0", "0", "0", "0"]


def test_shares_follow_the_tie_rule_exactly() -> None:
    scene = make_scene(MaxPool((2, 3), ties="split"), X)
    assert shares(scene, (0, 0)) == {(0, 1): "1/3", (0, 2): "1/3", (1, 1): "1/3"}


def test_padding_is_part_of_the_picture() -> None:
    scene = make_scene(AvgPool((2,), padding=1), np.array([2.0, 4.0]))
    assert (scene.before, scene.after) == ((1,), (1,))
    assert scene.cells((0,)) == ((-1,), (0,))
    assert to_text(scene).splitlines()[2].startswith("  ·  2 [4  ·]")


def test_a_convolution_flows_along_its_taps_and_shows_its_weight() -> None:
    scene = make_scene(Conv(2), np.ones((2, 2)), np.array([[1.0, 0.0], [0.0, -1.0]]))
    assert shares(scene, (0, 0)) == {(0, 0): "1", (1, 1): "-1"}
    text = to_text(scene)
    assert "weight 2x2" in text
    assert "(0, 0): 1*1 + 0*1 + 0*1 - 1*1 → 0" in text
    assert any(isinstance(s, Words) and s.text == "weight 2x2" for s in lay_out(scene).shapes)


def test_a_transposed_convolution_marks_the_cells_that_reach_an_output_even_by_a_weight_of_zero() -> None:
    scene = make_scene(ConvTranspose(1, stride=1), np.array([1.0, 2.0]), np.array([0.0, 3.0]), chosen=(1,))
    assert scene.cells((1,)) == ((0,), (1,))
    assert shares(scene, (1,)) == {(0,): "3"}


def test_small_inputs_are_exact_and_typed_decimals_are_fractions() -> None:
    scene = make_scene(AvgPool((3,)), np.array([Fraction("0.1"), Fraction(1, 3), Fraction(2)], dtype=object))
    assert values(scene, scene.output) == ["73/90"]
    assert values(scene, scene.x) == ["1/10", "1/3", "2"]


def test_what_is_not_rational_says_that_it_is_rounded() -> None:
    text = to_text(make_scene(SmoothMaxPool((2,), 1.0), np.array([0.0, 1.0])))
    assert "~1.31" in text
    assert "~ rounded" in text


def test_medians_have_winners_too() -> None:
    assert "3*" in to_text(make_scene(MedianPool((3,)), np.array([1.0, 3.0, 5.0])))


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("operator", shown_operators())
def test_every_operator_is_shown_within_80_columns_and_lines_cross_no_number(
    operator: str, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "picture.svg"
    given = list(options)
    if operator.startswith(("adaptive", "global")):
        given = [word for word in given if word not in ("--kernel", "--stride", "--padding", "--dilation")]
        given = [word for word in given if len(word) > 1 or options[0] == "--size"]
    if operator.startswith(("adaptive", "global")) and "--window" in given:
        given[given.index("--window") + 1] = "0,0"
    assert main(["show", operator, *given, "--output", str(path)]) == 0, capsys.readouterr().err
    out = capsys.readouterr().out
    assert out.startswith(f"{operator}{1 if '7' in given else 2}d: ")
    assert max(map(len, out.splitlines())) <= WIDTH
    svg = ET.fromstring(path.read_text())
    assert crossed(svg) == []
    for words in svg.findall("{*}text"):  # nothing is cut off on the right
        centred = words.get("text-anchor") == "middle"
        right = float(words.get("x", 0)) + text_width(words) * (0.5 if centred else 1)
        assert right <= float(svg.get("width", 0)), words.text


def text_width(words: ET.Element) -> float:
    return len(words.text or "") * float(words.get("font-size", 0)) * 0.58


def crossed(svg: ET.Element) -> list[str]:
    """The texts that a line runs through: lines in small steps, texts as boxes."""
    found = []
    for line in svg.findall("{*}line"):
        x1, y1, x2, y2 = (float(line.get(key, 0)) for key in ("x1", "y1", "x2", "y2"))
        steps = np.linspace(0, 1, 200)
        for words in svg.findall("{*}text"):
            size, x = float(words.get("font-size", 0)), float(words.get("x", 0))
            left = x - text_width(words) / 2 if words.get("text-anchor") == "middle" else x
            bottom = float(words.get("y", 0))
            inside_x = (x1 + steps * (x2 - x1) > left) & (x1 + steps * (x2 - x1) < left + text_width(words))
            inside_y = (y1 + steps * (y2 - y1) > bottom - size) & (y1 + steps * (y2 - y1) < bottom)
            if (inside_x & inside_y).any():
                found.append(str(words.text))
    return found


def frames(canvas: Canvas, colour: str) -> list[tuple[float, float]]:
    """The sizes of the frames of one colour, in the order in which they are drawn."""
    return [
        (round(shape.width, 3), round(shape.height, 3))
        for shape in canvas.shapes
        if isinstance(shape, Rectangle) and shape.fill == "none" and shape.stroke == colour
    ]


def test_windows_apart_have_a_colour_each_and_the_same_size() -> None:
    canvas = lay_out(make_scene(AvgPool((2, 2)), np.arange(16.0).reshape(4, 4)))
    drawn = [frames(canvas, colour) for colour in COLOURS]
    assert all(drawn[:4])
    assert drawn[0] == drawn[1] == drawn[2] == drawn[3]
    assert not any(drawn[4:])
    assert not any(isinstance(shape, Line) for shape in canvas.shapes)


def test_of_overlapping_windows_one_is_marked() -> None:
    scene = make_scene(MaxPool((2, 2), stride=1), X, chosen=(0, 1))
    canvas = lay_out(scene)
    assert frames(canvas, COLOURS[0])
    assert not any(frames(canvas, colour) for colour in COLOURS[1:])
    assert any(isinstance(shape, Line) for shape in canvas.shapes)


def test_a_large_input_is_cropped_around_the_marked_window_and_says_so() -> None:
    x = np.arange(2700.0).reshape(30, 90)
    scene = make_scene(MaxPool((2, 2)), x, chosen=(10, 30))
    line = next(line for line in to_text(scene).splitlines() if line.startswith("input"))
    assert line.startswith("input 30x90: cropped to rows 18-29, columns 59-")
    titles = [shape.text for shape in lay_out(scene).shapes if isinstance(shape, Words)]
    assert "input 30x90: cropped to rows 18-29, columns 59-70" in titles


def test_a_global_operator_without_axes_has_one_window() -> None:
    text = to_text(make_scene(GlobalMaxPool(2, keepdims=False), X))
    assert "output 1" in text
    assert "→ 3; cotangent 1 to (0, 1), 1 to (0, 2), 1 to (1, 1); 3 cells tie" in " ".join(text.split())


def test_a_png_is_a_png(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    assert main(["show", "max_pool", "--input", "1 3 3; 0 3 2", "--stride", "1", "--output", str(path)]) == 0
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["max_pool", "max_pool2d", "MaxPool", "MaxPool2d", "maxpool"])
def test_options_reach_the_record_under_any_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--kernel", "3", "--stride", "2", "--padding", "1", "--ceil-mode", "--ties", "all", "--size", "4x4"]
    assert main(["show", name, *arguments]) == 0
    out = capsys.readouterr().out
    assert out.startswith("max_pool2d: MaxPool((3, 3), stride=2, padding=1, ceil_mode=True, ties='all')")


def test_one_size_counts_for_every_axis_that_the_name_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "max_pool2d", "--size", "6"]) == 0
    assert "input 6x6" in capsys.readouterr().out
    assert main(["show", "max_pool1d", "--size", "6"]) == 0
    assert "input 6 " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["max_pool", "--kernel", "9"], "max_pool2d: kernel_size=(9, 9)"),
        (["max_pool", "--input", "1 2; 3"], "--input '1 2; 3': every row must have the same number of numbers"),
        (["max_pool", "--input", "1 two"], "--input '1 two': 'two' is not a number"),
        (["max_pool", "--input", "1/0"], "--input '1/0': '1/0' is not a number"),
        (["max_pool", "--size", "2x2x2"], "--size 2x2x2: pictures have one or two axes"),
        (["max_pool", "--size", "0x3"], "--size 0x3: must be between 1 and a million cells"),
        (["max_pool3d"], "max_pool3d: pictures have one or two axes"),
        (["max_pool1d", "--size", "3x3"], "max_pool1d: the input has 2 axes"),
        (["max_pool", "--kernel", "two"], "--kernel two: must be a number per axis, such as 3 or 2x3"),
        (["conv", "--weight", "1 2", "--size", "3x3"], "--weight has 1 axis, but the input has 2 axes"),
        (["conv", "--weight", "1", "--kernel", "3"], "--kernel: does not apply to conv with --weight"),
        (["max_pool", "--output", "picture.gif"], "--output picture.gif: must end in .svg or .png"),
        (["max_pool", "--output", "no/where.svg"], "--output no/where.svg: there is no folder"),
        (["max_pool", "--window", "9,9"], "window (9, 9): the output has shape (2, 2), counted from 0"),
        (["max_pool", "--window", "x"], "--window x: must be a place in the output, such as 1,2"),
        (["max_pool", "--cotangent", "1 2 3"], "max_pool2d: a cotangent of shape (3,) for an output of (2, 2)"),
        (["max_pool", "--input", "1 2", "--seed", "3"], "--seed: cannot be used with --input"),
        (["avg_pool", "--ties", "all", "--beta", "2"], "--ties, --beta: does not apply to avg_pool"),
        (["max_pol"], "there is no picture of 'max_pol' (did you mean 'max_pool'?); there are max_pool"),
    ],
)
def test_what_cannot_be_shown_is_explained(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"halfulp show: {message}")


def test_notebooks_show_operators_and_drawing_is_imported_only_then() -> None:
    script = (
        "import sys, halfulp as hu\n"
        "assert 'halfulp.drawing' not in sys.modules\n"
        "pictures = [op._repr_svg_() for op in (hu.MaxPool((3, 3), stride=2), hu.Conv(2, groups=4), hu.Conv(1),"
        " hu.ConvTranspose(2, stride=2), hu.AdaptiveAvgPool((3, 2)), hu.GlobalMaxPool(2), hu.MaxPool((15, 15)))]\n"
        "assert all(p.startswith('<svg') and p.rstrip().endswith('</svg>') for p in pictures)\n"
        "assert hu.MaxPool((2, 2, 2))._repr_svg_() is None and hu.Unfold((2, 2))._repr_svg_() is None\n"
        "assert 'Conv(2, groups=4)' in pictures[1]\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_terminal_without_unicode_gets_80_columns_too(encoding: str) -> None:
    command = [
        sys.executable,
        "-m",
        "halfulp",
        "show",
        "avg_pool",
        "--kernel",
        "3",
        "--padding",
        "1",
        "--size",
        "9x9",
    ]
    done = subprocess.run(
        command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}, check=True
    )
    out = done.stdout.decode(encoding)
    assert "-> " in out
    assert "?" not in out
    assert max(map(len, out.splitlines())) <= WIDTH
