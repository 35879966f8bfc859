"""Runs the Python blocks of the README and of every page under docs/, each page in one namespace, outputs compared."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import flint
import pytest

from halfulp.records import declarations

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
HEADINGS = ["Meaning", "Inputs", "Output shape", "Constraints", "Ties and NaN", "JVP", "VJP", "Examples"]
OPERATORS = [d.record.__name__ for d in declarations() if d.record.__module__.startswith("halfulp.")]


def failures_of(page: str, name: str) -> list[str]:
    """What does not do as the page says: a block of prompts is compared, a block of plain code must run."""
    reports: list[str] = []
    namespace: dict[str, object] = {"__name__": "__main__"}
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False)
    for match in BLOCK.finditer(page):
        line, source = page[: match.start()].count("\n") + 1, match.group(1)
        if ">>>" in source:
            test = parser.get_doctest(source, namespace, name, name, line)
            runner.run(test, out=reports.append, clear_globs=False)
            namespace.update(test.globs)
        else:
            exec(compile("\n" * line + source, name, "exec", dont_inherit=True), namespace)
    return reports


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_page(page: Path) -> None:
    precision = flint.ctx.prec
    try:
        assert failures_of(page.read_text(encoding="utf-8"), page.name) == []
    finally:
        flint.ctx.prec = precision


def test_the_runner_notices() -> None:
    assert failures_of("```python\n>>> x = 1\n\n```\n\n```python\n>>> x + 1\n2\n\n```\n", "good.md") == []
    assert len(failures_of("```python\n>>> 1 + 1\n3\n\n```\n", "bad.md")) == 1
    with pytest.raises(ZeroDivisionError):
        failures_of("```python\n1 / 0\n```\n", "bad.md")


def test_every_operator_has_the_same_headings_in_the_specification() -> None:
    page = (ROOT / "docs" / "spec.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", page, flags=re.MULTILINE)
    found = {section.split("\n", 1)[0]: re.findall(r"^### (.*)$", section, re.MULTILINE) for section in sections}
    assert sorted(name for name in found if name in OPERATORS) == sorted(OPERATORS)
    assert {name: found[name] for name in OPERATORS} == dict.fromkeys(OPERATORS, HEADINGS)
