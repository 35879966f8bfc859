"""The C++ core is what `cpp/README.md` says: which folder uses which, its files, its engines, where intrinsics are."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from halfulp import _core

CPP = Path(__file__).parent.parent / "cpp"
README = (CPP / "README.md").read_text(encoding="utf-8")
SOURCES = sorted(CPP.glob("src/**/*.?pp"))
FAMILIES = sorted(path.name for path in (CPP / "src").iterdir() if path.is_dir())

MACHINE = re.compile(
    r"\b(_mm\d*_\w+|__m\d+\w*|v(ld|st)\d\w*_[usf]\d+|HALFULP_(X86|NEON|MASKS|AVX2|ISA_\w+)|vector_size)\b"
)
"""Intrinsics, vector extensions, and what tells instruction sets apart."""
ALLOWED = {"base/kernel_table.hpp", "base/isa.cpp"}
"""Outside ``simd``: the choice of a table of kernels, and what the processor has."""


def declared_uses() -> dict[str, set[str]]:
    """The folders that each family says it uses, from the table of folders."""
    rows = re.findall(r"^\| `src/(\w+)` \|[^|]*\|([^|]*)\|$", README, re.MULTILINE)
    return {family: set(re.findall(r"\w+", re.sub(r"\([^)]*\)", "", uses))) - {"nothing"} for family, uses in rows}


def includes_of(family: str) -> set[str]:
    """The folders whose headers a family includes."""
    text = "".join(path.read_text(encoding="utf-8") for path in (CPP / "src" / family).glob("**/*.?pp"))
    return set(re.findall(r'^#include "(\w+)/', text, re.MULTILINE)) - {family, "halfulp"}


def machine_words(text: str) -> set[str]:
    return {match.group() for match in MACHINE.finditer(text)} - {"HALFULP_ISA_NAMESPACE"}


def test_every_folder_is_in_the_map() -> None:
    assert sorted(declared_uses()) == FAMILIES


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_includes_what_the_map_says(family: str) -> None:
    assert includes_of(family) == declared_uses()[family]


def test_families_do_not_use_each_other_in_circles() -> None:
    order = list(TopologicalSorter(declared_uses()).static_order())
    assert order.index("base") < order.index("max")


def test_every_file_that_the_map_names_exists() -> None:
    named = set(re.findall(r"(?<![\w>/])[\w/]+\.[ch]pp\b", README))
    there = {path.name for path in CPP.glob("**/*.?pp")}
    assert len(named) > 30
    missing = {name for name in named if Path(name).name not in there or ("/" in name and not named_path_exists(name))}
    assert missing == set()


def named_path_exists(name: str) -> bool:
    return any((CPP / folder / name).exists() for folder in (".", "src", "include"))


def test_every_engine_is_in_the_map() -> None:
    named = set(re.findall(r"`([a-z]\w+)`", README))
    assert set(_core.engine_counts()) - named == set()


def test_only_the_vector_layer_knows_instruction_sets() -> None:
    found = {}
    for path in SOURCES:
        name = path.relative_to(CPP / "src").as_posix()
        words = machine_words(path.read_text(encoding="utf-8"))
        if words and not name.startswith("simd/") and name not in ALLOWED:
            found[name] = words
    assert found == {}


@pytest.mark.parametrize(
    "line",
    [
        "__m256i x = _mm256_setzero_si256();",
        "float32x4_t x = vld1q_f32(p);",
        "#ifdef HALFULP_ISA_avx512",
        "typedef int V __attribute__((vector_size(16)));",
    ],
)
def test_machine_words_are_recognised(line: str) -> None:
    assert machine_words(line)


def test_kernels_live_in_the_namespace_of_their_instruction_set() -> None:
    kernels = sorted(CPP.glob("src/*/kernels/*.?pp"))
    outside = [str(path) for path in kernels if "HALFULP_ISA_NAMESPACE" not in path.read_text(encoding="utf-8")]
    assert kernels != []
    assert outside == []
