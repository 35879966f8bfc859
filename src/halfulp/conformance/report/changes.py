"""What changed between two reports of the same subject."""

from __future__ import annotations

from dataclasses import dataclass

from rich.table import Table

from halfulp.conformance.report.result import Result, SubjectResult
from halfulp.conformance.report.terminal import share, ulps
from halfulp.conformance.severity import severity

__all__ = ["Change", "changes", "changes_table"]


@dataclass(frozen=True)
class Change:
    """A kind of failure that is new, gone, or shown by another number of cases."""

    subject: str
    operator: str
    severity: str
    name: str
    before: int
    after: int

    @property
    def worse(self) -> bool:
        """Whether something that was right is wrong now."""
        return self.severity == "wrong" and not self.before


def changes(old: Result, new: Result) -> list[Change]:
    """The differences between two reports, subject by subject, new failures first."""
    before = {subject.name: subject for subject in old.subjects}
    listed = []
    for subject in new.subjects:
        if subject.name in before:
            listed += _changes(before[subject.name], subject)
    return sorted(listed, key=lambda c: (c.subject, not c.worse, c.operator, c.name))


def _changes(old: SubjectResult, new: SubjectResult) -> list[Change]:
    counts = [{(operator, f.aspect, f.name): f.count for operator, f in subject.findings()} for subject in (old, new)]
    return [
        Change(new.name, key[0], severity(*key[1:]), key[2], counts[0].get(key, 0), counts[1].get(key, 0))
        for key in sorted(counts[0] | counts[1])
        if counts[0].get(key, 0) != counts[1].get(key, 0)
    ]


def changes_table(old: Result, new: Result) -> Table:
    """Both versions of every subject side by side: first the shares, then the failures that changed."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    for heading in ("subject", "operator", "class", "what"):
        table.add_column(heading)
    for heading in ("before", "after"):
        table.add_column(heading, justify="right", no_wrap=True)
    earlier = {subject.name: subject for subject in old.subjects}
    for subject in new.subjects:
        if subject.name not in earlier:
            continue
        was, now = earlier[subject.name].summary.total(), subject.summary.total()
        table.add_row(subject.name, "all", "", "version", earlier[subject.name].version, subject.version)
        table.add_row(subject.name, "all", "", "correctly rounded", share(was), share(now))
        table.add_row(subject.name, "all", "", "largest error in ulps", ulps(was.worst), ulps(now.worst))
    for change in changes(old, new):
        numbers = (f"{change.before:,}" if change.before else "–", f"{change.after:,}" if change.after else "–")
        table.add_row(change.subject, change.operator, change.severity, change.name, *numbers)
    return table
