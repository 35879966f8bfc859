"""Pyramids by other tools, and what ``halfulp pyramid --verify`` finds in them: figures and picture of the how-to.

``python -m benchmarks.pyramids`` writes ``docs/assets/pyramids.json`` and ``docs/assets/pyramids.svg``;
with ``--again`` only the picture, from the figures that are there. It needs ome-zarr and tensorstore.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

ASSETS = Path(__file__).parent.parent / "docs" / "assets"
LEVELS = 6
COLOURS = {
    "halfulp": "#2a9d4a",
    "tensorstore": "#3b78c2",
    "ome-zarr, local mean": "#d1495b",
    "ome-zarr, resize": "#c98a1b",
}


def image() -> Any:
    """2048 x 2048 cells of uint8: a slope with noise, as a camera sees it."""
    slope = np.add.outer(np.linspace(20, 120, 2048), np.linspace(0, 100, 2048))
    return np.clip(np.random.default_rng(0).normal(slope, 6), 0, 255).round().astype("uint8")


def by_halfulp(x: Any, folder: Path) -> Path:
    from halfulp.pyramid import write

    np.save(folder / "x.npy", x)
    write(folder / "x.npy", folder / "halfulp.zarr", levels=LEVELS, chunks=256)
    return folder / "halfulp.zarr"


def by_ome_zarr(x: Any, folder: Path, method: str) -> Path:
    import dask.array as da
    from ome_zarr.scale import Methods
    from ome_zarr.writer import write_image

    target = folder / f"{method}.zarr"
    factors = [2**i for i in range(1, LEVELS + 1)]
    lazy = da.from_array(x, chunks=256)
    write_image(lazy, str(target), axes="yx", scale_factors=factors, method=Methods(method))
    return target


def by_tensorstore(x: Any, folder: Path) -> Path:
    """Every level from the one before, as pyramids are made with its ``downsample``."""
    import tensorstore as ts
    import zarr

    target, level = folder / "tensorstore.zarr", x
    group = zarr.create_group(str(target), zarr_format=3)
    for number in range(LEVELS + 1):
        if number:
            level = np.asarray(ts.downsample(ts.array(level), [2, 2], "mean").read().result())
        group.create_array(str(number), data=level, chunks=(256, 256))
    axes = [{"name": a, "type": "space"} for a in "yx"]
    datasets = [{"path": str(i)} for i in range(LEVELS + 1)]
    group.attrs["ome"] = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": datasets}]}
    return target


def measured() -> dict[str, Any]:
    """What --verify finds, for every tool and level."""
    from halfulp.pyramid import verify

    x, found = image(), {}
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        targets = {
            "halfulp": by_halfulp(x, folder),
            "tensorstore": by_tensorstore(x, folder),
            "ome-zarr, local mean": by_ome_zarr(x, folder, "local_mean"),
            "ome-zarr, resize": by_ome_zarr(x, folder, "resize"),
        }
        for tool, target in targets.items():
            found[tool] = [
                {"wrong": r.wrong / r.cells, "mean": r.bias, "largest": r.largest} for r in verify(target, "mean")
            ]
    return {"versions": {p: version(p) for p in ("ome-zarr", "tensorstore")}, "levels": found}


def picture(figures: dict[str, Any]) -> str:
    """The mean error of every level, one line per tool."""
    width, height, left, top, right, bottom = 800, 360, 70, 50, 190, 50
    lines = figures["levels"]
    lowest = min(level["mean"] for levels in lines.values() for level in levels)
    highest = max(0.2, *(level["mean"] for levels in lines.values() for level in levels))
    low, high = np.floor(lowest * 2) / 2, np.ceil(highest * 2) / 2

    def at(level: float, value: float) -> tuple[float, float]:
        across = left + (level - 1) / (LEVELS - 1) * (width - left - right)
        return round(across, 1), round(top + (high - value) / (high - low) * (height - top - bottom), 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="13">',
        "<style>text{fill:#222}.grid{stroke:#ccc}.back{fill:#fff}"
        "@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#444}.back{fill:#1b1b1f}}</style>",
        f'<rect class="back" width="{width}" height="{height}"/>',
        f'<text x="{left}" y="24" font-size="15">Mean error of a level, in units of a uint8 image</text>',
    ]
    for value in np.arange(low, high + 0.01, 0.5):
        _, y = at(1, value)
        parts.append(f'<line class="grid" x1="{left}" x2="{width - right}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{value:+.1f}</text>')
    for level in range(1, LEVELS + 1):
        x, _ = at(level, low)
        parts.append(f'<text x="{x}" y="{height - bottom + 22}" text-anchor="middle">level {level}</text>')
    last = -99.0
    for tool, levels in sorted(lines.items(), key=lambda item: -item[1][-1]["mean"]):
        points = [at(i, level["mean"]) for i, level in enumerate(levels, 1)]
        text = " ".join(f"{x},{y}" for x, y in points)
        colour = COLOURS[tool]
        parts.append(f'<polyline points="{text}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        parts += [f'<circle cx="{x}" cy="{y}" r="3.5" fill="{colour}"/>' for x, y in points]
        last = max(last + 17, points[-1][1] + 4)
        parts.append(f'<text x="{points[-1][0] + 12}" y="{last}" style="fill:{colour}">{tool}</text>')
    return "\n".join([*parts, "</svg>", ""])


def table(figures: dict[str, Any]) -> str:
    """What is wrong in the first and the last level, as Markdown."""
    rows = ["| tool | wrong cells of level 1 | of level 6 | mean error of level 6 | largest |", "|---|---|---|---|---|"]
    for tool, levels in figures["levels"].items():
        first, last = levels[0], levels[-1]
        shares = [f"{100 * level['wrong']:.3g} %" if level["wrong"] else "none" for level in (first, last)]
        largest = max(level["largest"] for level in levels)
        rows.append(f"| {tool} | {shares[0]} | {shares[1]} | {last['mean']:+.2f} | {largest:g} |")
    return "\n".join(rows)


if __name__ == "__main__":
    if "--again" not in sys.argv:
        (ASSETS / "pyramids.json").write_text(json.dumps(measured(), indent=1) + "\n", encoding="utf-8")
    FIGURES = json.loads((ASSETS / "pyramids.json").read_text(encoding="utf-8"))
    (ASSETS / "pyramids.svg").write_text(picture(FIGURES), encoding="utf-8")
    print(table(FIGURES))
