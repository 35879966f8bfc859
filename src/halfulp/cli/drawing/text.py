"""A scene as text for the terminal."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from halfulp.cli.drawing.scene import Scene, View
from halfulp.records import Array

__all__ = ["number", "to_text"]


def number(value: Any) -> str:
    """A number in few characters.

    >>> number(3.0), number(0.3333333), number(float("nan"))
    ('3', '0.333', 'nan')
    """
    value = float(value)
    if np.isfinite(value) and value == round(value) and abs(value) < 1e6:
        return str(round(value)) if value or not np.signbit(value) else "-0"
    return f"{value:.3g}"


def _table(rows: list[list[str]]) -> list[str]:
    width = max((len(item) for row in rows for item in row), default=1)
    return ["  " + " ".join(item.rjust(width) for item in row) for row in rows]


def _grid(array: Array) -> list[list[str]]:
    plane = np.atleast_2d(array)
    return [[number(value) for value in row] for row in plane]


def _input_rows(scene: Scene) -> list[list[str]]:
    """The input with its padding: · outside, * gets cotangent, = a tied maximum that does not."""
    tied, flowing = scene.tied(), scene.flowing()
    marked = hasattr(scene.op, "ties")
    ranges = [
        range(-before, n + after) for before, n, after in zip(scene.before, scene.x.shape, scene.after, strict=True)
    ]
    rows: list[list[str]] = []
    for position in product(*ranges):
        if not rows or (len(ranges) > 1 and position[-1] == ranges[-1].start):
            rows.append([])
        real = all(0 <= i < n for i, n in zip(position, scene.x.shape, strict=True))
        mark = ("*" if position in flowing else "=" if position in tied else " ") if marked else ""
        rows[-1].append(number(scene.x[position]) + mark if real else "·" + " " * len(mark))
    return rows


def _window_line(scene: Scene, view: View) -> str:
    cells = [c for c in view.cells if all(0 <= i < n for i, n in zip(c, scene.x.shape, strict=True))]
    outside = len(view.cells) - len(cells)
    shown = " ".join(number(scene.x[c]) for c in cells) or "no real cell"
    padded = f" and {outside} outside" if outside else ""
    flow = ", ".join(f"{number(share)} to {_place(cell)}" for cell, share in view.shares.items()) or "nowhere"
    return f"  {_place(view.output)}: {shown}{padded} → {number(view.value)}; cotangent {flow}"


def _place(position: tuple[int, ...]) -> str:
    return "(" + ", ".join(map(str, position)) + ")"


def to_text(scene: Scene, windows: int = 12) -> str:
    """The whole picture.

    >>> from halfulp import MaxPool
    >>> from halfulp.cli.drawing.scene import make_scene
    >>> print(to_text(make_scene(MaxPool((2,), stride=1), np.array([1.0, 3.0, 3.0]))))
    max_pool1d: MaxPool((2,), stride=1)
    input (* wins a cotangent, = equal but loses, · outside)
      1  3* 3=
    output
      3 3
    cotangent of the input, for a cotangent of ones
      0 2 0
    windows
      (0): 1 3 → 3; cotangent 1 to (1)
      (1): 3 3 → 3; cotangent 1 to (1); 2 cells tie
    """
    legend = "* wins a cotangent, = equal but loses, · outside" if hasattr(scene.op, "ties") else "· outside"
    ones = "for a cotangent of ones" if (scene.cotangent == 1).all() else "for the cotangent given"
    lines = [f"{scene.op.name}: {scene.op!r}", f"input ({legend})", *_table(_input_rows(scene))]
    lines += ["output", *_table(_grid(scene.output))]
    lines += [f"cotangent of the input, {ones}", *_table(_grid(scene.back)), "windows"]
    for view in scene.views[:windows]:
        tie = f"; {len(view.tied)} cells tie" if view.tied else ""
        lines.append(_window_line(scene, view) + tie)
    if len(scene.views) > windows:
        lines.append(f"  … {len(scene.views) - windows} more (--windows {len(scene.views)} shows them)")
    return "\n".join(lines)
