"""The notebooks run from top to bottom and print what is stored in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from tools.notebooks import FOLDER, executed

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def outputs(notebook: Any) -> list[tuple[str, list[Any]]]:
    """Source and outputs of every cell of code; of pictures and tables only that they are there."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [(cell.source, [plain(output) for output in cell.outputs]) for cell in cells]


def plain(output: Any) -> dict[str, Any]:
    data = {kind: text if kind == "text/plain" else "" for kind, text in output.get("data", {}).items()}
    return {"type": output.output_type, "text": output.get("text", ""), **data}


def test_both_notebooks_are_there() -> None:
    assert [path.name for path in NOTEBOOKS] == ["grade-a-backend.ipynb", "tutorial.ipynb"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the notebook tools, about their own sockets and loops
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_is_stored_in_it(path: Path) -> None:
    stored = outputs(nbformat.read(path, as_version=4))
    assert any(shown for _, shown in stored)
    assert any("text/html" in output or "image/svg+xml" in output for _, shown in stored for output in shown)
    assert outputs(executed(path)) == stored, "run python -m tools.notebooks"
