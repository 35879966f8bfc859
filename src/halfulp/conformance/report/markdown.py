"""The result as a Markdown table, for a README or an issue."""

from __future__ import annotations

from halfulp.conformance.report.result import Result
from halfulp.conformance.report.terminal import rules, share, ulps
from halfulp.conformance.summary import Cell

__all__ = ["to_markdown"]


def to_markdown(result: Result) -> str:
    """Subjects side by side: what is correctly rounded, the largest error, and the rules that were seen."""
    heads = [f"{subject.name} {subject.version}".strip() for subject in result.subjects]
    lines = [
        f"| operator | mode | {' | '.join(heads)} |",
        f"|---|---|{'---|' * len(heads)}",
    ]
    for operator in result.plan.operators:
        for mode in result.plan.modes:
            cells = [subject.summary.select(operator, mode) for subject in result.subjects]
            lines.append(f"| {operator} | {mode} | {' | '.join(map(_cell, cells))} |")
    plan = result.plan
    types = " ".join(f"--dtype {dtype}" for dtype in plan.dtypes)
    lines.append("")
    lines.append(
        f"`halfulp check {' '.join(result.names())} {types} --cases {plan.cases} --seed {plan.seed}`, "
        f"{result.date[:10]}: share of elements that are correctly rounded, and the largest error in ulps where a rule "
        "is kept."
    )
    return "\n".join(lines) + "\n"


def _cell(cell: Cell) -> str:
    if not cell.elements:
        return "not supported" if cell.unsupported else "–"
    text = share(cell)
    if cell.correct != cell.elements and cell.worst:
        largest = ulps(cell.worst)
        text += f", {largest} {'ulp' if largest == '1' else 'ulps'}"
    ties = rules(cell, "ties")
    return f"{text}; ties: {ties}" if ties else text
