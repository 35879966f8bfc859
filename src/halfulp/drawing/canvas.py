"""A scene laid out on a canvas: rectangles, lines and words, which SVG and PNG then draw.

Two rows of panels: weight, input and output above; the cotangents of input and output below. Windows that do not
overlap get a colour each, if there are colours enough; else one window is marked, and two lines lead from it to its
output. Lines run along the borders of cells and through the gap between panels, so that they cross no number.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from halfulp.drawing.scene import Position, Scene, View, fits, real, span
from halfulp.drawing.words import cropped, number, place, size, window_line
from halfulp.records import Array

__all__ = ["Canvas", "Line", "Rectangle", "Words", "lay_out"]

HEIGHT: Final = 38.0
GAP: Final = 64.0
MARGIN: Final = 24.0
ROOM: Final = (12, 12)
"""Rows and columns of a panel at most."""
COLOURS: Final = ("#2a78d6", "#d9582b", "#168a5f", "#8e59c9", "#a87c00", "#c2417c")
TINTS: Final = ("#dbe9fb", "#fbe3da", "#d6f0e5", "#ece0f8", "#f6ebc8", "#f9dde9")
STRONG: Final = ("#a9cdf5", "#f4b79f", "#9fdcc2", "#d2b5ee", "#ecd68a", "#f0abc8")
INK: Final = "#1b1b1a"
GREY: Final = "#5c5b57"


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
    """A straight line."""

    x1: float
    y1: float
    x2: float
    y2: float
    stroke: str


@dataclass(frozen=True)
class Words:
    """Text, centred on its place or starting there."""

    x: float
    y: float
    text: str
    size: float = 14.0
    colour: str = INK
    centred: bool = True
    bold: bool = False

    @property
    def width(self) -> float:
        """About how wide it is drawn."""
        return len(self.text) * self.size * (0.62 if self.bold else 0.58)


@dataclass
class Canvas:
    """Shapes in drawing order."""

    width: float
    height: float
    shapes: list[Rectangle | Line | Words] = field(default_factory=list)


@dataclass
class Panel:
    """A table of numbers: which part of an array is shown, and where."""

    title: str
    array: Array
    shown: tuple[range, ...]
    x: float = 0.0
    y: float = 0.0

    @property
    def heading(self) -> str:
        return f"{self.title} {size(self.array.shape)}{cropped(self.shown, self.array.shape)}"

    @property
    def rows(self) -> range:
        return self.shown[0] if len(self.shown) > 1 else range(1)

    @property
    def columns(self) -> range:
        return self.shown[-1] if self.shown else range(1)

    @cached_property
    def cell(self) -> float:
        """The width of a cell: that of the longest number."""
        longest = max((len(number(self.array[p])) for p in self.positions() if real(p, self.array.shape)), default=1)
        return max(HEIGHT, 10.0 + 8.6 * longest)

    @property
    def width(self) -> float:
        return max(len(self.columns) * self.cell, Words(0, 0, self.heading, 12).width)

    @property
    def right(self) -> float:
        """Where its cells end."""
        return self.x + len(self.columns) * self.cell

    @property
    def height(self) -> float:
        return len(self.rows) * HEIGHT

    def positions(self) -> list[Position]:
        rank = self.array.ndim
        return [(r, c)[2 - rank :] for r in self.rows for c in self.columns]

    def corner(self, position: Position) -> tuple[float, float]:
        """The upper left corner of a cell."""
        row, column = (0, 0, *position)[-2:]
        return self.x + (column - self.columns.start) * self.cell, self.y + (row - self.rows.start) * HEIGHT

    def box(self, cells: Iterable[Position]) -> tuple[float, float, float, float] | None:
        """(left, top, right, bottom) around the shown ones of some cells."""
        inside = [(0, 0, *c)[-2:] for c in cells]
        inside = [(r, c) for r, c in inside if r in self.rows and c in self.columns]
        if not inside:
            return None
        corners = [self.corner(cell) for cell in inside]
        left, top = min(x for x, _ in corners), min(y for _, y in corners)
        return left, top, max(x for x, _ in corners) + self.cell, max(y for _, y in corners) + HEIGHT


def lay_out(scene: Scene) -> Canvas:
    """Weight, input and output in a row, and below them the cotangents of input and output."""
    view = scene.view(scene.chosen)
    weight, forward, backward = _panels(scene, view)
    titles = textwrap.wrap(f"{scene.op.name}: {scene.op!r}", 72, subsequent_indent="    ")
    left = MARGIN
    top = MARGIN + 20.0 * len(titles) + 28
    if weight is not None:
        weight.x, weight.y = left, top
        left += weight.width + GAP / 2
    second = left + max(forward[0].width, backward[0].width) + GAP
    _arrange(forward, left, second, top)
    top += max(panel.height for panel in (*forward, *([weight] if weight else []))) + 48
    _arrange(backward, left, second, top)
    views = _coloured(scene, view)
    notes = _notes(scene, views, second + max(forward[1].width, backward[1].width))
    top += max(panel.height for panel in backward) + 26
    lines = [Words(MARGIN, MARGIN + 20 * i, text, 14, centred=False, bold=True) for i, text in enumerate(titles)]
    lines += [Words(MARGIN, top + 17 * i, text, 11, GREY, centred=False) for i, text in enumerate(notes)]
    panels = [*([weight] if weight else []), *forward, *backward]
    width = MARGIN + max([panel.x + panel.width for panel in panels] + [line.x + line.width for line in lines])
    canvas = Canvas(width, top + 17 * len(notes))
    canvas.shapes.append(Rectangle(0, 0, canvas.width, canvas.height, fill="#ffffff"))
    canvas.shapes += lines
    _fill(canvas, scene, panels, views)
    if len(views) == 1 and scene.output.size > 1:
        for panel, target in (forward, backward):
            _connect(canvas, panel, view.cells, target, view.output)
    return canvas


def _panels(scene: Scene, view: View) -> tuple[Panel | None, list[Panel], list[Panel]]:
    """The weight if there is one, input and output, and both cotangents."""
    rank = scene.output.ndim
    room = ROOM[2 - rank :]
    outputs = tuple(
        fits(0, n, limit, range(i, i + 1)) for n, limit, i in zip(scene.output.shape, room, view.output, strict=True)
    )
    shares = [span([c[axis] for c in view.shares]) for axis in range(scene.x.ndim)]
    backs = tuple(
        fits(0, n, limit, focus)
        for n, limit, focus in zip(scene.x.shape, ROOM[2 - scene.x.ndim :], shares, strict=True)
    )
    weight = None
    if scene.weight is not None:
        taps = tuple(fits(0, n, limit, range(1)) for n, limit in zip(scene.weight.shape, ROOM, strict=False))
        weight = Panel("weight", scene.weight, taps)
    forward = [Panel("input", scene.x, scene.part(ROOM)), Panel("output", scene.output, outputs)]
    backward = [Panel("cotangent of the input", scene.back, backs), Panel("of the output", scene.cotangent, outputs)]
    return weight, forward, backward


def _arrange(panels: list[Panel], left: float, second: float, top: float) -> None:
    """Two panels side by side, the smaller one in the middle of the other's height."""
    height = max(panel.height for panel in panels)
    for panel, x in zip(panels, (left, second), strict=True):
        panel.x, panel.y = x, top + (height - panel.height) / 2


