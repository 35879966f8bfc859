"""The result as tables in the terminal."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from halfulp.conformance.report.result import Reproducer, Result, SubjectResult
from halfulp.conformance.severity import SEVERITIES, severity
from halfulp.conformance.summary import Cell, Finding
from halfulp.conformance.verdict import CANCELLATION

__all__ = ["print_result", "sentence", "share", "ulps"]

_FEW = 20
"""Where fewer cases stand behind a share, the elements are counted instead."""
_STYLES = {"wrong": "bold red", "convention": "yellow", "rounding": "yellow"}

_MARKS = ("shape", "padding", "nan", "infinity", "zero", "ties", "adjoint", "reproducible", "error")
_HEADINGS = {
    "shape": "shp",
    "padding": "pad",
    "infinity": "inf",
    "zero": "±0",
    "ties": "tie",
    "adjoint": "adj",
    "reproducible": "rep",
    "error": "err",
}


def ulps(number: float) -> str:
    """A number of ulps in a few characters.

    >>> ulps(0), ulps(3), ulps(4.7e15)
    ('0', '3', '5e15')
    """
    if number < 10_000:
        return f"{number:.0f}"
    return f"{number:.0e}".replace("e+", "e")


def share(cell: Cell) -> str:
    """The share of correctly rounded elements; 100 % only if it is all of them, and counts where few cases were run."""
    if not cell.elements:
        return "–"
    if cell.judged < _FEW:
        return f"{cell.correct}/{cell.elements}"
    if cell.correct == cell.elements:
        return "100 %"
    return f"{min(99.99, 100 * cell.correct / cell.elements):.2f} %"


def mark(cell: Cell, aspect: str) -> Text:
    """A tick, a cross, or a dash where nothing was tested."""
    tested, failed = cell.aspects.get(aspect, (0, 0))
    if not tested:
        return Text("–", style="dim")
    return Text("✓", style="green") if not failed else Text("✗", style="bold red")


def rules(cell: Cell, rule: str) -> str:
    """The rules that a subject was seen to follow, the most frequent first."""
    seen = cell.rules.get(rule, {})
    return ", ".join(sorted(seen, key=lambda name: (-seen[name], name)))


def subject_table(subject: SubjectResult) -> Table:
    """One row per operator, one column per aspect."""
    title = f"{subject.name} {subject.version}".strip()
    table = Table(
        title=title,
        title_style="bold",
        title_justify="left",
        header_style="bold",
        box=None,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        caption="n/a: not supported; right: share of correctly rounded elements; ulps: largest error",
        caption_justify="left",
    )
    table.add_column("operator", no_wrap=True)
    for heading in ("cases", "n/a", "right", "ulps"):
        table.add_column(heading, justify="right", no_wrap=True)
    for aspect in _MARKS:
        table.add_column(_HEADINGS.get(aspect, aspect), justify="center", no_wrap=True)
    for operator in subject.summary.operators():
        cell = subject.summary.select(operator)
        table.add_row(operator, *_numbers(cell), *(mark(cell, aspect) for aspect in _MARKS))
    whole = subject.summary.total()
    table.add_row("all", *_numbers(whole), *(mark(whole, aspect) for aspect in _MARKS), style="bold")
    return table


def _numbers(cell: Cell) -> tuple[str, str, Text, str]:
    right = cell.elements > 0 and cell.correct == cell.elements
    shown = Text(share(cell), style="green" if right else "yellow")
    return str(cell.cases), str(cell.unsupported) if cell.unsupported else "–", shown, ulps(cell.worst)


def rules_line(subject: SubjectResult) -> Text | None:
    """The tie and NaN rules that a subject was seen to follow, operator by operator."""
    parts = []
    for operator in subject.summary.operators():
        whole = subject.summary.select(operator)
        seen = [
            f"{words} {rules(whole, key)}" for key, words in (("ties", "ties"), ("nan", "NaN")) if rules(whole, key)
        ]
        if seen:
            parts.append(f"{operator}: {'; '.join(seen)}")
    return Text("rules seen: " + " | ".join(parts), style="dim") if parts else None


def findings_table(subject: SubjectResult, wide: bool, limit: int = 30) -> Table | None:
    """Every kind of failure with its number of cases, the worst first."""
    found = subject.findings()
    if not found:
        return None
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", show_edge=False)
    table.add_column("class", no_wrap=True)
    table.add_column("aspect", no_wrap=True)
    table.add_column("operator", no_wrap=True)
    table.add_column("finding")
    table.add_column("times", justify="right", no_wrap=True)
    if wide:
        table.add_column("smallest case", no_wrap=True)
    for operator, finding in found[:limit]:
        kind = severity(finding.aspect, finding.name)
        place = (finding.case,) if wide else ()
        shown = Text(kind, style=_STYLES[kind])
        table.add_row(
            shown, finding.aspect, operator, finding.name + worst_error(finding), f"{finding.count:,}", *place
        )
    if len(found) > limit:
        table.add_row("…", "", "", f"{len(found) - limit} more in the JSON and HTML reports", "")
    return table


def worst_error(finding: Finding) -> str:
    """The largest error of a finding, where ulps say something."""
    if finding.worst <= 1 or finding.name == CANCELLATION:
        return ""
    return f" (up to {ulps(finding.worst)} ulps)"


def sentence(subject: SubjectResult) -> str:
    """What is wrong with a subject in one sentence, the worst first."""
    found = subject.findings()
    if not found:
        return "every answer is right"
    parts = []
    for kind in SEVERITIES:
        listed = [f for _, f in found if severity(f.aspect, f.name) == kind]
        if listed:
            cases = sum(f.count for f in listed)
            parts.append(f"{_SENTENCES[kind]} in {len(listed)} {_plural('way', listed)} ({cases:,} times)")
    if parts[0].startswith(_SENTENCES["wrong"]):
        operator, worst = found[0]
        parts[0] += f", such as {operator}: {worst.name}"
    return "; ".join(parts)


_SENTENCES = {"wrong": "wrong", "convention": "follows another convention", "rounding": "not correctly rounded"}


def _plural(word: str, listed: list[Finding]) -> str:
    return word if len(listed) == 1 else f"{word}s"


def comparison_table(result: Result) -> Table:
    """Subjects side by side: share of correctly rounded elements and largest error, by operator and mode."""
    table = Table(title="correctly rounded, largest error in ulps", title_justify="left", header_style="bold")
    table.add_column("operator")
    table.add_column("mode")
    for subject in result.subjects:
        table.add_column(subject.name, justify="right")
    for operator in result.plan.operators:
        for mode in result.plan.modes:
            cells = [subject.summary.select(operator, mode) for subject in result.subjects]
            table.add_row(operator, mode, *(_compared(cell) for cell in cells))
    return table


def _compared(cell: Cell) -> str:
    if not cell.elements:
        return "not supported" if cell.unsupported else "–"
    return share(cell) if cell.correct == cell.elements else f"{share(cell)}, {ulps(cell.worst)}"


def coverage_line(result: Result) -> Text:
    """How many pairs of option values the drawn cases have met, operator by operator, all ranks together."""

    def ratio(operators: tuple[str, ...]) -> str:
        listed = [item for item in result.coverage if item.operator in operators]
        return f"{sum(item.covered for item in listed):,} of {sum(item.possible for item in listed):,}"

    parts = [f"{operator}: {ratio((operator,))}" for operator in result.plan.operators]
    return Text(f"pairs of options drawn: {ratio(result.plan.operators)} | " + " | ".join(parts), style="dim")


def print_reproducer(reproducer: Reproducer, console: Console) -> None:
    """A script, ready to be copied: no frame, and no line broken."""
    title = f"{reproducer.operator}, {reproducer.mode}, {reproducer.dtype}: {reproducer.name}"
    console.print(Rule(title, align="left", style="red"))
    for word, answer in (("got", reproducer.got), ("want", reproducer.want)):
        if answer:
            console.print(Text(f"{word:4} {answer}"), no_wrap=True, overflow="ellipsis", crop=True)
    console.print(Text(reproducer.script), soft_wrap=True)


def print_result(result: Result, console: Console, reproducers: int = 3, quiet: bool = False) -> None:
    """Tables, findings, some reproducers and one line that says how it ended."""
    if not quiet:
        _print_tables(result, console, reproducers)
    for subject in result.subjects:
        console.print(_last_line(result, subject))


def _print_tables(result: Result, console: Console, reproducers: int) -> None:
    for subject in result.subjects:
        parts: list[RenderableType] = [subject_table(subject)]
        seen = rules_line(subject)
        if seen is not None:
            parts.append(seen)
        findings = findings_table(subject, console.width >= 120)
        if findings is not None:
            parts += [Text(""), findings]
        console.print(Group(*parts), Text(""))
    if any(item.covered for item in result.coverage):  # the curated cases come first and are not drawn
        console.print(coverage_line(result), Text(""))
    if len(result.subjects) > 1:
        console.print(comparison_table(result), Text(""))
    for subject in result.subjects:
        for reproducer in subject.reproducers[:reproducers]:
            print_reproducer(reproducer, console)


def _last_line(result: Result, subject: SubjectResult) -> Text:
    total = subject.summary.total()
    ended = "" if result.finished else " (stopped before the end)"
    head = f"{subject.name}: {total.cases:,} cases in {result.seconds:.1f} s, seed {result.plan.seed}{ended}: "
    if not total.judged:
        said = next(iter(total.reasons), "")
        why = (
            "supports nothing of what was asked" + (f" ({said})" if said else "") if total.cases else "no case was run"
        )
        return Text(head + f"{why}: not a pass", style="bold red")
    if result.demand.met_by(subject):
        rest = f"; {total.unsupported:,} cases are not supported" if total.unsupported else ""
        return Text(head + f"passes: {sentence(subject)}{rest}", style="bold green")
    if not result.demand.broken_by(subject):
        return Text(head + f"fails: {total.unsupported:,} cases are not supported", style="bold red")
    return Text(head + f"fails: {sentence(subject)}", style="bold red")
