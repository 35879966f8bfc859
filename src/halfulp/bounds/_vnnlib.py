"""Properties of networks from VNN-LIB files.

A file declares the inputs ``X_0, X_1, …`` and outputs ``Y_0, Y_1, …`` and asserts what a *counterexample* is: an
input in a box whose output lies in an unsafe set. A network has the property when no counterexample exists. Numbers
are read as exact rationals. An inequality is linear and either about one input (a side of the box) or about outputs.

Assertions may contain `or`, also around inputs. They are brought to the form *or of cases*: each case has a box and an
unsafe set, and the unsafe set is an or of conjunctions of inequalities ``a · y <= b``.

Every limit below is checked before memory or time is spent, so that a hostile file ends in an error.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfulp.bounds._vnnlib_text import Node, Reader, cropped
from halfulp.errors import ModelError

__all__ = ["Inequality", "VnnCase", "VnnProperty", "parse_property", "read_property"]

BYTES = 1 << 26
"""The largest file, unpacked."""
CLAUSES = 1 << 16
"""The most alternatives after `and` and `or` have been multiplied out."""
ATOMS = 1 << 19
"""The most inequalities in all of them together."""
SIDES = 1 << 24
"""The most bounds of inputs, over all boxes."""


@dataclass(frozen=True)
class Inequality:
    """``sum of coefficient · y_index <= bound``, with exact numbers.

    >>> Inequality(((0, Fraction(1)), (2, Fraction(-1))), Fraction(0)).holds([1, 5, 2])
    True
    """

    coefficients: tuple[tuple[int, Fraction], ...]
    bound: Fraction

    def holds(self, y: Any) -> bool:
        """Whether an output, of exact numbers, satisfies it."""
        total = sum((coefficient * y[index] for index, coefficient in self.coefficients), Fraction(0))
        return bool(total <= self.bound)


@dataclass(frozen=True)
class VnnCase:
    """A box of inputs, and the outputs that are unsafe for it: an or of conjunctions."""

    lower: tuple[Fraction, ...]
    upper: tuple[Fraction, ...]
    unsafe: tuple[tuple[Inequality, ...], ...]


@dataclass(frozen=True)
class VnnProperty:
    """The content of a file. A counterexample is an input of some case's box with an unsafe output of that case."""

    inputs: int
    outputs: int
    cases: tuple[VnnCase, ...]

    def _only(self, name: str) -> VnnCase:
        if len(self.cases) != 1:
            rule = "the property has several boxes; use .cases"
            raise ModelError("vnnlib", f"{name} of {len(self.cases)} cases", rule, "Q5")
        return self.cases[0]

    @property
    def lower(self) -> tuple[Fraction, ...]:
        """The lower ends of the box, where there is one box."""
        return self._only("lower").lower

    @property
    def upper(self) -> tuple[Fraction, ...]:
        """The upper ends of the box, where there is one box."""
        return self._only("upper").upper

    @property
    def unsafe(self) -> tuple[tuple[Inequality, ...], ...]:
        """The unsafe outputs, where there is one box."""
        return self._only("unsafe").unsafe

    def arrays(self, conjunction: Iterable[Inequality]) -> tuple[NDArray[np.object_], NDArray[np.object_]]:
        """A and b of ``A · y <= b``, as arrays of Fractions."""
        rows = list(conjunction)
        matrix = np.full((len(rows), self.outputs), Fraction(0), dtype=object)
        bound = np.array([row.bound for row in rows], dtype=object)
        for number, row in enumerate(rows):
            for index, coefficient in row.coefficients:
                matrix[number, index] = coefficient
        return matrix, bound


class _Atom(NamedTuple):
    """``coefficients · variables <= bound``."""

    at: int
    coefficients: dict[str, Fraction]
    bound: Fraction


_Clause = list[_Atom]