def _coloured(scene: Scene, view: View) -> list[View]:
    """The windows that get a colour: all of them if they are few and apart, else the chosen one."""
    if scene.disjoint and scene.output.size <= len(COLOURS):
        return [scene.view(position) for position in scene.positions]
    return [view]


def _notes(scene: Scene, views: list[View], width: float) -> list[str]:
    """What the signs mean, and the marked window in words."""
    parts = ["a window and its output have one colour" if len(views) > 1 else f"marked: output {place(scene.chosen)}"]
    if scene.selects:
        parts.append("darker: gets the cotangent")
    if any(view.tied for view in views):
        parts.append("dashed: equal values")
    if any(scene.before) or any(scene.after):
        parts.append("·: outside of the input")
    if "~" in "".join(number(v) for array in (scene.output, scene.back) for v in array.flat[:200]):
        parts.append("~: rounded")
    columns = max(40, int(width / (11 * 0.58)))
    lines = textwrap.wrap("; ".join(parts), columns)
    if len(views) == 1:
        lines += textwrap.wrap(window_line(scene, views[0]), columns)
    return lines


def _fill(canvas: Canvas, scene: Scene, panels: list[Panel], views: list[View]) -> None:
    """Every cell with its number and its colour."""
    fills: dict[str, dict[Position, str]] = {panel.title: {} for panel in panels}
    order = {view.output: i for i, view in enumerate(views)}
    for view in views:
        tint, strong = TINTS[order[view.output]], STRONG[order[view.output]]
        fills["input"] |= dict.fromkeys(view.cells, tint)
        if scene.selects:
            fills["input"] |= dict.fromkeys(view.shares, strong)
        fills["cotangent of the input"] |= dict.fromkeys(view.shares, tint)
        fills["output"][view.output] = fills["of the output"][view.output] = tint
    tied = {cell for view in views for cell in view.tied}
    for panel in panels:
        canvas.shapes.append(Words(panel.x, panel.y - 14, panel.heading, 12, GREY, centred=False))
        for position in panel.positions():
            inside = real(position, panel.array.shape)
            fill = fills[panel.title].get(position, "#ffffff" if inside else "#f1f0ec")
            _cell(canvas, panel, position, fill, panel.title == "input" and position in tied)
    for view in views:
        _outline(canvas, panels, view, COLOURS[order[view.output]])


