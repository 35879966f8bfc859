"""The result as JUnit XML, which CI systems show: a suite per subject, a test per operator, mode and element type."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from halfulp.conformance.report.result import Result, SubjectResult
from halfulp.conformance.summary import Cell, Finding

__all__ = ["to_junit", "write_junit"]


def _text(text: str) -> str:
    """A text that XML 1.0 can hold: control characters and halves of characters are escaped."""
    allowed = (c in "\t\n\r" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c >= "\U00010000" for c in text)
    return "".join(c if ok else c.encode("unicode_escape").decode() for c, ok in zip(text, allowed, strict=True))


def to_junit(result: Result) -> ET.Element:
    """The XML tree."""
    root = ET.Element("testsuites", name="halfulp check", time=f"{result.seconds:.3f}")
    for subject in result.subjects:
        root.append(_suite(result, subject))
    return root


def _suite(result: Result, subject: SubjectResult) -> ET.Element:
    suite = ET.Element("testsuite", name=_text(f"{subject.name} {subject.version}".strip()))
    failures = skipped = 0
    for (operator, mode, dtype), cell in sorted(subject.summary.cells.items()):
        test = ET.SubElement(suite, "testcase", classname=_text(f"{subject.name}.{operator}"), name=f"{mode}[{dtype}]")
        broken = [f for f in cell.findings.values() if result.demand.forbids(f, subject)]
        if broken or (cell.unsupported and (subject.complete or result.demand.unsupported)):
            failures += 1
            ET.SubElement(test, "failure", message=_text(_headline(cell, broken))).text = _text(_details(broken))
        elif cell.unsupported == cell.cases:
            skipped += 1
            ET.SubElement(test, "skipped", message=_text("; ".join(cell.reasons)[:500]))
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(failures))
    suite.set("skipped", str(skipped))
    nothing = not subject.summary.total().judged  # what answers no case shows nothing
    if nothing:
        test = ET.SubElement(suite, "testcase", classname=_text(subject.name), name="answers")
        ET.SubElement(test, "error", message="no case was answered")
        suite.set("tests", str(len(suite)))
    suite.set("errors", str(int(nothing)))
    return suite


def _headline(cell: Cell, broken: list[Finding]) -> str:
    if not broken:
        return f"{cell.unsupported} of {cell.cases} cases are not supported"
    return f"{cell.failed + cell.crashed} of {cell.cases} cases fail: " + "; ".join(f.name for f in broken)


def _details(broken: list[Finding]) -> str:
    return "\n".join(
        f"{f.aspect}: {f.name}: {f.count} times, up to {f.worst:g} ulps, such as case {f.case} {f.message}".rstrip()
        for f in broken
    )


def write_junit(result: Result, path: Path) -> None:
    """Write the XML to a file."""
    tree = ET.ElementTree(to_junit(result))
    ET.indent(tree)
    tree.write(path, encoding="utf-8", xml_declaration=True)
