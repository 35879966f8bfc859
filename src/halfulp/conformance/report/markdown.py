"""The result as a Markdown table, for a README or an issue."""

from __future__ import annotations

from math import inf

from halfulp.conformance.cases import MODES
from halfulp.conformance.report.result import Result
from halfulp.conformance.report.terminal import rules, share, ulps
from halfulp.conformance.summary import Cell
from halfulp.numbers import FORMATS

__all__ = ["to_markdown"]


def to_markdown(result: Result) -> str:
    """Subjects side by side: what is correctly rounded, the largest error, and the rules that were seen."""
    heads = [f"{subject.name} {subject.version}".strip() for subject in result.subjects]
    modes = result.plan.modes
    first = "operator | mode" if len(modes) > 1 else f"operator, {modes[0]}"
    lines = [
        f"| {first} | {' | '.join(heads)} |",
        f"|{'---|' * (len(heads) + 1 + (len(modes) > 1))}",
    ]
    left_out: list[str] = []
    dtypes = result.plan.dtypes
    lost = 2.0 ** (FORMATS[dtypes[0]].precision - 2) if len(dtypes) == 1 else inf
    for operator in result.plan.operators:
        for mode in modes:
            cells = [subject.summary.select(operator, mode) for subject in result.subjects]
            if not any(cell.elements for cell in cells) and any(cell.unsupported for cell in cells):
                left_out.append(operator)
                continue
            name = f"{operator} | {mode}" if len(modes) > 1 else operator
            lines.append(f"| {name} | {' | '.join(_cell(cell, lost) for cell in cells)} |")
    plan = result.plan
    chosen = [f"--mode {mode}" for mode in modes if set(modes) != set(MODES)]
    chosen += [f"--dtype {dtype}" for dtype in plan.dtypes]
    command = ["halfulp check", *result.names(), *chosen, f"--cases {plan.cases}", f"--seed {plan.seed}"]
    lines.append("")
    lines.append(
        f"`{' '.join(command)}`, {result.date[:10]}: the share of elements that are correctly rounded, and the largest "
        "rounding error in ulps."
    )
    if left_out:
        lines[-1] += f" No subject runs {', '.join(dict.fromkeys(left_out))}."
    return "\n".join(lines) + "\n"


def _cell(cell: Cell, lost: float) -> str:
    """The share and the largest error; from ``lost`` ulps on, no digit is right."""
    if not cell.elements:
        return "not supported" if cell.unsupported else "–"
    text = share(cell)
    if cell.correct != cell.elements and cell.worst:
        largest = ulps(cell.worst)
        text += ", all digits lost" if cell.worst >= lost else f", {largest} {'ulp' if largest == '1' else 'ulps'}"
    ties = rules(cell, "ties")
    return f"{text}; ties: {ties}" if ties else text
