"""The tape as a picture: an SVG with one box per node, in layers from the leaves to the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from halfulp.autograd.inspection import describe, norm
from halfulp.autograd.node import Node
from halfulp.autograd.scalars import kind_name

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 168, 58, 46, 18, 14
_LIMIT = 300
_STYLE = (
    "text{font:12px sans-serif;fill:#222}.small{font-size:10px;fill:#666}.grad{font-size:10px;fill:#b3541e}"
    "rect{fill:#f6f6f6;stroke:#888}.leaf{fill:#e8f1fa;stroke:#4a7ebb}.fixed{stroke-dasharray:4 3}"
    "path{fill:none;stroke:#999}"
)


def to_svg(nodes: Sequence[Node], gradients: Mapping[int, Any]) -> str:
    """Names, shapes and gradient norms; a very long tape shows its first nodes."""
    shown = nodes[:_LIMIT]
    places = _places(shown)
    columns = max((column for column, _ in places), default=0) + 1
    rows = max((row for _, row in places), default=0) + 1
    width = 2 * _MARGIN + columns * (_WIDTH + _GAP_X) - _GAP_X
    height = 2 * _MARGIN + rows * (_HEIGHT + _GAP_Y) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<style>{_STYLE}</style>",
    ]
    for node in shown:
        parts.extend(_edge(places[parent], places[node.id]) for parent in dict.fromkeys(node.parents))
    parts.extend(_box(node, places[node.id], gradients.get(node.id)) for node in shown)
    if len(nodes) > _LIMIT:
        parts.append(
            f'<text class="small" x="{_MARGIN}" y="{height - 4}">the first {_LIMIT} of {len(nodes)} nodes</text>'
        )
    return "".join([*parts, "</svg>"])


def _places(nodes: Sequence[Node]) -> list[tuple[int, int]]:
    """(column, row) of every node: the column is the longest way from a leaf, the row the next free one there."""
    taken: dict[int, int] = {}
    places: list[tuple[int, int]] = []
    for node in nodes:
        column = 1 + max((places[parent][0] for parent in node.parents), default=-1)
        row = taken.get(column, 0)
        taken[column] = row + 1
        places.append((column, row))
    return places


def _corner(place: tuple[int, int]) -> tuple[int, int]:
    return _MARGIN + place[0] * (_WIDTH + _GAP_X), _MARGIN + place[1] * (_HEIGHT + _GAP_Y)


def _edge(start: tuple[int, int], stop: tuple[int, int]) -> str:
    (x0, y0), (x1, y1) = _corner(start), _corner(stop)
    x0, y0, y1 = x0 + _WIDTH, y0 + _HEIGHT // 2, y1 + _HEIGHT // 2
    middle = (x0 + x1) // 2
    return f'<path d="M{x0} {y0}C{middle} {y0} {middle} {y1} {x1} {y1}"/>'


def _box(node: Node, place: tuple[int, int], gradient: Any) -> str:
    x, y = _corner(place)
    classes = " ".join(
        word for word, wanted in (("leaf", node.operator is None), ("fixed", not node.requires_grad)) if wanted
    )
    lines = [
        f"<g><title>{escape(describe(node.operator))}</title>"
        f'<rect class="{classes}" x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="5"/>',
        f'<text x="{x + 8}" y="{y + 17}">{node.id}: {escape(_short(node.name, 20))}</text>',
        f'<text class="small" x="{x + 8}" y="{y + 33}">{node.shape} {escape(kind_name(node.kind))}</text>',
    ]
    if gradient is not None:
        lines.append(f'<text class="grad" x="{x + 8}" y="{y + 49}">|grad| = {norm(gradient)}</text>')
    return "".join([*lines, "</g>"])


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
