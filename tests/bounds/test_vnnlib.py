"""Property files: what is read, and what is refused."""

from __future__ import annotations

import gzip
import itertools
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfulp.bounds import _vnnlib, _vnnlib_text
from halfulp.bounds._vnnlib import Inequality, parse_property, read_property
from halfulp.errors import ModelError

HEAD = """; a comment (with parentheses
(declare-const X_0 Real)
(declare-const X_1 Real)
(declare-const Y_0 Real)
(declare-const Y_1 Real)
"""
BOX = """(assert (>= X_0 -1)) (assert (<= X_0 1))
(assert (>= X_1 0.1)) (assert (<= X_1 25e-2))
"""
F = Fraction


def row(bound: int | Fraction, **coefficients: int) -> Inequality:
    return Inequality(tuple((int(name[1:]), F(value)) for name, value in coefficients.items()), F(bound))


def test_the_simple_form() -> None:
    stated = parse_property(HEAD + BOX + "(assert (<= Y_0 Y_1))(assert (>= Y_1 2))")
    assert (stated.inputs, stated.outputs) == (2, 2)
    assert stated.lower == (F(-1), F(1, 10))
    assert stated.upper == (F(1), F(1, 4))
    assert stated.unsafe == ((row(0, y0=1, y1=-1), row(-2, y1=-1)),)


def test_a_disjunction_of_outputs() -> None:
    stated = parse_property(HEAD + BOX + "(assert (or (and (>= Y_0 Y_1)) (and (<= Y_0 1) (>= Y_1 3.5))))")
    assert stated.unsafe == ((row(0, y0=-1, y1=1),), (row(1, y0=1), row(F(-7, 2), y1=-1)))
    matrix, bound = stated.arrays(stated.unsafe[1])
    assert matrix.tolist() == [[1, 0], [0, -1]]
    assert bound.tolist() == [1, F(-7, 2)]


def test_a_disjunction_of_inputs() -> None:
    one = "(and (>= X_0 0) (<= X_0 1) (>= X_1 0) (<= X_1 1) (>= Y_0 0))"
    two = "(and (>= X_0 2) (<= X_0 3) (>= X_1 0) (<= X_1 1) (<= Y_0 9))"
    three = "(and (>= X_0 0) (<= X_0 1) (>= X_1 0) (<= X_1 1) (<= Y_1 5))"
    stated = parse_property(HEAD + f"(assert (or {one} {two} {three}))")
    assert len(stated.cases) == 2
    assert stated.cases[0].lower == (0, 0)
    assert stated.cases[0].unsafe == ((row(0, y0=-1),), (row(5, y1=1),))
    assert stated.cases[1].upper == (3, 1)
    assert stated.cases[1].unsafe == ((row(9, y0=1),),)
    with pytest.raises(
        ModelError, match=r"^vnnlib: lower of 2 cases: the property has several boxes; use .cases \[Q5\]$"
    ):
        _ = stated.lower


def test_linear_terms_and_numbers() -> None:
    terms = "(assert (<= (+ (* 2 Y_0) (- Y_1) (/ 1 3)) (- (* 0.5 Y_1 4) 1e-3 (/ Y_0 4))))"
    stated = parse_property(HEAD + BOX + terms)
    expected = Inequality(((0, F(9, 4)), (1, F(-3))), F(-1, 1000) - F(1, 3))
    assert stated.unsafe == ((expected,),)
    sides = "(assert (<= (* -2 X_0) 3)) (assert (<= X_0 +.5)) (assert (and (<= X_1 1.) (>= X_1 0)))"
    scaled = parse_property(HEAD + sides + "(assert (>= Y_0 0))")
    assert scaled.lower == (F(-3, 2), 0)
    assert scaled.upper == (F(1, 2), 1)


def test_bounds_intersect() -> None:
    stated = parse_property(HEAD + BOX + "(assert (<= X_0 0.5)) (assert (>= X_0 -7)) (assert (>= Y_0 0))")
    assert (stated.lower[0], stated.upper[0]) == (-1, F(1, 2))


formulas = st.recursive(
    st.tuples(st.sampled_from(["<=", ">="]), st.sampled_from(["Y_0", "Y_1"]), st.integers(-1, 1)),
    lambda inner: st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=1, max_size=3)),
    max_leaves=8,
)


