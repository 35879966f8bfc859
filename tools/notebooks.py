"""Runs the notebooks of docs/notebooks and stores their outputs: ``python -m tools.notebooks``.

A test runs them, too, and compares the outputs with the stored ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent.parent / "docs" / "notebooks"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def executed(path: Path) -> Any:
    """The notebook with the outputs of a new run, and without what differs from run to run."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({})
        for output in cell.get("outputs", []):
            if "text/html" in output.get("data", {}):
                output.data.pop("text/plain", None)  # a result as text is long, and has the time that it took
    return notebook


def main() -> None:
    """Run and write every notebook."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        nbformat.write(executed(path), path)
        print(path.name)


if __name__ == "__main__":
    main()