class _Parser(Reader):
    """From assertions to cases."""

    # Formulas, as an or of clauses

    def formula(self, node: Node) -> list[_Clause]:
        head, rest = self.words(node)
        if head in ("<=", ">="):
            return [[self.atom(node, head, rest)]]
        if head not in ("and", "or") or not rest:
            self.refuse(node.at, f"({cropped(head)} …) is not and, or, <= or >= with operands", "Q3")
        parts = [self.formula(part) for part in rest]
        if head == "or":
            clauses = [clause for part in parts for clause in part]
            self.check_size(node.at, len(clauses), sum(map(len, clauses)))
            return clauses
        return self.conjunction(node.at, parts)

    def conjunction(self, at: int, parts: list[list[_Clause]]) -> list[_Clause]:
        """Every choice of one clause per part. Parts with one clause are put together first."""
        clauses: list[_Clause] = [[atom for part in parts if len(part) == 1 for atom in part[0]]]
        for part in parts:
            if len(part) != 1:
                here, there = sum(map(len, clauses)), sum(map(len, part))
                self.check_size(at, len(clauses) * len(part), here * len(part) + there * len(clauses))
                clauses = [first + second for first in clauses for second in part]
        return clauses

    def check_size(self, at: int, clauses: int, atoms: int) -> None:
        if clauses > CLAUSES or atoms > ATOMS:
            self.refuse(at, f"more than {CLAUSES} alternatives or {ATOMS} inequalities when multiplied out", "Q5")

    def atom(self, node: Node, head: str, rest: list[Node]) -> _Atom:
        if len(rest) != 2:
            self.refuse(node.at, f"{head} takes two terms", "Q3")
        first, second = self.term(rest[0]), self.term(rest[1])
        left, right = (first, second) if head == "<=" else (second, first)
        difference = self.sum(node, "-", [left, right])
        coefficients = {name: c for name, c in difference.coefficients.items() if c}
        if not coefficients:
            self.refuse(node.at, "an inequality has no variable", "Q3")
        letters = {name[0] for name in coefficients}
        if len(letters) == 2:
            self.refuse(node.at, "an inequality must not mix inputs and outputs", "Q3")
        if letters == {"X"} and len(coefficients) > 1:
            self.refuse(node.at, "inputs must be bounded one by one, by numbers: the input set is a box", "Q4")
        return _Atom(node.at, coefficients, -difference.constant)

    # The whole file

    def parse(self) -> VnnProperty:
        parts: list[list[_Clause]] = []
        for node in self.forms():
            head, rest = self.words(node)
            if head in ("declare-const", "declare-fun"):
                self.declare(node, rest)
            elif head == "assert" and len(rest) == 1:
                parts.append(self.formula(rest[0]))
            else:
                self.refuse(node.at, f"({cropped(head)} …) is not (declare-const …) or (assert FORMULA)", "Q1")
        self.check_declared()
        common = [atom for part in parts if len(part) == 1 for atom in part[0]]
        choices = self.conjunction(len(self.text), [part for part in parts if len(part) > 1])
        return VnnProperty(self.counts["X"], self.counts["Y"], self.cases(common, choices))

    def cases(self, common: _Clause, choices: list[_Clause]) -> tuple[VnnCase, ...]:
        """One case per distinct box."""
        lower: list[Fraction | None] = [None] * self.counts["X"]
        upper = list(lower)
        self.narrow(lower, upper, common)
        always = [self.inequality(atom) for atom in common if _output(atom)]
        self.check_size(len(self.text), len(choices), len(always) * len(choices))
        grouped: dict[Any, list[tuple[Inequality, ...]]] = {}
        boxes: dict[Any, tuple[tuple[Fraction, ...], tuple[Fraction, ...]]] = {}
        for clause in choices:
            sides = [atom for atom in clause if not _output(atom)]
            key = tuple((*atom.coefficients.items(), atom.bound) for atom in sides)
            if key not in boxes:
                if (len(boxes) + 1) * self.counts["X"] > SIDES:
                    self.refuse(len(self.text), f"the boxes have more than {SIDES} sides", "Q5")
                boxes[key] = self.box(lower, upper, sides)
            conjunction = always + [self.inequality(atom) for atom in clause if _output(atom)]
            if not conjunction:
                self.refuse(len(self.text), "some alternative does not say which outputs are unsafe", "Q3")
            grouped.setdefault(key, []).append(tuple(conjunction))
        return tuple(VnnCase(*boxes[key], tuple(unsafe)) for key, unsafe in grouped.items())

    def inequality(self, atom: _Atom) -> Inequality:
        numbered = sorted((int(name[2:]), coefficient) for name, coefficient in atom.coefficients.items())
        return Inequality(tuple(numbered), atom.bound)

    def narrow(self, lower: list[Fraction | None], upper: list[Fraction | None], atoms: _Clause) -> None:
        for atom in atoms:
            if _output(atom):
                continue
            ((name, coefficient),) = atom.coefficients.items()
            index, value = int(name[2:]), atom.bound / coefficient
            if coefficient > 0:
                upper[index] = value if upper[index] is None else min(value, upper[index])  # type: ignore[type-var]
            else:
                lower[index] = value if lower[index] is None else max(value, lower[index])  # type: ignore[type-var]
            low, high = lower[index], upper[index]
            if low is not None and high is not None and low > high:
                self.refuse(atom.at, f"{name} has no value: its lower bound is above its upper bound", "Q4")

    def box(
        self, lower: list[Fraction | None], upper: list[Fraction | None], atoms: _Clause
    ) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
        lower, upper = list(lower), list(upper)
        self.narrow(lower, upper, atoms)
        for side, ends in (("lower", lower), ("upper", upper)):
            for index, end in enumerate(ends):
                if end is None:
                    self.refuse(len(self.text), f"X_{index} has no {side} bound", "Q4")
        return tuple(e for e in lower if e is not None), tuple(e for e in upper if e is not None)


