"""Every operator in every layer: the table is printed, and a hole in it fails."""

from __future__ import annotations

from dataclasses import replace

from tools import completeness, generate

from halfulp import MaxPool
from halfulp.records import declaration_of


def test_no_operator_is_missing_from_a_layer() -> None:
    print(completeness.to_markdown(generate.own()))
    assert completeness.holes(generate.own()) == []


def test_a_hole_is_seen() -> None:
    class Ghost(MaxPool):
        base_name = "ghost_pool"

    ghost = replace(declaration_of(MaxPool), record=Ghost, onnx=("GhostPool",))
    assert completeness.holes([ghost]) == [f"Ghost is missing from {layer}" for layer in completeness.LAYERS][:-1]
