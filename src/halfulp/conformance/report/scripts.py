"""Reproducers as files: one script per kind of failure."""

from __future__ import annotations

import re
from pathlib import Path

from halfulp.conformance.report.result import Result

__all__ = ["write_scripts"]


def write_scripts(result: Result, folder: Path) -> list[Path]:
    """Write every reproducer of every subject; the result is the list of files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for subject in result.subjects:
        for reproducer in subject.reproducers:
            words = f"{subject.name} {reproducer.operator} {reproducer.mode} {reproducer.dtype} {reproducer.name}"
            path = folder / (re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_") + ".py")
            path.write_text(reproducer.script, encoding="utf-8")
            written.append(path)
    return written
