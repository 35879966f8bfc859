"""The result as JUnit XML, which CI systems show: a suite per subject, a test per operator, mode and element type."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

from halfulp.conformance.report.result import Result, SubjectResult
from halfulp.conformance.summary import Cell, Finding

__all__ = ["to_junit", "write_junit"]


def to_junit(result: Result) -> ET.Element:
    """The XML tree."""
    root = ET.Element("testsuites", name="halfulp check", time=f"{result.seconds:.3f}")
    for subject in result.subjects:
        root.append(_suite(result, subject))
    return root


def _suite(result: Result, subject: SubjectResult) -> ET.Element:
    suite = ET.Element("testsuite", name=f"{subject.name} {subject.version}".strip())
    failures = skipped = 0
    for (operator, mode, dtype), cell in sorted(subject.summary.cells.items()):
        test = ET.SubElement(suite, "testcase", classname=f"{subject.name}.{operator}", name=f"{mode}[{dtype}]")
        broken = [f for f in cell.findings.values() if result.demand.forbids(f)]
        if broken or (cell.unsupported and (subject.complete or result.demand.unsupported)):
            failures += 1
            ET.SubElement(test, "failure", message=_headline(cell, broken)).text = _details(broken)
        elif cell.unsupported == cell.cases:
            skipped += 1
            ET.SubElement(test, "skipped", message="; ".join(cell.reasons)[:500])
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(failures))
    suite.set("skipped", str(skipped))
    suite.set("errors", "0")
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
