"""Files that are derived from the declarations are what the declarations say today."""

from __future__ import annotations

import pytest
from tools import generate


@pytest.mark.parametrize("path", generate.FILES)
def test_a_generated_file_is_what_its_generator_writes(path: str) -> None:
    written = (generate.ROOT / path).read_text(encoding="utf-8")
    assert written == generate.FILES[path](), "run python -m tools.generate"
