"""A canvas as SVG, without anything but the standard library."""

from __future__ import annotations

from html import escape

from halfulp.drawing.canvas import Canvas, Line, Rectangle, Words

__all__ = ["to_svg"]


def to_svg(canvas: Canvas, title: str) -> str:
    """The picture as one SVG document."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {canvas.width:g} {canvas.height:g}" '
        f'width="{canvas.width:g}" height="{canvas.height:g}" role="img" font-family="system-ui, sans-serif">'
    )
    return "\n".join([head, f"<title>{escape(title)}</title>", *map(_shape, canvas.shapes), "</svg>", ""])


def _shape(shape: Rectangle | Line | Words) -> str:
    if isinstance(shape, Rectangle):
        dashes = ' stroke-dasharray="3 2"' if shape.dashed else ""
        return (
            f'<rect x="{shape.x:g}" y="{shape.y:g}" width="{shape.width:g}" height="{shape.height:g}" rx="3" '
            f'fill="{shape.fill}" stroke="{shape.stroke}" stroke-width="{shape.thickness:g}"{dashes}/>'
        )
    if isinstance(shape, Line):
        return (
            f'<line x1="{shape.x1:g}" y1="{shape.y1:g}" x2="{shape.x2:g}" y2="{shape.y2:g}" '
            f'stroke="{shape.stroke}" stroke-width="1.3"/>'
        )
    anchor = "middle" if shape.centred else "start"
    weight = ' font-weight="600"' if shape.bold else ""
    return (
        f'<text x="{shape.x:g}" y="{shape.y + shape.size * 0.35:g}" font-size="{shape.size:g}" '
        f'text-anchor="{anchor}" fill="{shape.colour}"{weight}>{escape(shape.text)}</text>'
    )
