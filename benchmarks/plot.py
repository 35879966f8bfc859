"""The measurements as a picture: one group of bars per row, on a logarithmic scale, as SVG text."""

from __future__ import annotations

import math
from html import escape

COLOURS = {
    "halfulp": "#0b6e4f",
    "copy": "#9aa0a6",
    "PyTorch": "#d1495b",
    "PyTorch channels_last": "#e59866",
    "torch.compile": "#edae49",
    "ONNX Runtime": "#3d7ea6",
    "OpenVINO": "#7d5ba6",
    "JAX": "#5aa9a3",
}
BAR, GAP, LEFT, WIDTH = 11, 12, 230, 620


def bar_chart(results: list[tuple[str, dict[str, float]]], threads: int) -> str:
    """Milliseconds, shorter is faster."""
    results = [(name, {who: t for who, t in row.items() if who in COLOURS}) for name, row in results]
    times = [value * 1e3 for _, row in results for value in row.values()]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    scale = WIDTH / max(1, high - low)
    body: list[str] = []
    y = 70
    for name, row in results:
        top = y
        for contender, seconds in row.items():
            length = (math.log10(seconds * 1e3) - low) * scale
            body.append(
                f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR - 2}" fill="{COLOURS[contender]}">'
                f"<title>{escape(contender)}: {seconds * 1e3:.3f} ms</title></rect>"
            )
            y += BAR
        body.append(f'<text x="{LEFT - 8}" y="{(top + y) / 2 + 4}" text-anchor="end">{escape(name)}</text>')
        y += GAP
    grid = [
        f'<line x1="{LEFT + (e - low) * scale}" x2="{LEFT + (e - low) * scale}" y1="60" y2="{y}" stroke="#ddd"/>'
        f'<text x="{LEFT + (e - low) * scale}" y="54" text-anchor="middle">{10.0**e:g} ms</text>'
        for e in range(low, high + 1)
    ]
    legend, x = [], 10
    for contender, colour in COLOURS.items():
        legend.append(f'<rect x="{x}" y="22" width="10" height="10" fill="{colour}"/>')
        legend.append(f'<text x="{x + 14}" y="31">{escape(contender)}</text>')
        x += 26 + 7 * len(contender)
    size = f'width="{LEFT + WIDTH + 40}" height="{y + 10}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">'
    title = (
        f'<text x="10" y="14" font-size="13">Pooling with {threads} threads: time per call, shorter is faster</text>'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', title, *legend, *grid, *body, "</svg>"])