def _cell(canvas: Canvas, panel: Panel, position: Position, fill: str, tied: bool) -> None:
    x, y = panel.corner(position)
    inside = real(position, panel.array.shape)
    canvas.shapes.append(Rectangle(x, y, panel.cell, HEIGHT, fill, "#b9b8b2" if inside else "#dddcd6"))
    text = number(panel.array[position]) if inside else "·"
    if tied:
        canvas.shapes.append(Rectangle(x + 5, y + 5, panel.cell - 10, HEIGHT - 10, "none", INK, 1.2, True))
    canvas.shapes.append(Words(x + panel.cell / 2, y + HEIGHT / 2, text, 14, INK if inside else "#8a8982"))


def _outline(canvas: Canvas, panels: list[Panel], view: View, colour: str) -> None:
    """A frame around a window and around its output."""
    around = {"input": view.cells, "cotangent of the input": view.cells}
    around |= {"output": (view.output,), "of the output": (view.output,)}
    for panel in panels:
        box = panel.box(around.get(panel.title, ()))
        if box is not None:
            left, top, right, bottom = box
            canvas.shapes.append(Rectangle(left, top, right - left, bottom - top, "none", colour, 2.0))


def _connect(canvas: Canvas, panel: Panel, cells: Iterable[Position], target: Panel, output: Position) -> None:
    """Two lines from the right corners of some cells to the left corners of an output, along the borders of cells."""
    source, end = panel.box(cells), target.box([output])
    if source is None or end is None:
        return
    start, stop = panel.right, target.x
    for here, there in ((source[1], end[1]), (source[3], end[3])):
        for x1, y1, x2, y2 in (
            (source[2], here, start, here),
            (start, here, stop, there),
            (stop, there, end[0], there),
        ):
            if (x1, y1) != (x2, y2):
                canvas.shapes.append(Line(x1, y1, x2, y2, COLOURS[0]))
