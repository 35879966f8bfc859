"""The how-to pages about the tape are true: their examples run."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

PAGES = Path(__file__).parents[2] / "docs" / "how-to"


@pytest.mark.parametrize("page", ["your-own-operator.md", "reproducible-training.md", "exact-and-ball-arithmetic.md"])
def test_a_page_runs(page: str) -> None:
    results = doctest.testfile(str(PAGES / page), module_relative=False)
    assert results.attempted > 5
    assert results.failed == 0
