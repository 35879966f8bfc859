"""The notebooks run from top to bottom and print what is stored in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from tools.notebooks import FOLDER, executed

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def outputs(notebook: Any) -> list[tuple[str, list[Any]]]:
    """Source and outputs of every cell of code."""
    return [(cell.source, cell.outputs) for cell in notebook.cells if cell.cell_type == "code"]


def test_both_notebooks_are_there() -> None:
    assert [path.name for path in NOTEBOOKS] == ["grade-a-backend.ipynb", "tutorial.ipynb"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the notebook tools, about their own sockets and loops
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_is_stored_in_it(path: Path) -> None:
    stored = outputs(nbformat.read(path, as_version=4))
    assert any(shown for _, shown in stored)
    assert outputs(executed(path)) == stored, "run python -m tools.notebooks"
