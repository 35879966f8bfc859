"""Running a subject: its answer as arrays, and what is wrong with it before any number is compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from halfulp.conformance.cases import Arrays
from halfulp.conformance.oracle import Answer
from halfulp.conformance.subjects import Subject
from halfulp.records import Array, Operator

__all__ = ["InputChanged", "NoAnswer", "printable", "run_subject"]


class NoAnswer(Exception):
    """What a subject returned is no answer: nothing, text, a ragged list, or too few results."""


class InputChanged(Exception):
    """A subject wrote into an array that it was given."""


def run_subject(subject: Subject, op: Operator, mode: str, arrays: Arrays) -> Answer:
    """The subject's answer in the form that the oracle gives it. Overflow is judged by its result, not by a warning.

    The arrays are afterwards what they were before: a subject that changes one raises :class:`InputChanged`.
    """
    given = _named(mode, arrays)
    before = [(name, array, array.copy()) for name, array in given]
    error: Exception | None = None
    found: Any = None
    try:
        with np.errstate(all="ignore"):
            found = _run(subject, op, mode, arrays)
            # an answer that is a view of an input would change with it
            answered = tuple(np.array(a) if _shares(a, given) else a for a in found)
    except Exception as raised:
        error = raised
    changed = [name for name, array, copy in before if array.tobytes() != copy.tobytes()]
    for _, array, copy in before:
        if changed:
            array[...] = copy
    if changed:
        raise InputChanged(f"{mode} writes into its argument {', '.join(changed)}")
    if error is not None:
        raise error
    return answered


def _named(mode: str, arrays: Arrays) -> list[tuple[str, Array]]:
    """The arrays that a mode is given, by name."""
    names = ("x", "weight", "bias")
    listed = list(zip(names, arrays.primals, strict=False))
    if mode == "jvp":
        listed += [(f"tangent of {name}", a) for name, a in zip(names, arrays.tangents, strict=False)]
    if mode == "vjp":
        listed.append(("cotangent", arrays.cotangent))
    return [(name, a) for name, a in listed if a is not None]


def _shares(answer: Array, given: list[tuple[str, Array]]) -> bool:
    return any(np.may_share_memory(answer, array) for _, array in given)


def _run(subject: Subject, op: Operator, mode: str, arrays: Arrays) -> Answer:
    if mode == "forward":
        return (_array(subject.forward(op, arrays.primals)),)
    if mode == "jvp":
        found: Any = subject.jvp(op, arrays.primals, arrays.tangents)
        return (_array(_items(found, 2, "(value, tangent)")[1]),)
    found = subject.vjp(op, arrays.primals, arrays.cotangent)
    parts = _items(found, len(arrays.primals), "a tuple with one cotangent per input")
    moving = arrays.tangents  # a bias that is absent and indices have no cotangent
    missing = [i for i, (a, t) in enumerate(zip(parts, moving, strict=True)) if t is not None and a is None]
    if missing:
        raise NoAnswer(f"the cotangent of input {missing[0]} is None")
    return tuple(_array(a) for a, t in zip(parts, moving, strict=True) if t is not None)


def _items(found: Any, number: int, wanted: str) -> tuple[Any, ...]:
    if not isinstance(found, (tuple, list)):
        raise NoAnswer(f"returns {_kind(found)} instead of {wanted}")
    if len(found) != number:
        raise NoAnswer(f"returns {len(found)} results instead of {number}: {wanted}")
    return tuple(found)


def _array(found: Any) -> Array:
    """An answer as an array of numbers."""
    if found is None:
        raise NoAnswer("returns None instead of an array")
    try:
        array = np.asarray(found)
    except Exception as error:
        raise NoAnswer(f"returns {_kind(found)}, which is not an array: {printable(str(error))[:100]}") from error
    numbers = array.dtype.kind in "iubfc" or array.dtype.name.startswith(("bfloat", "float"))
    if not numbers:
        raise NoAnswer(f"returns {_kind(found)} of dtype {printable(str(array.dtype))} instead of numbers")
    return array


def _kind(found: Any) -> str:
    return "None" if found is None else f"an object of type {printable(type(found).__name__)}"


def printable(text: str) -> str:
    """A text without control characters and halves of characters, which reports cannot hold; they are escaped.

    >>> printable("a\\x1b[1m")
    'a\\\\x1b[1m'
    """
    return "".join(c if c.isprintable() or c in " \n\t" else c.encode("unicode_escape").decode() for c in text)
