"""Make the defective backends importable as `defects`, here and in worker processes."""

from __future__ import annotations

from pathlib import Path

import pytest

collect_ignore = ["planted.py"]  # it imports `defects`, which only tests can; it has no examples to run


@pytest.fixture(autouse=True)
def _defects_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
