"""Verdicts summed up: one cell per operator, mode and element type. Cells can be merged and written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from halfulp.conformance.ulps import BUCKETS
from halfulp.conformance.verdict import Verdict

__all__ = ["Cell", "Finding", "Summary"]

_REASONS = 8
"""How many different texts of "unsupported" a cell keeps."""


@dataclass
class Finding:
    """One kind of failure in one cell: how often, how bad, and a case that shows it."""

    aspect: str
    name: str
    case: str
    count: int = 1
    worst: float = 0.0
    size: int = 0
    message: str = ""

    def merge(self, other: Finding) -> None:
        """Count another finding of the same kind; the smallest case is kept."""
        self.count += other.count
        self.worst = max(self.worst, other.worst)
        if (other.size, _order(other.case)) < (self.size, _order(self.case)):
            self.case, self.size, self.message = other.case, other.size, other.message


def _order(key: str) -> tuple[Any, ...]:
    """Cases in the order of the campaign, so that merging does not depend on which unit came first."""
    head, _, tail = key.rpartition("/")
    return (head, *(int(part) if part.isdigit() else -1 for part in tail.split(".")))


@dataclass
class Cell:
    """The verdicts of one operator, mode and element type."""

    cases: int = 0
    passed: int = 0
    failed: int = 0
    unsupported: int = 0
    crashed: int = 0
    elements: int = 0
    correct: int = 0
    histogram: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    worst: float = 0.0
    worst_case: str = ""
    aspects: dict[str, list[int]] = field(default_factory=dict)
    rules: dict[str, dict[str, int]] = field(default_factory=dict)
    findings: dict[str, Finding] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)

    def add(self, key: str, verdict: Verdict, size: int = 0) -> None:
        """Count one case."""
        self.cases += 1
        counted = {"passed": "passed", "failed": "failed", "unsupported": "unsupported"}.get(verdict.status, "crashed")
        setattr(self, counted, getattr(self, counted) + 1)
        if verdict.status == "unsupported":
            self._reason(verdict.message, 1)
        self.note(key, verdict, size)

    def note(self, key: str, verdict: Verdict, size: int = 0) -> None:
        """Take in what a verdict shows, without counting a case: for what is looked at besides the answer."""
        self.elements += verdict.elements
        self.correct += verdict.correct
        self.histogram = [a + b for a, b in zip(self.histogram, verdict.histogram, strict=True)]
        if verdict.worst > self.worst:
            self.worst, self.worst_case = verdict.worst, key
        for aspect in verdict.tested:
            counts = self.aspects.setdefault(aspect, [0, 0])
            counts[0] += 1
            counts[1] += aspect == verdict.aspect
        for rule, found in verdict.rules.items():
            seen = self.rules.setdefault(rule, {})
            seen[found] = seen.get(found, 0) + 1
        if verdict.aspect:
            finding = Finding(verdict.aspect, verdict.name, key, 1, verdict.worst, size, verdict.message)
            self._finding(finding)

    def _finding(self, finding: Finding) -> None:
        key = f"{finding.aspect}: {finding.name}"
        if key in self.findings:
            self.findings[key].merge(finding)
        else:
            self.findings[key] = Finding(**vars(finding))

    def _reason(self, text: str, count: int) -> None:
        if text in self.reasons or len(self.reasons) < _REASONS:
            self.reasons[text] = self.reasons.get(text, 0) + count
        else:
            self.reasons["other reasons"] = self.reasons.get("other reasons", 0) + count

    def merge(self, other: Cell) -> None:
        """Take in the verdicts of another cell of the same kind."""
        for name in ("cases", "passed", "failed", "unsupported", "crashed", "elements", "correct"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.histogram = [a + b for a, b in zip(self.histogram, other.histogram, strict=True)]
        if other.worst > self.worst or (
            other.worst == self.worst and _order(other.worst_case) < _order(self.worst_case)
        ):
            self.worst, self.worst_case = other.worst, other.worst_case
        for aspect, (tested, failed) in other.aspects.items():
            counts = self.aspects.setdefault(aspect, [0, 0])
            counts[0] += tested
            counts[1] += failed
        for rule, seen in other.rules.items():
            mine = self.rules.setdefault(rule, {})
            for found, count in seen.items():
                mine[found] = mine.get(found, 0) + count
        for finding in other.findings.values():
            self._finding(finding)
        for text, count in other.reasons.items():
            self._reason(text, count)

    def consistent(self) -> bool:
        """Whether the numbers can be those of one cell: for what comes from a file."""
        counts = (self.cases, self.passed, self.failed, self.unsupported, self.crashed, self.elements, self.correct)
        listed = [*counts, *self.histogram, *(n for pair in self.aspects.values() for n in pair)]
        listed += [*self.reasons.values(), *(f.count for f in self.findings.values())]
        if not all(type(n) is int and n >= 0 for n in listed) or len(self.histogram) != BUCKETS:
            return False
        if self.cases != self.passed + self.failed + self.unsupported + self.crashed or self.correct > self.elements:
            return False
        if sum(self.reasons.values()) != self.unsupported or sum(self.histogram) > self.elements:
            return False
        blamed = all(f.aspect in self.aspects and f.count <= self.aspects[f.aspect][1] for f in self.findings.values())
        return blamed and bool(self.findings) >= bool(self.failed or self.crashed)

    @property
    def judged(self) -> int:
        """Cases that the subject answered, or should have."""
        return self.cases - self.unsupported

    def to_json(self) -> dict[str, Any]:
        """The cell as plain data."""
        data = dict(vars(self))
        data["findings"] = [vars(self.findings[key]) for key in sorted(self.findings)]
        data["aspects"] = {key: self.aspects[key] for key in sorted(self.aspects)}
        data["rules"] = {key: dict(sorted(self.rules[key].items())) for key in sorted(self.rules)}
        data["reasons"] = dict(sorted(self.reasons.items()))
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Cell:
        """The cell that :meth:`to_json` wrote."""
        fields = dict(data)
        findings = [Finding(**item) for item in fields.pop("findings")]
        return cls(**fields, findings={f"{f.aspect}: {f.name}": f for f in findings})


@dataclass
class Summary:
    """All cells of one subject, by (operator, mode, dtype)."""

    cells: dict[tuple[str, str, str], Cell] = field(default_factory=dict)

    def cell(self, operator: str, mode: str, dtype: str) -> Cell:
        """The cell of a combination, made when it is first asked for."""
        return self.cells.setdefault((operator, mode, dtype), Cell())

    def operators(self) -> list[str]:
        """The operators, in alphabetical order."""
        return sorted({key[0] for key in self.cells})

    def merge(self, other: Summary) -> None:
        """Take in another part of the same campaign."""
        for key, cell in other.cells.items():
            self.cell(*key).merge(cell)

    def total(self, keys: Iterable[tuple[str, str, str]] | None = None) -> Cell:
        """Several cells (all, unless said) as one."""
        whole = Cell()
        for key in sorted(self.cells) if keys is None else keys:
            whole.merge(self.cells[key])
        return whole

    def select(self, operator: str | None = None, mode: str | None = None, dtype: str | None = None) -> Cell:
        """The cells of an operator, mode or element type as one."""
        asked = (operator, mode, dtype)
        keys = [k for k in sorted(self.cells) if all(a is None or a == b for a, b in zip(asked, k, strict=True))]
        return self.total(keys)

    def to_json(self) -> list[dict[str, Any]]:
        """The cells as plain data, in a fixed order."""
        return [
            {"operator": operator, "mode": mode, "dtype": dtype, **self.cells[operator, mode, dtype].to_json()}
            for operator, mode, dtype in sorted(self.cells)
        ]

    @classmethod
    def from_json(cls, data: list[dict[str, Any]]) -> Summary:
        """The summary that :meth:`to_json` wrote."""
        summary = cls()
        for item in data:
            fields = dict(item)
            key = (fields.pop("operator"), fields.pop("mode"), fields.pop("dtype"))
            summary.cells[key] = Cell.from_json(fields)
        return summary
