"""The badges of README.md, made from pyproject.toml so that they cannot be out of date."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
WIDTH = 6.6  # of a character, in a font of 11 pixels
FIELDS = {
    "version": r'^version = "(.*)"$',
    "python": r'^requires-python = "(.*)"$',
    "licence": r'^license = "(.*)"$',
}


def badge(name: str) -> str:
    """One badge as SVG."""
    (value,) = re.findall(FIELDS[name], PROJECT.read_text(encoding="utf-8"), re.MULTILINE)
    value = value.replace(">=", "≥ ")
    left, right = (int(WIDTH * len(text)) + 12 for text in (name, value))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f'aria-label="{name}: {value}">\n'
        f'<rect width="{left + right}" height="20" rx="4" fill="#3949ab"/>\n'
        f'<path d="M4 0H{left}V20H4A4 4 0 0 1 0 16V4A4 4 0 0 1 4 0Z" fill="#4a4a55"/>\n'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">\n'
        f'<text x="{left / 2:g}" y="14">{name}</text>\n'
        f'<text x="{left + right / 2:g}" y="14">{value}</text>\n'
        "</g>\n</svg>\n"
    )
