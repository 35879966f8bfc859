"""Words, lists, declarations and linear terms of VNN-LIB files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple, NoReturn

from halfulp.errors import ModelError

__all__ = ["Linear", "Node", "Reader", "cropped"]

DEPTH = 64
"""The deepest nesting of parentheses."""
DIGITS = 2000
"""The longest number, and the largest exponent."""
NODES = 1 << 22
"""The most words and lists in one assertion."""
BITS = 1 << 15
"""The longest numerator or denominator that arithmetic on numbers may reach."""

_TOKEN = re.compile(r";[^\n]*|[()]|[^\s();]+")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_VARIABLE = re.compile(r"([XY])_(0|[1-9]\d*)", re.ASCII)


class Node(NamedTuple):
    """A word, or a list in parentheses, and where it starts."""

    at: int
    value: str | list[Any]


class Linear(NamedTuple):
    """A linear term: coefficients by variable, and a constant."""

    coefficients: dict[str, Fraction]
    constant: Fraction


class Reader:
    """One text. Every refusal names the line."""

    def __init__(self, text: str, name: str) -> None:
        self.text, self.name = text, name
        self.counts = {"X": 0, "Y": 0}
        self.declared: set[str] = set()

    def refuse(self, at: int, rule: str, label: str) -> NoReturn:
        line = self.text.count("\n", 0, at) + 1
        raise ModelError("vnnlib", f"{self.name}, line {line}", rule, label)

    # Text to lists

    def forms(self) -> Iterator[Node]:
        """The lists at the top level, one after another."""
        stack: list[Node] = []
        nodes = 0
        for match in _TOKEN.finditer(self.text):
            word, at = match.group(), match.start()
            if word[0] == ";":
                continue
            if word == "(":
                if len(stack) == DEPTH:
                    self.refuse(at, f"parentheses nest deeper than {DEPTH}", "Q1")
                stack.append(Node(at, []))
                continue
            if not stack:
                self.refuse(at, f"{_short(word)} stands outside of parentheses", "Q1")
            nodes += 1
            if nodes > NODES:
                self.refuse(at, f"one assertion has more than {NODES} words", "Q1")
            node = stack.pop() if word == ")" else Node(at, word)
            if stack:
                stack[-1].value.append(node)  # type: ignore[union-attr]
            else:
                yield node
                nodes = 0
        if stack:
            self.refuse(stack[0].at, "this parenthesis is never closed", "Q1")

    def words(self, node: Node) -> tuple[str, list[Node]]:
        """The head of a list, and the rest."""
        if isinstance(node.value, str) or not node.value or not isinstance(node.value[0].value, str):
            self.refuse(node.at, "a list must start with a word", "Q1")
        return node.value[0].value, node.value[1:]

    # Declarations

    def declare(self, node: Node, rest: list[Node]) -> None:
        plain = [part.value for part in rest]
        if len(plain) == 3 and plain[1] == []:  # declare-fun X_0 () Real
            del plain[1]
        if len(plain) != 2 or not isinstance(plain[0], str) or plain[1] != "Real":
            self.refuse(node.at, "a declaration is (declare-const NAME Real)", "Q2")
        match = _VARIABLE.fullmatch(plain[0])
        if match is None:
            self.refuse(node.at, f"{_short(plain[0])} is not a name X_0, X_1, … or Y_0, Y_1, …", "Q2")
        if plain[0] in self.declared:
            self.refuse(node.at, f"{plain[0]} is declared twice", "Q2")
        self.declared.add(plain[0])
        self.counts[match.group(1)] += 1

    def check_declared(self) -> None:
        for letter, count in self.counts.items():
            if count == 0:
                self.refuse(len(self.text), f"no variable {letter}_0 is declared", "Q2")
            missing = next((i for i in range(count) if f"{letter}_{i}" not in self.declared), None)
            if missing is not None:
                rule = f"{letter}_{missing} is not declared, but {count} variables {letter}_… are; number them from 0"
                self.refuse(len(self.text), rule, "Q2")

    # Terms

    def number(self, word: str, at: int) -> Fraction:
        if len(word) > DIGITS:
            self.refuse(at, f"a number has more than {DIGITS} characters", "Q3")
        _, _, exponent = word.lower().partition("e")
        if exponent and abs(int(exponent)) > DIGITS:
            self.refuse(at, f"the exponent of {_short(word)} is larger than {DIGITS}", "Q3")
        return Fraction(word)

    def term(self, node: Node) -> Linear:
        if isinstance(node.value, str):
            if node.value in self.declared:
                return Linear({node.value: Fraction(1)}, Fraction(0))
            if _NUMBER.fullmatch(node.value):
                return Linear({}, self.number(node.value, node.at))
            if _VARIABLE.fullmatch(node.value):
                self.refuse(node.at, f"{node.value} is not declared", "Q2")
            self.refuse(node.at, f"{_short(node.value)} is neither a declared variable nor a number", "Q3")
        head, rest = self.words(node)
        terms = [self.term(part) for part in rest]
        if head in ("+", "-") and terms:
            return self.sum(node, head, terms)
        if head == "*" and terms:
            return self.product(node, terms)
        if head != "/" or len(terms) != 2 or terms[1].coefficients or not terms[1].constant:
            self.refuse(node.at, f"({cropped(head)} …) is not a linear term of +, -, * and / by a number", "Q3")
        return self.scaled(node, terms[0], 1 / terms[1].constant)

    def sized(self, node: Node, number: Fraction) -> Fraction:
        if max(number.numerator.bit_length(), number.denominator.bit_length()) > BITS:
            self.refuse(node.at, f"a number grows beyond {BITS} bits", "Q3")
        return number

    def scaled(self, node: Node, term: Linear, factor: Fraction) -> Linear:
        coefficients = {name: self.sized(node, c * factor) for name, c in term.coefficients.items()}
        return Linear(coefficients, self.sized(node, term.constant * factor))

    def sum(self, node: Node, head: str, terms: list[Linear]) -> Linear:
        if head == "-" and len(terms) == 1:
            return self.scaled(node, terms[0], Fraction(-1))
        coefficients, constant = dict(terms[0].coefficients), terms[0].constant
        sign = 1 if head == "+" else -1
        for term in terms[1:]:
            constant = self.sized(node, constant + sign * term.constant)
            for name, coefficient in term.coefficients.items():
                total = coefficients.get(name, Fraction(0)) + sign * coefficient
                coefficients[name] = self.sized(node, total)
        return Linear(coefficients, constant)

    def product(self, node: Node, terms: list[Linear]) -> Linear:
        variables = [term for term in terms if term.coefficients]
        if len(variables) > 1:
            self.refuse(node.at, "a product of two variables is not linear", "Q3")
        if len(terms) > DEPTH:
            self.refuse(node.at, f"a product has more than {DEPTH} factors", "Q3")
        result = variables[0] if variables else Linear({}, Fraction(1))
        for term in terms:
            if not term.coefficients:
                result = self.scaled(node, result, term.constant)
        return result


def cropped(word: str) -> str:
    return word if len(word) <= 40 else word[:37] + "..."


def _short(word: str) -> str:
    return repr(cropped(word))