def written(formula: tuple) -> str:  # type: ignore[type-arg]
    if formula[0] in ("and", "or"):
        return f"({formula[0]} {' '.join(map(written, formula[1]))})"
    return f"({formula[0]} {formula[1]} {formula[2]})"


def true(formula: tuple, y: tuple[int, int]) -> bool:  # type: ignore[type-arg]
    if formula[0] in ("and", "or"):
        return (all if formula[0] == "and" else any)(true(part, y) for part in formula[1])
    value = y[int(formula[1][2:])]
    return value <= formula[2] if formula[0] == "<=" else value >= formula[2]


@given(st.lists(formulas, min_size=1, max_size=3))
def test_the_unsafe_set_is_the_formula(asserted: list[tuple]) -> None:  # type: ignore[type-arg]
    stated = parse_property(HEAD + BOX + "".join(f"(assert {written(formula)})" for formula in asserted))
    for y in itertools.product(range(-2, 3), repeat=2):
        expected = all(true(formula, y) for formula in asserted)
        assert any(all(row.holds(y) for row in conjunction) for conjunction in stated.unsafe) == expected


REFUSED = [
    ("(assert (<= Y_0 1)", 8, "this parenthesis is never closed", "Q1"),
    ("(assert (<= Y_0 1)))", 8, "')' stands outside of parentheses", "Q1"),
    ("hello", 8, "'hello' stands outside of parentheses", "Q1"),
    ("((<= Y_0 1))", 8, "a list must start with a word", "Q1"),
    ("(check-sat)", 8, "(check-sat …) is not (declare-const …) or (assert FORMULA)", "Q1"),
    ("(assert)", 8, "(assert …) is not (declare-const …) or (assert FORMULA)", "Q1"),
    ("(" * 65, 8, "parentheses nest deeper than 64", "Q1"),
    ("(declare-const X_0 Real)", 8, "X_0 is declared twice", "Q2"),
    ("(declare-const Z_0 Real)", 8, "'Z_0' is not a name X_0, X_1, … or Y_0, Y_1, …", "Q2"),
    ("(declare-const X_03 Real)", 8, "'X_03' is not a name X_0, X_1, … or Y_0, Y_1, …", "Q2"),
    ("(declare-const X_2 Int)", 8, "a declaration is (declare-const NAME Real)", "Q2"),
    ("(declare-const X_3 Real)", 8, "X_2 is not declared, but 3 variables X_… are; number them from 0", "Q2"),
    ("(assert (<= Y_7 0))", 8, "Y_7 is not declared", "Q2"),
    ("(assert (< Y_0 0))", 8, "(< …) is not and, or, <= or >= with operands", "Q3"),
    ("(assert (and))", 8, "(and …) is not and, or, <= or >= with operands", "Q3"),
    ("(assert (<= Y_0))", 8, "<= takes two terms", "Q3"),
    ("(assert (<= Y_0 nan))", 8, "'nan' is neither a declared variable nor a number", "Q3"),
    ("(assert (<= Y_0 1/3))", 8, "'1/3' is neither a declared variable nor a number", "Q3"),
    ("(assert (<= Y_0 1e9999))", 8, "the exponent of '1e9999' is larger than 2000", "Q3"),
    ("(assert (<= Y_0 " + "1" * 2001 + "))", 8, "a number has more than 2000 characters", "Q3"),
    ("(assert (<= (* Y_0 Y_1) 1))", 8, "a product of two variables is not linear", "Q3"),
    ("(assert (<= (/ 1 Y_1) 1))", 8, "(/ …) is not a linear term of +, -, * and / by a number", "Q3"),
    ("(assert (<= (/ Y_1 0) 1))", 8, "(/ …) is not a linear term of +, -, * and / by a number", "Q3"),
    ("(assert (<= 0 1))", 8, "an inequality has no variable", "Q3"),
    ("(assert (<= (- Y_0 Y_0) 1))", 8, "an inequality has no variable", "Q3"),
    ("(assert (<= X_0 Y_0))", 8, "an inequality must not mix inputs and outputs", "Q3"),
    ("", 8, "some alternative does not say which outputs are unsafe", "Q3"),
    ("(assert (<= X_0 X_1))", 8, "inputs must be bounded one by one, by numbers: the input set is a box", "Q4"),
    ("(assert (>= X_0 2))", 8, "X_0 has no value: its lower bound is above its upper bound", "Q4"),
]


