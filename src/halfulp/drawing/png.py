"""A canvas as PNG, drawn by matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from halfulp.drawing.canvas import Canvas, Line, Rectangle, Words

__all__ = ["write_png"]

_DOTS = 96.0


def write_png(canvas: Canvas, path: Path, scale: float = 2.0) -> None:
    """Write the picture to a file; an ImportError says what to install."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("a PNG needs matplotlib (pip install matplotlib); SVG and text need nothing") from error
    figure = Figure(figsize=(canvas.width / _DOTS, canvas.height / _DOTS), dpi=_DOTS * scale)
    axes: Any = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, canvas.width)
    axes.set_ylim(canvas.height, 0)
    axes.axis("off")
    for order, shape in enumerate(canvas.shapes):
        _draw(axes, shape, order)
    canvas_of: Any = FigureCanvasAgg  # without type annotations of its own
    canvas_of(figure).print_png(str(path))


def _draw(axes: Any, shape: Rectangle | Line | Words, order: int) -> None:
    from matplotlib.patches import Rectangle as Patch

    points = 72 / _DOTS
    if isinstance(shape, Rectangle):
        patch = Patch((shape.x, shape.y), shape.width, shape.height, zorder=order)
        patch.set_facecolor(shape.fill)
        patch.set_edgecolor(shape.stroke)
        patch.set_linewidth(shape.thickness * points)
        patch.set_linestyle("--" if shape.dashed else "-")
        axes.add_patch(patch)
    elif isinstance(shape, Line):
        axes.plot([shape.x1, shape.x2], [shape.y1, shape.y2], color=shape.stroke, linewidth=1.3 * points, zorder=order)
    else:
        axes.text(
            shape.x,
            shape.y,
            shape.text,
            fontsize=shape.size * points,
            color=shape.colour,
            ha="center" if shape.centred else "left",
            va="center",
            weight="bold" if shape.bold else "normal",
            zorder=order,
            parse_math=False,
        )
