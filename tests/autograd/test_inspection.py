"""The tape as text and picture."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import sympy

import halfulp as hu
from halfulp import Tape


def network() -> tuple[Tape, int]:
    tape, x = Tape().leaf(np.ones((1, 4, 4), dtype=np.float32), name='in "put" <x>')
    tape, w = tape.leaf(np.ones((2, 1, 3, 3), dtype=np.float32), name="w")
    tape, c = tape.leaf(np.ones(2, dtype=np.float32), name="bias", requires_grad=False)
    tape, y = tape.conv2d(w, c, x)
    tape, y = tape.max_pool2d(y, 2)
    tape, y = tape.mul(y, y)
    return tape.sum(y)


def test_print_is_a_readable_table() -> None:
    tape, _ = network()
    lines = str(tape).splitlines()
    assert lines[0].split() == ["id", "name", "operator", "shape", "kind", "parents", "grad"]
    assert set(lines[1]) == {"─", " "}
    assert [" ".join(line.split()) for line in lines[2:]] == [
        '0 in "put" <x> leaf (1, 4, 4) float32 - yes',
        "1 w leaf (2, 1, 3, 3) float32 - yes",
        "2 bias leaf (2,) float32 - no",
        "3 conv2d Conv(2) (2, 2, 2) float32 0, 1, 2 yes",
        "4 max_pool2d MaxPool((2, 2)) (2, 1, 1) float32 3 yes",
        "5 mul Mul (2, 1, 1) float32 4, 4 yes",
        "6 sum Sum(axis=None, keepdims=False) () float32 5 yes",
    ]
    assert len({line.index("float32") for line in lines[2:]}) == 1
    assert repr(tape) == "Tape with 7 nodes"


def test_dot_has_every_node_and_edge() -> None:
    tape, _ = network()
    dot = tape.to_dot()
    assert dot.startswith("digraph tape {")
    assert dot.endswith("}")
    for edge in ("0 -> 3;", "1 -> 3;", "2 -> 3;", "3 -> 4;", "4 -> 5;", "5 -> 6;"):
        assert edge in dot
    assert '0: in \\"put\\" <x>\\n(1, 4, 4) float32' in dot
    assert 'style="filled,dashed"' in dot


def test_svg_is_well_formed_and_shows_names_shapes_and_gradient_norms() -> None:
    tape, loss = network()
    picture = tape._repr_svg_()
    root = ET.fromstring(picture)
    texts = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert '0: in "put" <x>' in texts
    assert "(2, 1, 3, 3) float32" in texts
    norm = np.sqrt(float((tape.backward(loss)[1].astype(np.float64) ** 2).sum()))
    assert f"|grad| = {norm:.3g}" in texts
    boxes = root.findall(".//{http://www.w3.org/2000/svg}rect")
    assert len(boxes) == len(tape)
    assert "|grad|" not in tape.to_svg()


def test_pictures_of_empty_long_and_symbolic_tapes() -> None:
    assert ET.fromstring(Tape()._repr_svg_()).tag.endswith("svg")
    assert str(Tape()).startswith("id")
    tape, x = Tape().leaf(np.array(1.0))
    for _ in range(400):
        tape, x = tape.neg(x)
    assert "the first 300 of 401 nodes" in tape._repr_svg_()
    tape, x = Tape().leaf(np.array([sympy.Symbol("a")]))
    tape, y = tape.mul(x, x)
    assert "|grad| = ?" in tape.to_svg(tape.backward(y))
    tape, z = Tape().leaf(hu.exact(np.array([3.0, 4.0])))
    assert "|grad| = 5" in tape.to_svg(tape.backward(z, hu.exact(np.array([3.0, 4.0]))))
