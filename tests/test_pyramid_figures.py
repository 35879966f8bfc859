"""The picture and the table of drifting levels show the figures that were measured."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

from benchmarks import pyramids

ROOT = Path(__file__).parent.parent
FIGURES = json.loads((pyramids.ASSETS / "pyramids.json").read_text(encoding="utf-8"))


def test_the_picture_is_made_of_the_figures() -> None:
    text = (pyramids.ASSETS / "pyramids.svg").read_text(encoding="utf-8")
    assert text == pyramids.picture(FIGURES)
    assert len(ElementTree.fromstring(text).findall("{http://www.w3.org/2000/svg}polyline")) == 4
    assert "prefers-color-scheme:dark" in text


def test_the_table_is_made_of_the_figures() -> None:
    page = (ROOT / "docs" / "how-to" / "images-larger-than-memory.md").read_text(encoding="utf-8")
    (part,) = re.findall(r"<!-- pyramids -->\n(.*?)\n<!-- end of pyramids -->", page, re.DOTALL)
    assert part == pyramids.table(FIGURES)
    for package, version in FIGURES["versions"].items():
        assert f"{package} {version}" in page


def test_levels_of_halfulp_are_right() -> None:
    assert all(level["wrong"] == 0 for level in FIGURES["levels"]["halfulp"])
