"""The parts of the documentation site that are made by docs/site.py."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import halfulp

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site() -> ModuleType:
    spec = importlib.util.spec_from_file_location("halfulp_site", ROOT / "docs" / "site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_public_name_has_an_entry_on_one_page(site: ModuleType) -> None:
    listed = [name for text in site.api_pages().values() for name in re.findall(r"^::: (\S+)$", text, re.MULTILINE)]
    assert len(listed) == len(set(listed))
    modules = {"functional", "geometry", "ops", "spec"}
    assert {f"halfulp.{name}" for name in halfulp.__all__ if name not in modules} <= set(listed)


def test_every_module_page_is_in_the_navigation(site: ModuleType) -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [page for page in site.api_pages() if f"reference/api/{page}.md\n" not in navigation] == []


def test_copying_takes_code_without_prompts_and_output(site: ModuleType) -> None:
    block = (
        '<pre><code><span class="gp">&gt;&gt;&gt; </span>f(<span>"a"</span>,\n<span>... </span>  1)\n3\n</code></pre>'
    )
    assert site.copied(block) == "f(&quot;a&quot;,\n  1)"
    made = site.on_page_content(f'<p>text</p><div class="highlight">{block}</div><div class="highlight">plain</div>')
    assert made.count("data-copy") == 1
    assert '<div class="highlight" data-copy="f(&quot;a&quot;,\n  1)">' in made
    assert site.copied("<code>$ halfulp explain W3\nW3  every stride</code>") == "halfulp explain W3"


def test_labels_link_to_the_register(site: ModuleType) -> None:
    assert site.with_labels("see [W3] and [I1] [I2]", "../spec.md") == (
        r"see [\[W3\]](../spec.md#W3) and [\[I1\]](../spec.md#I1) [\[I2\]](../spec.md#I2)"
    )
    assert site.with_labels("| [W3] | every stride |", "spec.md") == r'| <a id="W3"></a>\[W3\] | every stride |'
    assert site.with_labels("[W3](elsewhere.md)", "spec.md") == "[W3](elsewhere.md)"


def test_the_home_page_shows_the_figures_of_the_readme(site: ModuleType) -> None:
    home = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    parts = re.findall(r"^<!-- README: (\w+) -->$", home, re.MULTILINE)
    assert parts == ["check", "pooling", "model"]
    assert "](assets/pooling.svg)" in site.readme_part("pooling")


def test_readme_and_home_page_begin_with_the_same_paragraph() -> None:
    first = [
        next(p for p in (ROOT / page).read_text(encoding="utf-8").split("\n\n") if p.startswith("halfulp tells you"))
        for page in ("README.md", "docs/index.md")
    ]
    assert first[0] == first[1]


def test_a_notebook_becomes_a_page_with_its_outputs(site: ModuleType) -> None:
    page = site.notebook_page(ROOT / "docs" / "notebooks" / "tutorial.ipynb")
    assert page.startswith("# Tutorial\n")
    assert 'href="../tutorial.ipynb"' in page
    assert "```text\narray([2.], dtype=float32)\n```" in page
