"""The picture of bounds per class."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfulp.bounds._picture import bounds_svg

SVG = "{http://www.w3.org/2000/svg}"
number = st.one_of(st.floats(-1e3, 1e3), st.sampled_from([0.0, -0.0, 5e-324, 1e300, -1e300, 1e-300]))


def intervals(picture: str) -> list[ElementTree.Element]:
    return [r for r in ElementTree.fromstring(picture).iter(f"{SVG}rect") if r.get("class") == "interval"]


@given(st.lists(st.tuples(number, number), min_size=1, max_size=12))
def test_pictures_are_well_formed(pairs: list[tuple[float, float]]) -> None:
    low, high = [min(pair) for pair in pairs], [max(pair) for pair in pairs]
    picture = bounds_svg(low, high, title="a < b & c")
    assert not re.search(r"\b(nan|inf)\b", picture)
    rows = intervals(picture)
    assert len(rows) == len(pairs)
    for row in rows:
        left, width = float(row.get("x", "")), float(row.get("width", ""))
        assert left >= 0
        assert width > 0
        assert left + width <= 720


@pytest.mark.parametrize("ends", [(0.0, 5e-324), (-1.7e308, 1.7e308), (0.0, 0.0), (-5e-324, -5e-324), (1e308, 1.1e308)])
def test_extreme_spans(ends: tuple[float, float]) -> None:
    (row,) = intervals(bounds_svg([ends[0]], [ends[1]]))
    assert 0 <= float(row.get("x", "")) <= 720


def test_order_on_the_axis_is_order_of_the_numbers() -> None:
    rows = intervals(bounds_svg([-2.0, 0.0, 3.0], [-1.0, 1.0, 4.0]))
    places = [float(row.get("x", "")) for row in rows]
    assert places == sorted(places)
    widths = {row.get("width") for row in rows}
    assert len(widths) == 1


def test_the_class_with_the_largest_lower_bound_stands_out() -> None:
    rows = intervals(bounds_svg(np.array([[0.0, 2.0, 1.0]]), np.array([[9.0, 3.0, 8.0]]), names=["a", "b", "c"]))
    colors = [row.get("fill") for row in rows]
    assert colors[0] == colors[2] != colors[1]


def test_names_are_escaped_and_cut() -> None:
    picture = bounds_svg([0.0, 1.0], [1.0, 2.0], names=["<script>", "x" * 60], title="5 > 4")
    assert "<script>" not in picture
    assert "&lt;script&gt;" in picture
    assert "x" * 23 + "…" in picture
    assert "5 &gt; 4" in picture


@pytest.mark.parametrize(
    ("low", "high", "names", "message"),
    [
        ([0.0], [1.0, 2.0], None, "bounds_svg: 1 lower and 2 upper bounds: must be equally many, at least one"),
        ([], [], None, "bounds_svg: 0 lower and 0 upper bounds: must be equally many, at least one"),
        ([2.0], [1.0], None, "bounds_svg: bounds must be finite, no lower one above its upper one"),
        ([0.0], [np.inf], None, "bounds_svg: bounds must be finite, no lower one above its upper one"),
        ([np.nan], [1.0], None, "bounds_svg: bounds must be finite, no lower one above its upper one"),
        ([0.0], [1.0], ["a", "b"], "bounds_svg: 2 names for 1 bounds"),
    ],
)
def test_refusals(low: list[float], high: list[float], names: list[str] | None, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        bounds_svg(low, high, names)
