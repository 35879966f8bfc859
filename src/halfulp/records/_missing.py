"""Policies, and the element type of a result where it may differ from the input's."""

from __future__ import annotations

from typing import Any

import numpy as np

from halfulp.errors import DTypeError
from halfulp.numbers import FORMATS, is_float
from halfulp.records import _arguments as arguments
from halfulp.records._base import Operator

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")


_WORDS = {"ties": (arguments.TIES, "P1"), "nan": (arguments.NAN, "P2"), "precision": (arguments.PRECISION, "P4")}


def normalise_policies(op: Operator) -> None:
    """Check ``dtype``, ``ties``, ``nan`` and ``precision`` where the record has them; a dtype becomes its name."""
    given = op.__dict__
    if "dtype" in given:
        object.__setattr__(op, "dtype", dtype_name(op.name, given["dtype"]))
    for field, (words, label) in _WORDS.items():
        if field in given:
            arguments.choice(op.name, field, given[field], words, label)


def dtype_name(operator: str, dtype: Any) -> str | None:
    """The name of an element type in native byte order.

    >>> dtype_name("demo", np.uint8), dtype_name("demo", ">f4"), dtype_name("demo", "same")
    ('uint8', 'float32', 'same')
    """
    if dtype is None or (isinstance(dtype, str) and (dtype == "same" or dtype in FORMATS)):
        return dtype
    try:
        name = str(np.dtype(dtype).name)
    except (TypeError, ValueError, SyntaxError):
        name = ""
    if name not in INTEGERS and name not in FORMATS:
        raise DTypeError(
            operator, f"dtype={dtype!r}", "must be None, 'same', or an integer, bool or float type", "N1"
        ) from None
    return name


def output_dtype(op: Operator, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The element type of an operator's result for an input of this type."""
    name = getattr(op, "dtype", None)
    if name is None or name == "same":
        found: np.dtype[Any] = dtype.newbyteorder("=")
        return found
    known: np.dtype[Any] = FORMATS[name].dtype if name in FORMATS else np.dtype(name)
    return known


def changes_dtype(op: Operator, dtype: np.dtype[Any]) -> bool:
    """Whether a result has another element type than its input."""
    return bool(output_dtype(op, dtype) != dtype.newbyteorder("="))


def refuse_change(op: Operator, dtype: np.dtype[Any]) -> None:
    """Derivatives have the element type of the input: a result of another type has none."""
    if dtype.kind != "O" and is_float(dtype) and changes_dtype(op, dtype):
        name = getattr(op, "dtype", None)
        text = f"a derivative has the element type of its input, {dtype}; leave dtype out and convert with astype"
        raise DTypeError(op.name, f"dtype={name!r}", text, "N3")


def does_not_fit(op: Operator, flat: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> DTypeError:
    """The error for a value that the element type of the result cannot hold."""
    where = tuple(int(i) for i in np.unravel_index(flat, shape))
    return DTypeError(
        op.name, f"dtype={dtype.name!r}", f"the value at {where} does not fit; give a dtype that holds it", "N2"
    )
