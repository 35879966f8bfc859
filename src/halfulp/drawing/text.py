"""A scene as text for the terminal, at most 80 columns wide."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from halfulp.drawing.scene import Position, Scene, View, fits, real, span
from halfulp.drawing.words import cropped, number, place, size, window_line
from halfulp.records import Array

__all__ = ["to_text"]

WIDTH: Final = 80
_ROWS: Final = 12
_GAP: Final = "    "


@dataclass(frozen=True)
class _Block:
    """A titled table of numbers."""

    title: str
    rows: list[str]

    @property
    def width(self) -> int:
        return max(len(line) for line in (self.title, *self.rows))


def _block(
    title: str,
    array: Array,
    before: Sequence[int],
    after: Sequence[int],
    window: set[Position],
    mark: Callable[[Position], str],
) -> _Block:
    """The cells of an array and what lies around them; brackets around a window, and the title says what is cut off."""
    extra = 2 - array.ndim
    low = [0] * extra + [-b for b in before]
    high = [1] * extra + [n + a for n, a in zip(array.shape, after, strict=True)]
    focus = [span([c[axis - extra] for c in window]) if axis >= extra else range(1) for axis in (0, 1)]
    rows = fits(low[0], high[0], _ROWS, focus[0])
    columns = fits(low[1], high[1], WIDTH, focus[1])
    while True:  # few columns of wide numbers, many columns of narrow ones
        cells = [[_cell(array, (r, c)[extra:], mark) for c in columns] for r in rows]
        width = max((len(cell) for row in cells for cell in row), default=1)
        room = (WIDTH - 2) // (width + 2)
        if len(columns) <= room:
            break
        columns = fits(low[1], high[1], room, focus[1])
    lines = [
        _bracketed([cell.rjust(width) for cell in row], [(r, c)[extra:] in window for c in columns])
        for r, row in zip(rows, cells, strict=True)
    ]
    return _Block(f"{title} {size(array.shape)}{cropped([rows, columns][extra:], array.shape)}", lines)


def _cell(array: Array, position: Position, mark: Callable[[Position], str]) -> str:
    return number(array[position]) + mark(position) if real(position, array.shape) else "·" + mark(())


def _bracketed(cells: list[str], inside: list[bool]) -> str:
    """Cells side by side; every run of cells of the window stands in brackets."""
    line = ""
    for cell, previous, now in zip(cells, [False, *inside], inside, strict=False):
        line += (("] " if previous else " [") if now != previous else "  ") + cell
    return line + ("]" if inside and inside[-1] else "")


def _side_by_side(blocks: list[_Block]) -> list[str]:
    """As many tables next to each other as fit."""
    lines: list[str] = []
    while blocks:
        count, width = 1, blocks[0].width
        while count < len(blocks) and width + len(_GAP) + blocks[count].width <= WIDTH:
            width += len(_GAP) + blocks[count].width
            count += 1
        group, blocks = blocks[:count], blocks[count:]
        for index in range(1 + max(len(block.rows) for block in group)):
            parts = [([block.title, *block.rows] + [""] * _ROWS)[index].ljust(block.width) for block in group]
            lines.append(_GAP.join(parts).rstrip())
    return lines


def _blocks(scene: Scene, view: View) -> list[_Block]:
    shares = set(view.shares)
    flowing, selects = scene.flowing(), scene.selects
    tied = scene.tied(scene.part((_ROWS, WIDTH // 3)))
    none = [0] * 2

    def marked(position: Position) -> str:
        if not selects:
            return ""
        return "*" if position in flowing else "=" if position in tied else " "

    def unmarked(position: Position) -> str:
        return ""

    blocks = [_block("input", scene.x, scene.before, scene.after, set(view.cells), marked)]
    if scene.weight is not None:
        blocks.append(
            _block("weight", scene.weight, none[: scene.weight.ndim], none[: scene.weight.ndim], set(), unmarked)
        )
    rank = scene.output.ndim
    blocks.append(_block("output", scene.output, none[:rank], none[:rank], {scene.chosen}, unmarked))
    blocks.append(
        _block("cotangent of the input", scene.back, none[: scene.x.ndim], none[: scene.x.ndim], shares, unmarked)
    )
    return blocks


def _legend(scene: Scene, blocks: list[_Block]) -> str:
    """Only the signs that are there."""
    text = "".join(row for block in blocks for row in block.rows)
    signs = {"*": "* gets a cotangent", "=": "= equal, gets none", "·": "· outside", "~": "~ rounded"}
    parts = [
        f"[ ] window of output {place(scene.chosen)}",
        *(meaning for sign, meaning in signs.items() if sign in text),
    ]
    if scene.cotangent.size and not all(value == 1 for value in scene.cotangent.flat):
        parts.append("for the cotangent given")
    return "; ".join(parts)


def _wrapped(line: str) -> str:
    """A line of at most 80 columns, also where → is printed as ->; positions such as (0, 1) stay whole."""
    whole = re.sub(r"\((\d+), (\d+)\)", "(\\1,\u00a0\\2)", line)
    filled = textwrap.fill(whole, WIDTH - 1, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
    return filled.replace("\u00a0", " ")


def to_text(scene: Scene, windows: int = 12) -> str:
    """The whole picture.

    >>> import numpy as np
    >>> from halfulp import MaxPool
    >>> from halfulp.drawing.scene import make_scene
    >>> print(to_text(make_scene(MaxPool((2,), stride=1), np.array([1.0, 3.0, 3.0]))))
    max_pool1d: MaxPool((2,), stride=1)
    input 3          output 2    cotangent of the input 3
      1  [3*  3=]      3 [3]       0 [2] 0
    [ ] window of output (1); * gets a cotangent; = equal, gets none
    windows
      (0): 1, 3 → 3; cotangent 1 to (1)
      (1): 3, 3 → 3; cotangent 1 to (1); 2 cells tie
    """
    view = scene.view(scene.chosen)
    blocks = _blocks(scene, view)
    lines = textwrap.wrap(f"{scene.op.name}: {scene.op!r}", WIDTH, subsequent_indent="  ")
    lines += [*_side_by_side(blocks), *textwrap.wrap(_legend(scene, blocks), WIDTH)]
    positions = scene.positions
    if windows:
        lines.append("windows")
        lines += [_wrapped(window_line(scene, scene.view(position))) for position in positions[:windows]]
        if len(positions) > windows:
            lines.append(f"  … {len(positions) - windows} more (--windows {len(positions)} shows them)")
    return "\n".join(lines)