@pytest.mark.parametrize(("text", "line", "rule", "label"), REFUSED)
def test_refusals(text: str, line: int, rule: str, label: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse_property(HEAD + BOX + text)
    assert str(caught.value) == f"vnnlib: text, line {line}: {rule} [{label}]"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("(declare-const Y_0 Real)", "no variable X_0 is declared [Q2]"),
        ("(declare-const X_0 Real)", "no variable Y_0 is declared [Q2]"),
        (HEAD + "(assert (<= X_0 0)) (assert (<= Y_0 0))", "X_0 has no lower bound [Q4]"),
        (HEAD + "(assert (>= X_0 0)) (assert (>= X_1 0)) (assert (<= Y_0 0))", "X_0 has no upper bound [Q4]"),
    ],
)
def test_what_is_missing(text: str, rule: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse_property(text)
    assert str(caught.value).endswith(rule)


def test_alternatives_are_limited() -> None:
    """2**40 alternatives in a few kilobytes [Q5]."""
    choice = "(or (<= Y_0 0) (<= Y_1 0))"
    rule = "more than 65536 alternatives or 524288 inequalities when multiplied out"
    for text in ("(assert (and " + choice * 40 + "))", f"(assert {choice})" * 40):
        with pytest.raises(ModelError) as caught:
            parse_property(HEAD + BOX + text)
        assert caught.value.rule == rule
        assert caught.value.label == "Q5"


def test_numbers_do_not_grow_without_limit() -> None:
    """Sums of fractions with many different denominators [Q3]."""
    terms = " ".join(f"(/ 1 1{'0' * 1500}{k:04d})" for k in range(1, 400))
    with pytest.raises(ModelError, match=r"a number grows beyond 32768 bits \[Q3\]"):
        parse_property(HEAD + BOX + f"(assert (<= (+ Y_0 {terms}) 0))")


def test_long_conjunctions_take_linear_time() -> None:
    """A hundred thousand inequalities in one assertion: products of single clauses would be quadratic."""
    text = HEAD + BOX + "(assert (and " + "(<= Y_0 1) " * 100_000 + "))"
    assert len(parse_property(text).unsafe[0]) == 100_000


def test_large_assertions_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_vnnlib_text, "NODES", 1000)
    with pytest.raises(ModelError, match=r"one assertion has more than 1000 words \[Q1\]"):
        parse_property(HEAD + BOX + "(assert (and " + "(<= Y_0 1) " * 1000 + "))")


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = HEAD + BOX + "(assert (<= Y_0 0))"
    plain, packed = tmp_path / "a.vnnlib", tmp_path / "a.vnnlib.gz"
    plain.write_text(text, encoding="utf-8")
    packed.write_bytes(gzip.compress(text.encode()))
    assert read_property(plain) == read_property(str(packed)) == parse_property(text)
    cut, binary = tmp_path / "cut.vnnlib.gz", tmp_path / "binary.vnnlib"
    cut.write_bytes(packed.read_bytes()[:-20])
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(
        ModelError, match=r"^vnnlib: cut.vnnlib.gz: the file is not whole: it cannot be unpacked \[Q1\]$"
    ):
        read_property(cut)
    with pytest.raises(ModelError, match=r"^vnnlib: binary.vnnlib: the file is not text in UTF-8 \[Q1\]$"):
        read_property(binary)
    monkeypatch.setattr(_vnnlib, "BYTES", 1000)
    bomb = tmp_path / "bomb.vnnlib.gz"
    bomb.write_bytes(gzip.compress(b"(" * 10_000_000))
    with pytest.raises(ModelError, match=r"the file has more than 1000 bytes, unpacked \[Q1\]"):
        read_property(bomb)


def test_boxes_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_vnnlib, "SIDES", 5)
    cases = " ".join(f"(and (<= X_0 0.{k}) (<= Y_0 0))" for k in range(1, 9))
    with pytest.raises(ModelError, match=r"the boxes have more than 5 sides \[Q5\]"):
        parse_property(HEAD + BOX + f"(assert (or {cases}))")
