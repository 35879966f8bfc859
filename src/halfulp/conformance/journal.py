"""The journal: one JSON line per finished unit, so that a campaign that was killed can be resumed.

The first line says which campaign it is. A last line that was cut off by a kill is dropped when the journal is opened
again. A file that is not a journal of the campaign, or has a line that the campaign cannot have written, is refused and
stays as it is.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, TextIO

from halfulp.conformance.cases import takes
from halfulp.conformance.summary import Summary
from halfulp.conformance.units import Plan, Unit, place_of, units_of

__all__ = ["Journal", "JournalError"]


class JournalError(ValueError):
    """A file that is not a journal of this campaign."""


class Journal:
    """Finished units and crashes, in memory and, if there is a path, on disk."""

    def __init__(self, path: Path | None, plan: Plan, subjects: dict[str, tuple[str, bool]]) -> None:
        self.units: set[str] = set()
        self.crashes: set[tuple[str, str]] = set()
        self.summaries = {name: Summary() for name in subjects}
        self._plan = plan
        self._known = {unit.key: unit for unit in units_of(plan)}
        self._header = {
            "journal": 2,
            "plan": json.loads(json.dumps(dataclasses.asdict(plan))),
            "subjects": {name: version for name, (version, _) in subjects.items()},
        }
        self._file: TextIO | None = None
        if path is not None:
            self._open(path)

    def _open(self, path: Path) -> None:
        try:
            kept = self._load(path, path.read_bytes()) if path.exists() else 0
            self._file = path.open("r+" if path.exists() else "w", encoding="utf-8")
        except OSError as error:
            raise JournalError(f"{path}: {error.strerror}") from error
        self._file.truncate(kept)
        self._file.seek(kept)
        if not kept:
            self._write(self._header)

    def _load(self, path: Path, content: bytes) -> int:
        """Take in every whole line; the result is their length in bytes."""
        if _line(self._header).encode().startswith(content):  # empty, or cut off in its first line
            return 0
        lines = content.split(b"\n")
        self._check_header(path, lines[0])
        for number, raw in enumerate(lines[1:-1], 2):
            try:
                self._take(json.loads(raw))
            except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
                reason = str(error) if isinstance(error, JournalError) else "it is not a line that a campaign writes"
                raise JournalError(f"{path}, line {number}: {reason}; correct the line, or remove the file") from error
        return len(content) - len(lines[-1])

    def _check_header(self, path: Path, raw: bytes) -> None:
        try:
            header = json.loads(raw)
            known = isinstance(header, dict) and "journal" in header and "plan" in header
        except (ValueError, RecursionError):
            known = False
        if not known:
            raise JournalError(f"{path} is not a journal and would be overwritten; choose another name")
        if header != self._header:
            raise JournalError(f"{path} is the journal of another campaign; choose another name, or remove it")

    def _take(self, line: Any) -> None:
        if set(line) == {"unit", "results"}:
            self._check_unit(line["unit"], line["results"])
            self._take_unit(line["unit"], line["results"])
        elif set(line) == {"crash"} and set(line["crash"]) == {"subject", "case", "reason"}:
            self._check_crash(**line["crash"])
            self._take_crash(**line["crash"])
        else:
            raise JournalError("it has neither a unit with its results nor a crash")

    def _check_unit(self, key: str, results: dict[str, Any]) -> None:
        """Refuse a unit that is not in the plan, comes twice, or has other numbers of cases than it must."""
        if key not in self._known:
            raise JournalError(f"the campaign has no unit {key!r}")
        if key in self.units:
            raise JournalError(f"the unit {key!r} comes twice")
        if set(results) != set(self.summaries):
            raise JournalError("the results are not those of this campaign's subjects")
        unit = self._known[key]
        places = _places(unit)
        for name, cells in results.items():
            summary = Summary.from_json(cells)
            if len(summary.cells) != len(cells):
                raise JournalError(f"{name}: a cell comes twice")
            self._check_cells(unit, name, summary, places)

    def _check_cells(self, unit: Unit, name: str, summary: Summary, places: set[str]) -> None:
        for operator, mode, dtype in summary.cells:
            if (operator, dtype) != (unit.operator, unit.dtype) or mode not in self._modes(unit):
                raise JournalError(f"{name}: {operator}/{mode}/{dtype} is not part of the unit {unit.key!r}")
            if not summary.cells[operator, mode, dtype].consistent():
                raise JournalError(f"{name}: the numbers of {operator}/{mode}/{dtype} do not add up")
        for mode in self._modes(unit):
            head = f"{unit.operator}/{mode}/{unit.dtype}"
            crashed = sum((name, f"{head}/{place}") in self.crashes for place in places)
            cell = summary.cells.get((unit.operator, mode, unit.dtype))
            counted = 0 if cell is None else cell.cases
            if counted != len(places) - crashed:
                raise JournalError(f"{name}: {head} has {counted} cases instead of {len(places) - crashed}")

    def _modes(self, unit: Unit) -> list[str]:
        return [mode for mode in self._plan.modes if takes(unit.operator, mode, unit.dtype)]

    def _check_crash(self, subject: str, case: str, reason: str) -> None:
        if subject not in self.summaries or not isinstance(reason, str):
            raise JournalError(f"the campaign has no subject {subject!r}")
        if (subject, case) in self.crashes:
            raise JournalError(f"the crash of {subject} in {case!r} comes twice")
        operator, mode, dtype, place = case.split("/")
        for unit in self._known.values():
            if (unit.operator, unit.dtype) == (operator, dtype) and mode in self._modes(unit):
                known = {"probes"} if unit.probes else _places(unit)
                if place in known and unit.key not in self.units:
                    return
        raise JournalError(f"the campaign has no case {case!r} left to do here")

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
            self._file.write(_line(line))
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _places(unit: Unit) -> set[str]:
    """The last parts of the names of a unit's cases; probes are no cases."""
    found = (place_of(unit.operator, number) for number in range(unit.start, unit.stop))
    return {f"{index}.{filling}" for index, filling in found}


def _line(data: dict[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False) + "\n"
