"""README and documentation show the figures that the project's tools wrote, and no others."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import date
from pathlib import Path
from xml.etree import ElementTree

import pytest
from benchmarks import publish
from benchmarks.older import ISA_NAMES
from benchmarks.pooling import rows

from halfulp import _core
from halfulp.conformance.cases import OPERATORS

ROOT = Path(__file__).parent.parent
FIGURES = json.loads(publish.FIGURES.read_text(encoding="utf-8"))
MODEL = json.loads(publish.MODEL.read_text(encoding="utf-8"))
GRADES = publish.grades_texts(publish.GRADES.read_text(encoding="utf-8"))
TEXTS = {**publish.texts(FIGURES), **publish.model_texts(MODEL), **GRADES}


@pytest.mark.parametrize("name", TEXTS)
def test_every_text_is_made_of_the_figures(name: str) -> None:
    file, _, part = name.partition("#")
    written = (ROOT / file).read_text(encoding="utf-8")
    made = TEXTS[name]
    assert written == (publish.with_part(written, part, made) if part else made)


def test_a_part_without_marks_is_an_error() -> None:
    with pytest.raises(SystemExit, match="no part pooling"):
        publish.with_part("nothing", "pooling", "text")


def test_the_figures_say_when_and_on_what() -> None:
    assert date.fromisoformat(FIGURES["date"])
    assert FIGURES["processor"]
    assert FIGURES["rows"]
    assert set(FIGURES["rows"]) <= set(ISA_NAMES)
    assert set(FIGURES["versions"]) == set(publish.PACKAGES)
    assert {row.name for row in rows()} >= publish.HEADLINES
    for found in FIGURES["rows"].values():
        assert {row["name"] for row in found} >= publish.HEADLINES


def test_every_instruction_set_has_a_table_that_names_the_processor() -> None:
    found = {
        "avx512": [{"name": "row", "seconds": {"halfulp": 1.0, "copy": 1.0, "PyTorch": 8.0}}],
        "avx2": [{"name": "row", "seconds": {"halfulp": 2.0, "copy": 1.0, "PyTorch": 8.0}}],
    }
    figures = {**FIGURES, "rows": found}
    page = publish.page(figures)
    first, second = (page.index(f"## {name}, {FIGURES['processor']}\n") for name in ("AVX-512", "AVX2"))
    assert "| row | 1e+03 | 1.00 | 8 |" in page[first:second]
    assert "| row | 2e+03 | 2.00 | 4 |" in page[second:]


def test_the_summary_counts_rows_that_are_faster() -> None:
    rows = [
        {"name": "a", "seconds": {"halfulp": 1.0, "copy": 1.0, "PyTorch": 8.0, "JAX": 2.0}},
        {"name": "b", "seconds": {"halfulp": 1.0, "copy": 1.0, "PyTorch": 2.0, "JAX": 0.5}},
        {"name": "c", "seconds": {"halfulp": 1.0, "copy": 1.0, "PyTorch": 0.5}},
        {"name": "d", "seconds": {"halfulp": 1.0, "copy": 1.0, "JAX": 0.5}},
    ]
    text = publish.summary({**FIGURES, "rows": {"avx512": rows}})
    assert "Of 3 measured operations, halfulp is faster than PyTorch in 2 (median 2 times) " in text
    assert "faster than every peer in 1." in text


@pytest.mark.skipif("avx2" not in _core.available_isas(), reason="needs a processor with AVX2")
def test_peers_use_no_later_instruction_set_than_ours() -> None:
    script = (
        "from benchmarks.older import allow_only; allow_only('avx2'); import torch; from halfulp import _core;"
        "print(_core.get_isa(), torch.backends.cpu.get_cpu_capability())"
    )
    command = [sys.executable, "-c", script]
    assert subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout == "avx2 AVX2\n"


def test_the_table_of_the_model_names_the_machine() -> None:
    assert MODEL["processor"]
    assert date.fromisoformat(MODEL["date"])
    figures = {**MODEL, "milliseconds": {"inference": [40.0, 20.0]}}
    (text,) = publish.model_texts(figures).values()
    assert "| inference | 40 ms | 20 ms | 2 × |" in text
    assert MODEL["processor"] in text


@pytest.mark.parametrize("name", ["pooling.svg", "pooling-all.svg"])
def test_a_picture_is_well_formed_and_has_a_dark_mode(name: str) -> None:
    text = (ROOT / "docs" / "assets" / name).read_text(encoding="utf-8")
    assert ElementTree.fromstring(text).attrib["width"] == "800"
    assert "prefers-color-scheme:dark" in text
    assert publish.caption(FIGURES) in text


def test_the_page_of_the_check_has_every_operator() -> None:
    page = publish.GRADES.read_text(encoding="utf-8")
    assert re.search(r"`halfulp check torch jax onnxruntime --mode forward .*`, \d{4}-\d\d-\d\d: ", page)
    named = re.findall(r"^\| (\w+) \| .* \| .* \| .* \|$", page, re.MULTILINE)
    unrun = re.findall(r"\w+", (re.findall(r"No subject runs (.*)\.", page) or [""])[0])
    assert sorted([*named, *unrun]) == sorted(OPERATORS)


def test_the_table_of_the_readme_has_the_best_known_operators() -> None:
    part = TEXTS["README.md#check"]
    assert tuple(re.findall(r"^\| (\w+) \| .* \| .* \| .* \|$", part, re.MULTILINE)) == publish.KNOWN
    assert re.search(r"\n`halfulp check torch jax .*`, \d{4}-\d\d-\d\d\. \[All \d+ operators\]", part)
