"""The journal: one JSON line per finished unit, so that a campaign that was killed goes on where it was.

The first line says which campaign it is. A line that was cut off by a kill is dropped when the journal is opened again.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, TextIO

from halfulp.conformance.summary import Summary
from halfulp.conformance.units import Plan

__all__ = ["Journal", "JournalError"]


class JournalError(ValueError):
    """A journal that does not belong to this campaign."""


class Journal:
    """Finished units and crashes, in memory and, if there is a path, on disk."""

    def __init__(self, path: Path | None, plan: Plan, subjects: dict[str, tuple[str, bool]]) -> None:
        self.units: set[str] = set()
        self.crashes: set[tuple[str, str]] = set()
        self.summaries = {name: Summary() for name in subjects}
        self._header = {
            "journal": 1,
            "plan": json.loads(json.dumps(dataclasses.asdict(plan))),
            "subjects": {name: version for name, (version, _) in subjects.items()},
        }
        self._file: TextIO | None = None
        if path is not None:
            self._open(path)

    def _open(self, path: Path) -> None:
        kept = 0
        if path.exists():
            kept = self._load(path)
        self._file = path.open("r+" if path.exists() else "w", encoding="utf-8")
        self._file.truncate(kept)
        self._file.seek(kept)
        if not kept:
            self._write(self._header)

    def _load(self, path: Path) -> int:
        """Take in every whole line; the result is their length in bytes."""
        kept = 0
        for number, raw in enumerate(path.read_bytes().splitlines(keepends=True)):
            try:
                if not raw.endswith(b"\n"):
                    break
                line = json.loads(raw)
            except ValueError:
                break
            if number == 0:
                if line != self._header:
                    raise JournalError(f"{path} is the journal of another campaign; give another name, or remove it")
            elif "unit" in line:
                self._take_unit(line["unit"], line["results"])
            else:
                self._take_crash(**line["crash"])
            kept += len(raw)
        return kept

    def _take_unit(self, key: str, results: dict[str, Any]) -> None:
        self.units.add(key)
        for name, cells in results.items():
            self.summaries[name].merge(Summary.from_json(cells))

    def _take_crash(self, subject: str, case: str, reason: str) -> None:
        from halfulp.conformance.verdict import Verdict

        self.crashes.add((subject, case))
        operator, mode, dtype, _ = case.split("/")
        verdict = Verdict("crashed", "error", reason, tested={"error"})
        self.summaries[subject].cell(operator, mode, dtype).add(case, verdict)

    def unit(self, key: str, results: dict[str, Any]) -> None:
        """Write down a finished unit."""
        self._take_unit(key, results)
        self._write({"unit": key, "results": results})

    def crash(self, subject: str, case: str, reason: str) -> None:
        """Write down a case that brought a process down."""
        if (subject, case) in self.crashes:
            return
        self._take_crash(subject, case, reason)
        self._write({"crash": {"subject": subject, "case": case, "reason": reason}})

    def _write(self, line: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
