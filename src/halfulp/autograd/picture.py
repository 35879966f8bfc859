"""The tape as a picture: an SVG with one box per node, computed from top to bottom, leaves beside their first use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from halfulp.autograd.inspection import describe, norm
from halfulp.autograd.node import Node
from halfulp.autograd.scalars import kind_name

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 168, 58, 18, 26, 14
_BOW = 30  # room for edges around the boxes of the first column
_LIMIT = 300
_STYLE = "".join(  # scoped, because a notebook shares one style sheet among all its pictures
    f".halfulp-tape {rule}"
    for rule in (
        "text{font:12px sans-serif;fill:#222}",
        "text.small{font-size:10px;fill:#666}",
        "text.grad{font-size:10px;fill:#b3541e}",
        "rect{fill:#f6f6f6;stroke:#888}",
        "rect.leaf{fill:#e8f1fa;stroke:#4a7ebb}",
        "rect.fixed{stroke-dasharray:4 3}",
        "path{fill:none;stroke:#999}",
    )
)


def to_svg(nodes: Sequence[Node], gradients: Mapping[int, Any]) -> str:
    """Names, shapes and gradient norms; a very long tape shows its first nodes."""
    shown = nodes[:_LIMIT]
    places = _places(shown)
    columns = max((column for column, _ in places), default=0) + 1
    rows = max((row for _, row in places), default=0) + 1
    width = 2 * _MARGIN + _BOW + columns * (_WIDTH + _GAP_X) - _GAP_X
    height = 2 * _MARGIN + rows * (_HEIGHT + _GAP_Y) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="halfulp-tape" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">',
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
    """(column, row) of every node: results below their inputs, a leaf right above its first use, beside the results."""
    rows: list[int] = []
    first_use: dict[int, int] = {}
    for node in nodes:
        rows.append(1 + max((rows[parent] for parent in node.parents), default=-1))
        for parent in node.parents:
            first_use[parent] = min(rows[-1], first_use.get(parent, rows[-1]))
    for node in nodes:
        if node.operator is None and node.id in first_use:
            rows[node.id] = first_use[node.id] - 1
    taken: dict[int, int] = {}
    columns = [0] * len(nodes)
    for node in sorted(nodes, key=lambda node: (node.operator is None, node.id)):
        row = rows[node.id]
        columns[node.id] = taken.get(row, 0)
        taken[row] = columns[node.id] + 1
    return list(zip(columns, rows, strict=True))


def _corner(place: tuple[int, int]) -> tuple[int, int]:
    return _MARGIN + _BOW + place[0] * (_WIDTH + _GAP_X), _MARGIN + place[1] * (_HEIGHT + _GAP_Y)


def _edge(start: tuple[int, int], stop: tuple[int, int]) -> str:
    (x0, y0), (x1, y1) = _corner(start), _corner(stop)
    if start[0] == stop[0] and stop[1] > start[1] + 1:  # over boxes in between: bow around them on the left
        y0, y1, bow = y0 + _HEIGHT // 2, y1 + _HEIGHT // 2, x0 - _BOW
        return f'<path d="M{x0} {y0}C{bow} {y0} {bow} {y1} {x1} {y1}"/>'
    x0, x1, y0 = x0 + _WIDTH // 2, x1 + _WIDTH // 2, y0 + _HEIGHT
    middle = (y0 + y1) // 2
    return f'<path d="M{x0} {y0}C{x0} {middle} {x1} {middle} {x1} {y1}"/>'


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
