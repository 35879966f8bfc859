"""The exceptions, and the register of constraints: every label is raised, tested and documented, and none is stale."""

from __future__ import annotations

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import halfulp as hu
from halfulp.errors import CONSTRAINTS, DTypeError, HalfulpError, PolicyError, ShapeError, TapeError

ROOT = Path(__file__).parent.parent
LABEL = re.compile(r"\\?\[([A-Z]\d+)\\?\]")
"""A label as messages and documents show it, and as patterns for messages do."""


def strings(path: Path) -> Iterator[str]:
    """Every string constant of a source file, f-string parts included, docstrings left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def labels_in(folder: Path, leave_out: str) -> set[str]:
    """The labels that the code of a folder names: as a whole string ("W3") or at the end of a message ("[W3]")."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        if path.name != leave_out:
            for text in strings(path):
                found.update(LABEL.findall(text))
                if re.fullmatch(r"[A-Z]\d+", text):
                    found.add(text)
    return found


def documented(page: str) -> set[str]:
    return set(LABEL.findall(page))


def complaints(raised: set[str], tested: set[str], written: set[str], register: set[str]) -> list[str]:
    """What is wrong between the register, the code, the tests and the document."""
    out = []
    for place, found in (("src/", raised), ("tests/", tested), ("docs/spec.md", written)):
        out += [f"[{label}] is missing from {place}" for label in sorted(register - found)]
    out += [f"[{label}] in docs/spec.md is stale" for label in sorted(written - register)]
    return out


def test_every_label_is_raised_tested_and_documented() -> None:
    raised = labels_in(ROOT / "src" / "halfulp", leave_out="errors.py")
    tested = labels_in(ROOT / "tests", leave_out="test_errors.py")
    written = documented((ROOT / "docs" / "spec.md").read_text(encoding="utf-8"))
    assert complaints(raised, tested, written, set(CONSTRAINTS)) == []


def test_the_label_check_can_fail() -> None:
    register = {"W1", "W2"}
    assert complaints(register, register, register, register) == []
    assert complaints({"W1"}, register, register, register) == ["[W2] is missing from src/"]
    assert complaints(register, {"W2"}, register, register) == ["[W1] is missing from tests/"]
    assert complaints(register, register, set(), {"W1"}) == ["[W1] is missing from docs/spec.md"]
    assert complaints(register, register, {"W1", "W2", "Q9"}, register) == ["[Q9] in docs/spec.md is stale"]


def test_the_document_states_each_constraint_in_the_words_of_the_register() -> None:
    page = " ".join((ROOT / "docs" / "spec.md").read_text(encoding="utf-8").split())
    assert [label for label, rule in CONSTRAINTS.items() if f"| [{label}] | {rule} |" not in page] == []


def test_message_and_parts() -> None:
    error = ShapeError("max_pool2d", "stride=(0, 1)", "every stride must be >= 1", "W3")
    assert str(error) == "max_pool2d: stride=(0, 1): every stride must be >= 1 [W3]"
    assert (error.operator, error.argument, error.rule, error.label) == (
        "max_pool2d",
        "stride=(0, 1)",
        "every stride must be >= 1",
        "W3",
    )


def test_an_unknown_label_cannot_be_raised() -> None:
    with pytest.raises(KeyError, match="unknown constraint label 'Q9'"):
        HalfulpError("op", "x=1", "rule", "Q9")


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [(ShapeError, ValueError), (DTypeError, TypeError), (PolicyError, ValueError), (TapeError, ValueError)],
)
def test_kinds(kind: type[HalfulpError], builtin: type[Exception]) -> None:
    assert issubclass(kind, HalfulpError)
    assert issubclass(kind, builtin)
    assert getattr(hu, kind.__name__) is kind


def test_errors_survive_pickling() -> None:
    error = PolicyError("max_pool1d", "ties='x'", "must be one of 'first'", "P1")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is PolicyError
    assert str(copy) == str(error)
