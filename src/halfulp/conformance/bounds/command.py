"""What ``halfulp check --mode bounds`` runs and prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from halfulp.conformance.bounds.judge import STATUSES
from halfulp.conformance.bounds.markdown import to_markdown, version_of
from halfulp.conformance.bounds.runner import Grade, check_bounds
from halfulp.conformance.bounds.script import script

__all__ = ["run", "to_data"]


_FOREIGN = ("op", "dtype", "junit", "report", "journal", "scheduler", "memory_limit")
"""Options of the other modes, without a meaning here."""


def run(options: Any, console: Console) -> int:
    """Grade every verifier that was named. The exit code is 0 if none is wrong, otherwise 1.

    A ValueError says which name or option cannot be used.
    """
    for flag in _FOREIGN:
        if getattr(options, flag) is not None:
            raise ValueError(f"--{flag.replace('_', '-')}: has no meaning with --mode bounds")
    if options.fail_on not in (None, "any", "none"):
        raise ValueError(f"--fail-on {options.fail_on}: must be any or none with --mode bounds")
    records = all(name.split("-")[0] == "halfulp" for name in options.subjects)  # others read no records of ours
    grades = [_graded(name, options, console, records) for name in options.subjects]
    for grade in grades:
        _print(grade, console, options)
    if options.json:
        options.json.write_text(json.dumps([to_data(grade) for grade in grades], indent=1), encoding="utf-8")
    if options.markdown:
        options.markdown.write_text(to_markdown(grades), encoding="utf-8")
    if options.scripts:
        _write_scripts(grades, options.scripts)
    return 0 if options.fail_on == "none" or all(grade.passed for grade in grades) else 1


def _graded(name: str, options: Any, console: Console, records: bool) -> Grade:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    hidden = options.quiet or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task(f"bounds of {name}", total=options.cases)
        return check_bounds(
            name,
            options.cases,
            options.seed,
            records=records,
            isolated=options.jobs > 0,
            time_limit=options.time_limit,
            case_timeout=options.case_timeout,
            progress=lambda done, _: progress.update(task, completed=done),
        )


def _summary(grade: Grade) -> str:
    parts = [f"{grade.statuses[status]} {status}" for status in STATUSES if grade.statuses[status]]
    width = ""
    if grade.mean_tightness is not None:
        width += f"; {grade.mean_tightness:.3f} times the exact width, on {len(grade.tightness)} networks"
    if grade.mean_looseness is not None:
        width += f"; at most {grade.mean_looseness:.3f} times, on {len(grade.looseness)} others"
    return f"{grade.name}: {grade.networks} networks: {', '.join(parts) or 'none'}{width} ({grade.seconds:.0f} s)"


def _print(grade: Grade, console: Console, options: Any) -> None:
    if not options.quiet and grade.by_feature:
        shown = [status for status in STATUSES if grade.statuses[status]]
        table = Table(title=f"Bounds of {grade.name}, seed {grade.seed}", title_justify="left")
        table.add_column("networks with")
        for status in shown:
            table.add_column(status, justify="right")
        for feature, counts in sorted(grade.by_feature.items()):
            table.add_row(feature, *(str(counts[status] or "") for status in shown))
        console.print(table)
        for text, count in grade.refusals.most_common(5):
            console.print(f"refused {count} times: {text}", markup=False, highlight=False)
    for finding in grade.findings[: options.show if not options.quiet else 0]:
        console.rule(f"{finding.verdict.status}, network {finding.number}")
        text = script(grade.name, finding.network, finding.verdict)
        console.print(text, markup=False, highlight=False, soft_wrap=True)
    console.print(_summary(grade), markup=False, highlight=False, soft_wrap=True)


def to_data(grade: Grade) -> dict[str, Any]:
    """A grade as plain data."""
    return {
        "subject": grade.name,
        "version": version_of(grade.name),
        "mode": "bounds",
        "seed": grade.seed,
        "networks": grade.networks,
        "seconds": grade.seconds,
        "passed": grade.passed,
        "statuses": dict(grade.statuses),
        "tightness": grade.mean_tightness,
        "looseness": grade.mean_looseness,
        "features": {name: dict(counts) for name, counts in sorted(grade.by_feature.items())},
        "refusals": dict(grade.refusals),
        "findings": [
            {
                "network": finding.number,
                "status": finding.verdict.status,
                "text": finding.verdict.text,
                "script": script(grade.name, finding.network, finding.verdict),
            }
            for finding in grade.findings
        ],
    }


def _write_scripts(grades: list[Grade], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for grade in grades:
        for number, finding in enumerate(grade.findings):
            safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in grade.name)
            text = script(grade.name, finding.network, finding.verdict)
            (folder / f"bounds-{safe}-{number}.py").write_text(text, encoding="utf-8")
