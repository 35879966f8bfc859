"""Bounds per class, as an SVG picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

__all__ = ["bounds_svg"]

_WIDTH, _ROW, _TOP, _BOTTOM, _SIDE = 720.0, 28.0, 24.0, 46.0, 28.0
_PLAIN, _CHOSEN, _INK, _GRID = "#7a8ca3", "#1a6fb5", "#222222", "#dddddd"


def _step(span: float) -> float:
    """A distance between ticks, of 1, 2 or 5 times a power of ten, so that there are four to ten."""
    raw = span / 6
    power = 10.0 ** math.floor(math.log10(raw))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw)


def _number(value: float) -> str:
    return f"{0.0 if value == 0 else value:.6g}".replace("-", "\N{MINUS SIGN}")


def _checked(lower: Any, upper: Any, names: Sequence[str] | None) -> tuple[NDArray[np.float64], ...]:
    low, high = (np.asarray(side, dtype=np.float64).reshape(-1) for side in (lower, upper))
    if low.size != high.size or low.size == 0:
        raise ValueError(
            f"bounds_svg: {low.size} lower and {high.size} upper bounds: must be equally many, at least one"
        )
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low <= high).all()):
        raise ValueError("bounds_svg: bounds must be finite, no lower one above its upper one")
    if names is not None and len(names) != low.size:
        raise ValueError(f"bounds_svg: {len(names)} names for {low.size} bounds")
    return low, high


def _chosen(low: NDArray[np.float64], high: NDArray[np.float64]) -> int:
    """The class with the largest lower bound, the higher upper bound among equals."""
    return max(range(low.size), key=lambda index: (low[index], high[index], -index))


class _Axis:
    """From values to positions."""

    def __init__(self, low: float, high: float, left: float) -> None:
        scale = max(abs(low), abs(high))
        if high - low <= max(scale * 1e-12, 1e-290):
            half = scale * 0.5 if scale > 1e-280 else 1.0
            low, high = low - half, high + half
        step = _step(high / 2 - low / 2) * 2 if high - low == math.inf else _step(high - low)
        self.first, self.last = math.floor(low / step), math.ceil(high / step)
        self.step, self.left = step, left
        self.scale = (_WIDTH - _SIDE - left) / (self.last - self.first)

    def __call__(self, value: float) -> float:
        return self.left + (value / self.step - self.first) * self.scale

    def ticks(self) -> list[float]:
        return [number * self.step for number in range(self.first, self.last + 1)]


def bounds_svg(lower: Any, upper: Any, names: Sequence[str] | None = None, title: str | None = None) -> str:
    """A picture of an interval per output: an axis, a zero line, and the class that stands out.

    The highlighted class has the largest lower bound. A dashed line at that bound shows which other classes reach it:
    where none does, the class is certain.

    >>> picture = bounds_svg([1.5, -1.0, 0.0], [2.0, 0.5, 1.0], names=["cat", "dog", "owl"])
    >>> picture.startswith("<svg"), picture.count("<rect class='interval'")
    (True, 3)
    """
    low, high = _checked(lower, upper, names)
    labels = [str(index) for index in range(low.size)] if names is None else [str(name) for name in names]
    shown = [label if len(label) <= 24 else label[:23] + "…" for label in labels]
    top = _TOP + (24.0 if title else 0.0)
    height = top + _ROW * low.size + _BOTTOM
    axis = _Axis(min(float(low.min()), 0.0), max(float(high.max()), 0.0), 24.0 + 7.4 * max(map(len, shown)))
    chosen = _chosen(low, high)
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH:.0f} {height:.0f}' width='{_WIDTH:.0f}' "
        f"height='{height:.0f}' font-family='system-ui, sans-serif' font-size='13' role='img'>",
        f"<title>{escape(title or 'Bounds per output')}</title>",
        f"<rect width='{_WIDTH:.0f}' height='{height:.0f}' fill='white'/>",
    ]
    if title:
        parts.append(f"<text x='16' y='26' font-size='15' font-weight='600' fill='{_INK}'>{escape(title)}</text>")
    parts += _frame(axis, top, height - _BOTTOM)
    parts += [_row(axis, top + _ROW * i, shown[i], float(low[i]), float(high[i]), i == chosen) for i in range(low.size)]
    if low.size > 1:
        x = axis(float(low[chosen]))
        parts.append(
            f"<line x1='{x:.2f}' x2='{x:.2f}' y1='{top:.2f}' y2='{height - _BOTTOM:.2f}' stroke='{_CHOSEN}' "
            "stroke-dasharray='4 3'/>"
        )
    return "\n".join([*parts, "</svg>", ""])


def _frame(axis: _Axis, top: float, bottom: float) -> list[str]:
    """Grid lines with numbers; the zero line is darker."""
    parts = []
    for tick in axis.ticks():
        x, ink = axis(tick), _INK if tick == 0 else _GRID
        parts.append(f"<line x1='{x:.2f}' x2='{x:.2f}' y1='{top:.2f}' y2='{bottom:.2f}' stroke='{ink}'/>")
        parts.append(
            f"<text x='{x:.2f}' y='{bottom + 18:.2f}' text-anchor='middle' fill='{_INK}'>{_number(tick)}</text>"
        )
    return parts


def _row(axis: _Axis, y: float, label: str, low: float, high: float, chosen: bool) -> str:
    left, right = axis(low), axis(high)
    color, weight = (_CHOSEN, "600") if chosen else (_PLAIN, "400")
    start, width = (left, right - left) if right - left >= 2 else ((left + right) / 2 - 1, 2.0)
    hint = escape(f"{label}: {low!r} to {high!r}")
    return (
        f"<text x='{axis.left - 12:.2f}' y='{y + 18:.2f}' text-anchor='end' font-weight='{weight}' fill='{_INK}'>"
        f"{escape(label)}</text>"
        f"<rect class='interval' x='{start:.2f}' y='{y + 7:.2f}' width='{width:.2f}' height='14' rx='2' fill='{color}'>"
        f"<title>{hint}</title></rect>"
    )
