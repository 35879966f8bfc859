"""A scene laid out on a canvas: rectangles, lines and words, which SVG and PNG then draw."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Final

import numpy as np

from halfulp.cli.drawing.scene import Scene, View
from halfulp.cli.drawing.text import number

__all__ = ["Canvas", "Line", "Rectangle", "Words", "lay_out"]

CELL: Final = 46.0
GAP: Final = 90.0
MARGIN: Final = 24.0
COLOURS: Final = ("#2a78d6", "#d9582b", "#168a5f", "#8e59c9", "#a87c00", "#c2417c")


@dataclass(frozen=True)
class Rectangle:
    """A box."""

    x: float
    y: float
    width: float
    height: float
    fill: str = "none"
    stroke: str = "none"
    thickness: float = 1.0
    dashed: bool = False


@dataclass(frozen=True)
class Line:
    """A line, with an arrowhead if it flows somewhere."""

    x1: float
    y1: float
    x2: float
    y2: float
    stroke: str
    arrow: bool = False


@dataclass(frozen=True)
class Words:
    """Text, centred on its place or starting there."""

    x: float
    y: float
    text: str
    size: float = 14.0
    colour: str = "#1b1b1a"
    centred: bool = True
    bold: bool = False


@dataclass
class Canvas:
    """Shapes in drawing order."""

    width: float
    height: float
    shapes: list[Rectangle | Line | Words] = field(default_factory=list)


def _padded(shape: tuple[int, ...]) -> tuple[int, int]:
    return (1, shape[0]) if len(shape) == 1 else (shape[0], shape[1]) if shape else (1, 1)


def lay_out(scene: Scene) -> Canvas:
    """Input with padding and windows on the left, output on the right, arrows where cotangents flow."""
    rows, columns = _padded(scene.x.shape)
    top, left = (0, *scene.before)[-2:]
    bottom, right = (0, *scene.after)[-2:]
    out_rows, out_columns = _padded(scene.output.shape)
    in_width, in_height = (left + columns + right) * CELL, (top + rows + bottom) * CELL
    out_x = MARGIN + in_width + GAP
    height = MARGIN * 2 + 44 + max(in_height, out_rows * CELL) + 34
    canvas = Canvas(max(out_x + out_columns * CELL + MARGIN, 430.0), height)
    origin = (MARGIN + left * CELL, MARGIN + 44 + top * CELL)
    _titles(canvas, scene, out_x)
    _cells(canvas, scene, origin)
    out_y = MARGIN + 44 + max(0.0, (in_height - out_rows * CELL) / 2)
    for order, view in enumerate(scene.views):
        colour = COLOURS[order % len(COLOURS)]
        _window(canvas, view, origin, colour, inset=2 + 2.5 * (order % 4))
        _output(canvas, view, (out_x, out_y), colour)
    for order, view in enumerate(scene.views):
        _flow(canvas, view, origin, (out_x, out_y), COLOURS[order % len(COLOURS)])
    legend = "small numbers: cotangent of the input"
    if hasattr(scene.op, "ties"):
        legend += "; dashed: equal maxima"
    canvas.shapes.append(Words(MARGIN, height - 16, legend, 11, "#5c5b57", centred=False))
    return canvas


def _titles(canvas: Canvas, scene: Scene, out_x: float) -> None:
    canvas.shapes.append(Rectangle(0, 0, canvas.width, canvas.height, fill="#ffffff"))
    canvas.shapes.append(Words(MARGIN, MARGIN, repr(scene.op), 14, centred=False, bold=True))
    canvas.shapes.append(Words(MARGIN, MARGIN + 26, "input", 12, "#5c5b57", centred=False))
    canvas.shapes.append(Words(out_x, MARGIN + 26, "output", 12, "#5c5b57", centred=False))


def _corner(position: tuple[int, ...], origin: tuple[float, float]) -> tuple[float, float]:
    row, column = (0, *position)[-2:] if position else (0, 0)
    return origin[0] + column * CELL, origin[1] + row * CELL


def _cells(canvas: Canvas, scene: Scene, origin: tuple[float, float]) -> None:
    """Every cell with its number, what it gets back, and whether it wins or ties."""
    flowing, tied = scene.flowing(), scene.tied()
    marked = hasattr(scene.op, "ties")
    ranges = [range(-b, n + a) for b, n, a in zip(scene.before, scene.x.shape, scene.after, strict=True)]
    for position in product(*ranges):
        x, y = _corner(position, origin)
        if not all(0 <= i < n for i, n in zip(position, scene.x.shape, strict=True)):
            canvas.shapes.append(Rectangle(x, y, CELL, CELL, "#f1f0ec", "#dddcd6"))
            canvas.shapes.append(Words(x + CELL / 2, y + CELL / 2, "·", 14, "#8a8982"))
            continue
        fill = "#fff1c9" if marked and position in flowing else "#ffffff"
        canvas.shapes.append(Rectangle(x, y, CELL, CELL, fill, "#b9b8b2"))
        if position in tied:
            canvas.shapes.append(Rectangle(x + 9, y + 7, CELL - 18, CELL - 22, "none", "#1b1b1a", 1.2, True))
        canvas.shapes.append(Words(x + CELL / 2, y + CELL / 2 - 4, number(scene.x[position]), 14))
        back = number(np.asarray(scene.back)[position])
        canvas.shapes.append(Words(x + CELL / 2, y + CELL - 9, back, 9, "#5c5b57"))


def _window(canvas: Canvas, view: View, origin: tuple[float, float], colour: str, inset: float) -> None:
    if not view.cells:
        return
    corners = [_corner(cell, origin) for cell in view.cells]
    x, y = min(c[0] for c in corners) + inset, min(c[1] for c in corners) + inset
    far_x, far_y = max(c[0] for c in corners) + CELL - inset, max(c[1] for c in corners) + CELL - inset
    canvas.shapes.append(Rectangle(x, y, far_x - x, far_y - y, "none", colour, 1.6))


def _output(canvas: Canvas, view: View, origin: tuple[float, float], colour: str) -> None:
    x, y = _corner(view.output, origin)
    canvas.shapes.append(Rectangle(x + 1, y + 1, CELL - 2, CELL - 2, "#ffffff", colour, 1.6))
    canvas.shapes.append(Words(x + CELL / 2, y + CELL / 2, number(view.value), 14))


def _flow(
    canvas: Canvas, view: View, origin: tuple[float, float], out_origin: tuple[float, float], colour: str
) -> None:
    """Arrows from an output to the cells that get its cotangent, at most nine of them."""
    x, y = _corner(view.output, out_origin)
    for cell in sorted(view.shares, key=lambda c: -abs(view.shares[c]))[:9]:
        to_x, to_y = _corner(cell, origin)
        canvas.shapes.append(Line(x + 2, y + CELL / 2, to_x + CELL - 6, to_y + CELL / 2, colour, arrow=True))
