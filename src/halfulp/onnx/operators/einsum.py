"""Einsum: the sum of products of two inputs is one matrix product, so every output is rounded once."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from halfulp.autograd import ops
from halfulp.autograd.traced import strip
from halfulp.onnx._node import Node
from halfulp.onnx.operators._moving import move
from halfulp.onnx.operators.reduction import rows_sum

Operand = tuple[Any, str]
"""An array and the letters of its axes, each once."""


def einsum(node: Node) -> Callable[..., Any]:
    """Einsum. Three inputs or more are multiplied from left to right, each product rounded once."""
    equation = node.text("equation", "").replace(" ", "")
    if not re.fullmatch(r"[A-Za-z.,]*(->[A-Za-z.]*)?", equation) or not equation:
        raise node.refusal(f"equation={equation!r}", "must be letters, commas, '...' and '->'")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")

    def run(*inputs: Any) -> Any:
        node.same_types(*inputs)
        if len(inputs) != len(terms):
            raise node.refusal(f"equation={equation!r}", f"has {len(terms)} terms for {len(inputs)} inputs", "O9")
        named, output = _letters(node, terms, right if arrow else None, inputs)
        sizes = _sizes(node, named, inputs)
        operands = [_diagonal(x, letters) for x, letters in zip(inputs, named, strict=True)]
        while len(operands) > 1:
            a, b = operands[:2]
            later = set(output).union(*(letters for _, letters in operands[2:]))
            operands[:2] = [_product(node, a, b, later, sizes)]
        return _finished(node, operands[0], output)

    return run


def _letters(node: Node, terms: list[str], output: str | None, inputs: Sequence[Any]) -> tuple[list[str], str]:
    """One letter for each axis; '...' becomes letters that no term uses."""
    spare = [chr(c) for c in range(0x100, 0x180)]
    most = 0
    named = []
    for term, x in zip(terms, inputs, strict=True):
        known = term.replace("...", "")
        rest = len(x.shape) - len(known)
        if "." in known or (rest if "..." not in term else rest < 0) or rest > len(spare):
            raise node.refusal(f"term {term!r}", f"does not fit an input of shape {tuple(x.shape)}", "O9")
        most = max(most, rest)
        named.append((term, rest))
    dots = "".join(spare[:most])
    full = [term.replace("...", dots[most - rest :] if rest else "") for term, rest in named]
    if output is None:
        once = "".join(sorted({c for c in "".join(full) if "".join(full).count(c) == 1 and c not in dots}))
        return full, dots + once
    result = output.replace("...", dots)
    if "." in result or len(set(result)) != len(result) or not set(result) <= set("".join(full)):
        raise node.refusal(f"output {output!r}", "must be letters of the inputs, each once", "O9")
    return full, result


def _sizes(node: Node, named: list[str], inputs: Sequence[Any]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for letters, x in zip(named, inputs, strict=True):
        for letter, size in zip(letters, x.shape, strict=True):
            if sizes.get(letter, size) not in (size, 1) and size != 1:
                raise node.refusal(f"sizes {sizes[letter]} and {size}", "of one letter must be equal", "O9")
            sizes[letter] = max(size, sizes.get(letter, size)) if size != 0 else 0
    return sizes


def _diagonal(x: Any, letters: str) -> Operand:
    """Axes of one letter become one: its diagonal."""
    for letter in dict.fromkeys(letters):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            x = move(lambda a, i=first, j=second: a.diagonal(axis1=i, axis2=j), x)
            letters = letters[:first] + letters[first + 1 : second] + letters[second + 1 :] + letter
    return x, letters


def _ordered(operand: Operand, letters: str, sizes: dict[str, int]) -> Any:
    """The axes in this order, repeated where the operand has a letter not or with size 1."""
    x, own = operand
    have = [c for c in letters if c in own]
    x = ops.transpose(x, [own.index(c) for c in have])
    x = ops.reshape(x, tuple(x.shape[have.index(c)] if c in have else 1 for c in letters))
    return ops.broadcast_to(x, tuple(sizes[c] for c in letters))


def _product(node: Node, a: Operand, b: Operand, later: set[str], sizes: dict[str, int]) -> Operand:
    """One batched matrix product; a letter that is in one input only and is summed is summed there."""
    both = [c for c in a[1] if c in b[1] and c in later]
    summed = [c for c in dict.fromkeys(a[1] + b[1]) if c not in later]
    rows = [c for c in a[1] if c in later and c not in b[1]]
    columns = [c for c in b[1] if c in later and c not in a[1]]

    def count(letters: list[str]) -> int:
        return math.prod(sizes[c] for c in letters)

    node.fits((count(both), count(rows), count(columns)), strip(a[0]))
    node.fits((count(both), max(count(rows), count(columns)), count(summed)), strip(a[0]))
    left = ops.reshape(_ordered(a, "".join(both + rows + summed), sizes), (count(both), count(rows), count(summed)))
    right = ops.reshape(
        _ordered(b, "".join(both + summed + columns), sizes), (count(both), count(summed), count(columns))
    )
    letters = "".join(both + rows + columns)
    return ops.reshape(ops.matmul(left, right), tuple(sizes[c] for c in letters)), letters


def _finished(node: Node, operand: Operand, output: str) -> Any:
    """What is left to sum, and the order of the output."""
    x, letters = operand
    kept = [letters.index(c) for c in output]
    rest = [i for i in range(len(letters)) if i not in kept]
    moved = ops.transpose(x, kept + rest)
    if not rest:
        return moved
    shape = tuple(moved.shape[: len(kept)])
    return rows_sum(node, ops.reshape(moved, (*shape, math.prod(moved.shape[len(kept) :]))))
