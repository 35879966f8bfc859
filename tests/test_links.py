"""Links, commands and versions in README and documentation hold."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import halfulp
from halfulp.cli import main, parser

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "tests" / "README.md", *(ROOT / "docs").rglob("*.md")]
)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in LINK.findall(re.sub(r"`[^`\n]*`", "", text)):
        parts = urlsplit(target)
        if parts.scheme:
            assert parts.scheme == "https", target
            assert "." in parts.netloc, target
            continue
        file = (page.parent / parts.path).resolve() if parts.path else page
        assert file.exists(), target
        assert ROOT in file.parents, target
        if parts.fragment:
            assert parts.fragment in anchors(file), target


def test_the_readme_links_to_pages_and_a_picture() -> None:
    links = LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert {"docs/tutorial/first-hour.md", "docs/spec.md", "docs/assets/pooling.svg"} <= set(links)


def commands(page: Path) -> list[tuple[str, str]]:
    """(command, what the page shows that it prints) of every use of halfulp on a page."""
    found = []
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if block.startswith("$ "):
            first, _, shown = block.removeprefix("$ ").partition("\n")
            found.append((first, shown))
        else:
            joined = block.replace("\\\n", " ")
            found += [(line, "") for line in joined.splitlines()]
    return [(command, shown) for command, shown in found if command.startswith("halfulp ")]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_are_understood_and_print_what_is_shown(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for command, shown in commands(page):
        words = shlex.split(command, comments=True)[1:]
        if not shown:
            assert parser().parse_args(words).command == words[0]
            continue
        assert main(words) == 0
        printed = capsys.readouterr().out.splitlines()
        for line in shown.splitlines():
            assert line.strip() == "…" or line.rstrip() in [p.rstrip() for p in printed], line


def test_the_pages_have_commands() -> None:
    assert sum(len(commands(page)) for page in PAGES) >= 10


PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_version_is_written_once() -> None:
    (written,) = re.findall(r'^version = "(.*)"$', PROJECT, re.MULTILINE)
    assert halfulp.__version__ == written
    assert f"\nversion: {written}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"## {written} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    command = [sys.executable, "-m", "halfulp", "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == f"halfulp {written}\n"


def test_minimum_versions_are_those_that_are_declared() -> None:
    declared = PROJECT[PROJECT.index("\ndependencies = [") : PROJECT.index("[project.scripts]")]
    lowest = dict(re.findall(r"^([\w-]+)==([\d.]+)", (ROOT / ".ci" / "minimum.txt").read_text(), re.MULTILINE))
    found = dict(re.findall(r'"([\w-]+)>=([\d.]+)"', declared))
    tools = {"mypy", "nanobind", "playwright", "mkdocs-material", "mkdocstrings-python", "latex2mathml", "onnxscript"}
    assert found.keys() - tools == lowest.keys() - {"jaxlib", "pyparsing"}
    for name in found.keys() - tools:
        assert lowest[name] == found[name] + ".0" * (lowest[name].count(".") - found[name].count(".")), name
