"""The measurements as pictures, as SVG text that follows the reader's light or dark mode."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape

Results = list[tuple[str, dict[str, float]]]
"""(row, {contender: seconds})."""

COLOURS = {
    "halfulp": "#12925f",
    "copy": "#8a9199",
    "PyTorch": "#d1495b",
    "PyTorch channels_last": "#e08e4f",
    "torch.compile": "#d9a520",
    "ONNX Runtime": "#3d86bd",
    "OpenVINO": "#8d68bd",
    "JAX": "#4aa8a0",
}
STYLE = (
    "<style>text{font:12px system-ui,sans-serif;fill:#24292f}.title{font-size:15px;font-weight:600}"
    ".quiet{fill:#5b6570}.paper{fill:#ffffff}.grid{stroke:#d8dde2}.floor{stroke:#8a9199;stroke-dasharray:4 3}"
    "@media(prefers-color-scheme:dark){text{fill:#e6e9ec}.quiet{fill:#a3adb6}.paper{fill:#14181c}.grid{stroke:#333b43}}"
    "</style>"
)
WIDTH = 800


def overview(results: Results, caption: str) -> str:
    """A line a row: ours as a bar from the copy's time, the peers as dots, on a scale of times the copy."""
    left, right, top, step = 160, 130, 104, 30
    shares = [{name: value / row["copy"] for name, value in row.items() if name in COLOURS} for _, row in results]
    everything = [math.log10(value) for row in shares for value in row.values()]
    low, high = min(everything) - 0.1, max(everything) + 0.1
    scale = (WIDTH - left - right) / (high - low)
    bottom = top + step * len(results)

    def x(share: float) -> float:
        return left + (math.log10(share) - low) * scale

    body = []
    for position, ((name, times), row) in enumerate(zip(results, shares, strict=True)):
        y = top + step * position + step / 2
        body.append(f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{escape(name)}</text>')
        ours = row["halfulp"]
        first, last = sorted((x(1), x(ours)))
        body.append(
            f'<rect x="{first:.1f}" y="{y - 5}" width="{last - first:.1f}" height="10" rx="2" '
            f'fill="{COLOURS["halfulp"]}" fill-opacity="0.45"/>'
        )
        for contender in [peer for peer in row if peer not in ("halfulp", "copy")] + ["halfulp"]:
            radius = 7 if contender == "halfulp" else 5
            body.append(
                f'<circle cx="{x(row[contender]):.1f}" cy="{y}" r="{radius}" fill="{COLOURS[contender]}">'
                f"<title>{escape(contender)}: {times[contender] * 1e3:.3g} ms</title></circle>"
            )
        if "PyTorch" in row:
            ratio = row["PyTorch"] / ours
            body.append(f'<text x="{WIDTH - 12}" y="{y + 4}" text-anchor="end">{ratio:.2g}×</text>')
    present = [name for name in COLOURS if name != "copy" and any(name in row for row in shares)]
    title = "Pooling: time per call, as a multiple of a copy of the same bytes"
    return _page(
        [
            f'<text x="12" y="24" class="title">{title}</text>',
            f'<text x="12" y="42" class="quiet">{escape(caption)}</text>',
            f'<text x="{WIDTH - 12}" y="{top - 14}" text-anchor="end" class="quiet">as fast as PyTorch</text>',
            *_legend(present, 62),
            *_grid(low, high, x, top - 8, bottom, "{}×", "copy"),
            *body,
        ],
        bottom + 12,
    )


def bar_chart(results: Results, caption: str) -> str:
    """Every row and contender as a bar, in milliseconds."""
    left, right, bar, gap, y = 210, 20, 11, 12, 104
    low, high = _decades([value * 1e3 for _, row in results for name, value in row.items() if name in COLOURS])
    scale = (WIDTH - left - right) / (high - low)

    def x(milliseconds: float) -> float:
        return left + (math.log10(milliseconds) - low) * scale

    body = []
    for name, row in results:
        top = y
        for contender, seconds in row.items():
            if contender not in COLOURS:
                continue
            body.append(
                f'<rect x="{left}" y="{y}" width="{x(seconds * 1e3) - left:.1f}" height="{bar - 2}" '
                f'fill="{COLOURS[contender]}"><title>{escape(contender)}: {seconds * 1e3:.3g} ms</title></rect>'
            )
            y += bar
        body.append(f'<text x="{left - 8}" y="{(top + y) / 2 + 3}" text-anchor="end">{escape(name)}</text>')
        y += gap
    present = [name for name in COLOURS if any(name in row for _, row in results)]
    return _page(
        [
            '<text x="12" y="24" class="title">Pooling: milliseconds per call, shorter is faster</text>',
            f'<text x="12" y="42" class="quiet">{escape(caption)}</text>',
            *_legend(present, 62),
            *_grid(low, high, x, 96, y, "{} ms", ""),
            *body,
        ],
        y + 10,
    )


def _decades(values: list[float]) -> tuple[int, int]:
    """The powers of ten around the values, at least one apart."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _legend(names: list[str], y: int) -> list[str]:
    parts, x = [], 12
    for name in names:
        parts.append(f'<circle cx="{x + 5}" cy="{y - 4}" r="5" fill="{COLOURS[name]}"/>')
        parts.append(f'<text x="{x + 14}" y="{y}">{escape(name)}</text>')
        x += 34 + round(6.4 * len(name))
    return parts


def _grid(
    low: float, high: float, x: Callable[[float], float], top: float, bottom: float, unit: str, floor: str
) -> list[str]:
    parts = []
    for exponent in range(math.ceil(low), math.floor(high) + 1):
        at = round(x(10.0**exponent), 1)
        style = "floor" if floor and exponent == 0 else "grid"
        label = floor if floor and exponent == 0 else unit.format(f"{10.0**exponent:g}")
        parts.append(f'<line x1="{at}" x2="{at}" y1="{top}" y2="{bottom}" class="{style}"/>')
        parts.append(f'<text x="{at}" y="{top - 6}" text-anchor="middle" class="quiet">{label}</text>')
    return parts


def _page(parts: list[str], height: float) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}">'
    )
    return "\n".join([head, STYLE, '<rect width="100%" height="100%" rx="6" class="paper"/>', *parts, "</svg>", ""])
