"""The tape as text: a table to print, and a graph for Graphviz."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from halfulp.autograd.node import Node
from halfulp.autograd.scalars import kind_name

_HEADS = ("id", "name", "operator", "shape", "kind", "parents", "grad")


def describe(operator: Any) -> str:
    """An operator on one line; a leaf has none."""
    if operator is None:
        return "leaf"
    text = repr(operator)
    if text.startswith("<"):  # no repr of its own
        text = type(operator).__name__
    text = " ".join(text.split())
    return text if len(text) <= 48 else text[:47] + "…"


def table(nodes: Sequence[Node]) -> str:
    """One line per node, in aligned columns."""
    rows = [_HEADS]
    for node in nodes:
        parents = ", ".join(map(str, node.parents)) or "-"
        grad = "yes" if node.requires_grad else "no"
        rows.append(
            (str(node.id), node.name, describe(node.operator), str(node.shape), kind_name(node.kind), parents, grad)
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("─" * width for width in widths), *lines[1:]])


def to_dot(nodes: Sequence[Node]) -> str:
    """A graph in the DOT language, inputs on the left."""
    lines = ["digraph tape {", "  rankdir=LR;", '  node [shape=box, fontname="sans-serif"];']
    for node in nodes:
        label = f"{node.id}: {_quoted(node.name)}\\n{node.shape} {kind_name(node.kind)}"
        colour = "#e8f1fa" if node.operator is None else "#f6f6f6"
        dashed = "" if node.requires_grad else ",dashed"
        lines.append(f'  {node.id} [label="{label}", style={_style(dashed)}, fillcolor="{colour}"];')
    lines.extend(f"  {parent} -> {node.id};" for node in nodes for parent in node.parents)
    return "\n".join([*lines, "}"])


def _style(dashed: str) -> str:
    return f'"filled{dashed}"' if dashed else "filled"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def norm(array: Any) -> str:
    """The Euclidean norm of a gradient for a reader: three digits; a question mark for scalars that have no float."""
    try:
        squares = [float(v) ** 2 for v in np.asarray(array).ravel()]
    except (TypeError, ValueError):
        return "?"
    return f"{math.sqrt(math.fsum(squares)):.3g}"
