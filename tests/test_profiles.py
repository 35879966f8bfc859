"""Every property follows the Hypothesis profile: none pins a number of examples of its own."""

from __future__ import annotations

from pathlib import Path

from hypothesis import settings

from tests.scaling import examples

HERE = Path(__file__).parent


def test_no_property_pins_its_number_of_examples() -> None:
    own = {"conftest.py", "scaling.py", Path(__file__).name}
    word = "max_" + "examples="
    pinned = [p.name for p in HERE.rglob("*.py") if p.name not in own and word in p.read_text(encoding="utf-8")]
    assert pinned == []


def test_examples_scale_with_the_profile() -> None:
    assert examples(200).max_examples == settings.default.max_examples
    assert examples(1).max_examples >= 1