def _output(atom: _Atom) -> bool:
    return next(iter(atom.coefficients))[0] == "Y"


def parse_property(text: str, name: str = "text") -> VnnProperty:
    """The property that a text in VNN-LIB form states. `name` is used in error messages.

    >>> stated = parse_property('''
    ... (declare-const X_0 Real) (declare-const Y_0 Real)
    ... (assert (>= X_0 -0.1)) (assert (<= X_0 0.1)) (assert (>= Y_0 2))
    ... ''')
    >>> stated.lower, stated.upper
    ((Fraction(-1, 10),), (Fraction(1, 10),))
    >>> stated.unsafe
    ((Inequality(coefficients=((0, Fraction(-1, 1)),), bound=Fraction(-2, 1)),),)
    """
    return _Parser(text, name).parse()


def read_property(path: str | PathLike[str]) -> VnnProperty:
    """The property of a file, `.vnnlib` or `.vnnlib.gz`.

    >>> import tempfile
    >>> text = "(declare-const X_0 Real) (declare-const Y_0 Real)"
    >>> text += "(assert (and (<= X_0 1) (>= X_0 0))) (assert (<= Y_0 0))"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "p.vnnlib"
    ...     _ = file.write_text(text)
    ...     read_property(file).upper
    (Fraction(1, 1),)
    """
    file = Path(path)
    with file.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    try:
        with gzip.open(file, "rb") if packed else file.open("rb") as source:
            data = source.read(BYTES + 1)
        if len(data) > BYTES:
            raise ModelError("vnnlib", file.name, f"the file has more than {BYTES} bytes, unpacked", "Q1")
        text = data.decode("utf-8")
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise ModelError("vnnlib", file.name, "the file is not whole: it cannot be unpacked", "Q1") from None
    except UnicodeDecodeError:
        raise ModelError("vnnlib", file.name, "the file is not text in UTF-8", "Q1") from None
    return parse_property(text, file.name)
