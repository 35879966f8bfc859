"""Numbers, positions and windows in words, the same for the terminal and the pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from halfulp.drawing.scene import Position, Scene, View, real
from halfulp.numbers import Extended

__all__ = ["cropped", "number", "place", "size", "window_line"]

_LONGEST: Final = 7
_CELLS: Final = 12
_SHARES: Final = 4


def number(value: Any) -> str:
    """A number in at most eight characters: exact if it fits, else three digits after a ``~``.

    >>> number(3.0), number(0.1), number(2 / 3), number(float("nan")), number(-0.0)
    ('3', '0.1', '~0.667', 'nan', '-0')
    >>> from halfulp.numbers import flint
    >>> number(Extended(flint.fmpq(8, 9))), number(Extended(flint.fmpq(1234567, 1000)))
    ('8/9', '~1.23e3')
    """
    if isinstance(value, Extended):
        text = str(value.value) if value.is_finite and value.special != 0 else number(value.special)
        if len(text) <= _LONGEST or not value.is_finite:
            return text
        value = int(value.value.p) / int(value.value.q)
    value = float(value)
    if not np.isfinite(value):
        return str(value)
    plain = str(round(value)) if value == round(value) and value else f"{value:g}"
    if float(plain) == value and len(plain) <= _LONGEST:
        return plain
    return "~" + f"{value:.3g}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")


def place(position: Position) -> str:
    """A position in an array."""
    return "(" + ", ".join(map(str, position)) + ")"


def size(shape: Sequence[int]) -> str:
    """A shape as users of images write it."""
    return "x".join(map(str, shape)) or "1"


def cropped(shown: Sequence[range], shape: Sequence[int]) -> str:
    """The end of a title that says which part of an array is shown; nothing if it is all of it.

    >>> cropped([range(-1, 9), range(0, 5)], (30, 5)), cropped([range(4)], (4,))
    (': cropped to rows 0-8', '')
    """
    names = ("rows", "columns")[2 - len(shape) :]
    parts = [
        f"{name} {max(0, part.start)}-{min(n, part.stop) - 1}"
        for name, part, n in zip(names, shown, shape, strict=True)
        if part.start > 0 or part.stop < n
    ]
    return ": cropped to " + ", ".join(parts) if parts else ""


def window_line(scene: Scene, view: View) -> str:
    """What a window holds, what comes of it, and where its cotangent goes.

    >>> from halfulp import AvgPool
    >>> from halfulp.drawing.scene import make_scene
    >>> scene = make_scene(AvgPool((3,), padding=1, stride=1), np.array([1.0, 3.0]))
    >>> window_line(scene, scene.view((0,)))
    '(0): 1, 3 and 1 outside → 4/3; cotangent 1/3 to (0), 1/3 to (1)'
    """
    cells = [c for c in view.cells if real(c, scene.x.shape)]
    outside = len(view.cells) - len(cells)
    padded = f" and {outside} outside" if outside else ""
    tie = f"; {len(view.tied)} cells tie" if view.tied else ""
    terms = _terms(scene, view, cells)
    return f"{place(view.output)}: {terms}{padded} → {number(view.value)}; cotangent {_flow(view)}{tie}"


def _terms(scene: Scene, view: View, cells: list[Position]) -> str:
    """The cells of a window, or its sum of weights times cells."""
    more = f", {len(cells) - _CELLS} more" if len(cells) > _CELLS else ""
    values = [number(scene.x[c]) for c in cells[:_CELLS]]
    if scene.weight is None or not values:
        return (", ".join(values) or "no real cell") + more
    taps = [number(view.shares.get(c, 0.0)) for c in cells[:_CELLS]]
    products = [
        (" - " if tap[0] == "-" else " + ") + tap.removeprefix("-") + "*" + (f"({value})" if value[0] == "-" else value)
        for tap, value in zip(taps, values, strict=True)
    ]
    first = products[0].removeprefix(" + ").replace(" - ", "-", 1)
    return first + "".join(products[1:]) + more


def _flow(view: View) -> str:
    if not view.shares:
        return "nowhere"
    shares = {cell: number(share) for cell, share in view.shares.items()}
    if len(shares) > _SHARES and len(set(shares.values())) == 1:
        return f"{next(iter(shares.values()))} to each of {len(shares)} cells"
    listed = [f"{share} to {place(cell)}" for cell, share in list(shares.items())[:_SHARES]]
    if len(shares) > _SHARES:
        listed.append(f"{len(shares) - _SHARES} more")
    return ", ".join(listed)
