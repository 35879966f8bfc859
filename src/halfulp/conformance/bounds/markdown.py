"""Grades of verifiers as Markdown tables."""

from __future__ import annotations

import datetime
import importlib
import importlib.metadata
from collections import Counter

from halfulp.conformance.bounds.runner import FINDINGS, Grade

__all__ = ["to_markdown", "version_of"]


def version_of(name: str) -> str:
    """The version of the library of a verifier, or nothing.

    >>> version_of("no_such_module:bounds")
    ''
    """
    library = {"halfulp": "halfulp", "maraboupy": "maraboupy", "auto_LiRPA": "auto_LiRPA"}
    found = next((module for start, module in library.items() if name == start or name.startswith(f"{start}-")), None)
    if found is None:
        return ""
    try:
        return str(getattr(importlib.import_module(found), "__version__", None) or importlib.metadata.version(found))
    except (ImportError, importlib.metadata.PackageNotFoundError):
        return ""


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def to_markdown(grades: list[Grade]) -> str:
    """Two tables: the verifiers beside each other, and wrong answers by feature of the network."""
    day = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    first = grades[0]
    lines = [f"{first.networks} networks, seed {first.seed}, {day}.", ""]
    heads = ["sound", "unsound", "rounding", "malformed", "refused", "crashed or hung", "tightness", "at most"]
    lines += [_row(["verifier", *heads]), _row(["---", *["---:"] * len(heads)])]
    for grade in grades:
        counts = [grade.statuses[status] for status in ("sound", "unsound", "rounding", "malformed", "refused")]
        counts.append(grade.statuses["crashed"] + grade.statuses["hung"])
        ratios = [_ratio(grade.mean_tightness), _ratio(grade.mean_looseness)]
        lines.append(_row([f"{grade.name} {version_of(grade.name)}".strip(), *map(str, counts), *ratios]))
    lines += ["", "Wrong answers among the answers, by what a network has (empty: every such network is refused):", ""]
    lines.append(_row(["networks with", *(grade.name for grade in grades)]))
    lines.append(_row(["---", *["---:"] * len(grades)]))
    for feature in sorted({feature for grade in grades for feature in grade.by_feature}):
        lines.append(_row([feature, *(_share(grade, feature) for grade in grades)]))
    return "\n".join([*lines, ""])


def _share(grade: Grade, feature: str) -> str:
    counts: Counter[str] = grade.by_feature.get(feature, Counter())
    answered = sum(counts.values()) - counts["refused"]
    return f"{sum(counts[status] for status in FINDINGS)} of {answered}" if answered else ""
