"""Records as text and back: what a compiled program carries of an operator must not depend on the process."""

from __future__ import annotations

import json
from dataclasses import fields
from fractions import Fraction
from functools import lru_cache
from typing import Any

import flint

from halfulp.errors import PolicyError
from halfulp.records import Operator, named

_RATIONAL, _FLOAT = "rational", "float"


def check_plain(op: Operator) -> None:
    """Refuse a record with a field that has no text, such as a ball (which has no hash either)."""
    for field in fields(op):
        _plain(op, field.name, getattr(op, field.name))


@lru_cache(maxsize=1024)
def encode(op: Operator) -> str:
    """A record as text, the same for equal records.

    >>> from halfulp import MaxPool
    >>> decode(encode(MaxPool((3, 3), stride=2))) == MaxPool((3, 3), stride=2)
    True
    """
    return json.dumps([type(op).__name__, {f.name: _plain(op, f.name, getattr(op, f.name)) for f in fields(op)}])


@lru_cache(maxsize=1024)
def decode(text: str) -> Operator:
    """The record that :func:`encode` wrote."""
    name, values = json.loads(text)
    op: Operator = named(name).record(**{key: _value(value) for key, value in values.items()})
    return op


def _plain(op: Operator, name: str, value: Any) -> Any:
    if isinstance(value, (bool, int, str)) or value is None:
        return value
    if isinstance(value, tuple):
        return [_plain(op, name, item) for item in value]
    if isinstance(value, float):
        return {_FLOAT: value.hex()}
    if isinstance(value, (Fraction, flint.fmpq)):
        ratio = Fraction(int(value.p), int(value.q)) if isinstance(value, flint.fmpq) else value
        return {_RATIONAL: [str(ratio.numerator), str(ratio.denominator)]}
    raise PolicyError(op.name, f"{name}={value!r}", "must be a number or a string", "J2")


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_value(item) for item in value)
    if isinstance(value, dict):
        if _FLOAT in value:
            return float.fromhex(value[_FLOAT])
        numerator, denominator = value[_RATIONAL]
        return Fraction(int(numerator), int(denominator))
    return value
