"""The result of a campaign as data, and what it means for the exit code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from halfulp.conformance.diagnosis import EITHER
from halfulp.conformance.report.coverage import Coverage
from halfulp.conformance.severity import SEVERITIES, severity
from halfulp.conformance.summary import Finding, Summary
from halfulp.conformance.units import Plan
from halfulp.conformance.verdict import ASPECTS

__all__ = ["Demand", "Reproducer", "Result", "SubjectResult"]


@dataclass
class Reproducer:
    """A failure, shrunk: what it is, and a script that shows it."""

    aspect: str
    name: str
    operator: str
    mode: str
    dtype: str
    case: str
    record: str
    script: str
    got: str = ""
    want: str = ""

    def to_json(self) -> dict[str, Any]:
        """The reproducer as plain data."""
        return dict(vars(self))


@dataclass
class SubjectResult:
    """What a campaign found out about one subject."""

    name: str
    version: str
    summary: Summary
    complete: bool = False
    reproducers: list[Reproducer] = field(default_factory=list)

    def findings(self) -> list[tuple[str, Finding]]:
        """(operator, finding), the same kind of failure of an operator in several modes and types counted together."""
        listed = []
        for operator in self.summary.operators():
            whole = self.summary.select(operator)
            found = _without_doubt(whole.findings)
            listed += [(operator, found[key]) for key in sorted(found)]
        return sorted(listed, key=_worst_first)

    def counts(self) -> dict[str, int]:
        """Severity -> cases with a finding of it, the worst first."""
        found = self.findings()
        return {kind: sum(f.count for _, f in found if severity(f.aspect, f.name) == kind) for kind in SEVERITIES}


def _worst_first(item: tuple[str, Finding]) -> tuple[Any, ...]:
    operator, finding = item
    place = list(SEVERITIES).index(severity(finding.aspect, finding.name))
    return place, list(ASPECTS).index(finding.aspect), operator, finding.name


def _without_doubt(findings: dict[str, Finding]) -> dict[str, Finding]:
    """Findings with two possible causes are counted with the one of them that other cases have shown."""
    kept = dict(findings)
    for key, finding in findings.items():
        causes = [f"{finding.aspect}: {name}" for name in finding.name.split(EITHER)]
        shown = [cause for cause in causes if cause in findings]
        if len(causes) > 1 and len(shown) == 1:
            kept[shown[0]].count += kept.pop(key).count
    return kept


@dataclass(frozen=True)
class Demand:
    """What makes a subject fail: severities, aspects, and rounding errors of more than some ulps.

    By default a subject may have no wrong result; one that claims to be complete may have no finding at all.

    >>> Demand().severities
    ('wrong',)
    >>> Demand.parse("shape,nan").aspects
    ('shape', 'nan')
    >>> Demand.parse("wrong,ulps>2").ulps
    2.0
    """

    aspects: tuple[str, ...] = ()
    ulps: float = 0.0
    unsupported: bool = False
    severities: tuple[str, ...] = ("wrong",)
    given: bool = False
    """Whether the user chose; else the claim of the subject decides."""

    @classmethod
    def parse(cls, text: str) -> Demand:
        """From the words of ``--fail-on``: severities, aspects, ``ulps>N``, ``unsupported``, ``any`` or ``none``."""
        aspects: list[str] = []
        severities: list[str] = []
        ulps, unsupported = 0.0, False
        for word in (part.strip() for part in text.split(",")):
            if word == "any":
                severities += SEVERITIES
            elif word in SEVERITIES:
                severities.append(word)
            elif word.startswith("ulps>"):
                ulps = _number_of_ulps(word)
                aspects.append("value")
            elif word == "unsupported":
                unsupported = True
            elif word in ASPECTS:
                aspects.append(word)
            elif word != "none":
                known = ", ".join([*SEVERITIES, *ASPECTS])
                raise ValueError(f"--fail-on {word}: must be one of {known}, ulps>N, unsupported, any, none")
        return cls(tuple(dict.fromkeys(aspects)), ulps, unsupported, tuple(dict.fromkeys(severities)), True)

    def broken_by(self, subject: SubjectResult) -> list[tuple[str, Finding]]:
        """The findings that break the demand."""
        return [(operator, finding) for operator, finding in subject.findings() if self.forbids(finding, subject)]

    def forbids(self, finding: Finding, subject: SubjectResult) -> bool:
        """Whether a finding of a subject breaks the demand."""
        if subject.complete and not self.given:
            return True
        kind = severity(finding.aspect, finding.name)
        tolerated = finding.aspect == "value" and kind == "rounding" and finding.worst <= self.ulps
        return (kind in self.severities or finding.aspect in self.aspects) and not tolerated

    def met_by(self, subject: SubjectResult) -> bool:
        """Whether a subject passes. A subject that answers no case does not."""
        total = subject.summary.total()
        if not total.judged:  # nothing was shown
            return False
        if (self.unsupported or subject.complete) and total.unsupported:
            return False
        return not self.broken_by(subject)


def _number_of_ulps(word: str) -> float:
    try:
        ulps = float(word.removeprefix("ulps>"))
    except ValueError:
        ulps = -1.0
    if not ulps >= 0:
        raise ValueError(f"--fail-on {word}: N must be a number of at least 0")
    return ulps


@dataclass
class Result:
    """A whole campaign."""

    plan: Plan
    subjects: list[SubjectResult]
    demand: Demand = field(default_factory=Demand)
    seconds: float = 0.0
    finished: bool = True
    date: str = ""
    machine: dict[str, str] = field(default_factory=dict)
    coverage: list[Coverage] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether every subject does what is asked of it."""
        return bool(self.subjects) and all(self.demand.met_by(subject) for subject in self.subjects)

    def names(self) -> Iterable[str]:
        """The subjects' names."""
        return (subject.name for subject in self.subjects)

    def _repr_html_(self) -> str:
        """What a notebook shows: verdicts, comparison, and every finding with its script."""
        from halfulp.conformance.report.html import to_fragment

        return to_fragment(self)
