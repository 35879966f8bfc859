"""Checks of the arrays that an operator gets: their number, element types and shapes. Both interpreters use them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from halfulp.errors import DTypeError, PolicyError, ShapeError
from halfulp.numbers import as_doubles, is_float, refuse_mask
from halfulp.records._base import Array, Operator
from halfulp.records._declaration import declaration_of, is_declared
from halfulp.records._missing import refuse_change


def read(op: Operator, name: str, value: Any) -> Array:
    """A value as NumPy reads it; what is no array at all is refused in the operator's name."""
    if type(value) is np.ndarray:
        return value
    refuse_mask(op.name, name, value)
    try:
        return np.asarray(value)
    except Exception as error:
        framework = type(value).__module__.partition(".")[0]
        hint = f"; {framework} has functions of its own in halfulp.{framework}" if framework in ("torch", "jax") else ""
        text = f"cannot be read as an array: {str(error).rstrip('.')}{hint}"
        raise DTypeError(op.name, f"{name} of type {type(value).__name__}", text, "I1") from error


def as_arrays(op: Operator, inputs: Sequence[Any]) -> tuple[Array | None, ...]:
    """The inputs as arrays of native byte order, padded with None to the operator's arity.

    All are of one kind, but for the constant ones, whose kind is the record's to say.
    """
    least = op.arity if op.arity == 1 or op.constants else 2
    takes = "one input" if op.arity == 1 else "x, weight and optionally a bias"
    if op.constants:
        takes = " and ".join(op.input_names)
    if op.required is not None:
        least, more = op.required, op.input_names[op.required : op.arity]
        takes = " and ".join(op.input_names[:least]) + (f" and optionally {', '.join(more)}" if more else "")
    if not least <= len(inputs) <= op.arity:
        raise ShapeError(op.name, f"{len(inputs)} inputs", f"takes {takes}", "I3")
    for name, value in zip(op.input_names, inputs[:least], strict=False):
        if value is None:
            raise ShapeError(op.name, f"{name}=None", f"must be an array: takes {takes}", "I3")
    given = zip(op.input_names, inputs, strict=False)
    arrays = tuple(None if value is None else _as_input(op, name, value) for name, value in given)
    first = arrays[0]
    for array in arrays[1 : op.arity - len(op.constants)]:
        if array is not None and first is not None and array.dtype != first.dtype:
            raise DTypeError(
                op.name,
                f"dtypes {first.dtype} and {array.dtype}",
                "all inputs must have one element type; convert with astype",
                "I2",
            )
    return arrays + (None,) * (op.arity - len(arrays))


def _as_input(op: Any, name: str, value: Any) -> Array:
    if name not in op.constants:
        return as_array(op, value, name)
    array: Array = op.constant(name, read(op, name, value))
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def as_array(op: Operator, value: Any, name: str = "input") -> Array:
    """One input as an array of an element type that the operator takes, in native byte order."""
    array = read(op, name, value)
    dtype = array.dtype
    if dtype.kind == "O" or is_float(dtype):
        return array if dtype.isnative else array.astype(dtype.newbyteorder("="))
    if dtype.kind in "iub" and _takes_integers(op):
        return array if dtype.isnative else array.astype(dtype.newbyteorder("="))
    accepted = "float16, bfloat16, float32, float64 or objects (exact numbers)"
    if _takes_integers(op):
        accepted = "a float, integer or bool type or objects (exact numbers)"
    hint = "; convert with astype" if dtype.kind in "iub" else ""
    if hint and hasattr(op, "dtype"):
        hint += ", or give dtype='same' or another dtype"
    raise DTypeError(op.name, f"{name} dtype={dtype}", f"must be {accepted}{hint}", "I1")


def _takes_integers(op: Operator) -> bool:
    return getattr(op, "dtype", None) is not None or (is_declared(op) and declaration_of(op).integers)


def differentiable(op: Operator, array: Array) -> None:
    """Only real numbers have derivatives: integers and truth values are refused."""
    if array.dtype.kind in "iub":
        raise DTypeError(
            op.name,
            f"input dtype={array.dtype}",
            "integers have no derivative; convert with astype to a float type",
            "I1",
        )
    refuse_change(op, array.dtype)


def as_tangents(op: Operator, primals: Sequence[Array | None], tangents: Sequence[Any]) -> tuple[Array | None, ...]:
    """The tangents as arrays like their primals; None is a tangent that is not there (not for a single input)."""
    given = tuple(tangents) + (None,) * (len(primals) - len(tangents))
    if len(given) != len(primals) or ((op.arity == 1 or op.constants) and given[0] is None):
        raise ShapeError(op.name, f"{len(tangents)} tangents", "takes one tangent for each primal", "I4")
    out: list[Array | None] = []
    for primal, tangent in zip(primals, given, strict=True):
        if tangent is None:
            out.append(None)
            continue
        if primal is None:
            absent = op.input_names[len(out)]
            raise ShapeError(op.name, f"a tangent for an absent {absent}", "must be None", "I4")
        if len(out) >= op.arity - len(op.constants):
            name = op.input_names[len(out)]
            raise ShapeError(op.name, f"a tangent for {name}", f"must be None: {name} have no derivative", "I4")
        out.append(_like(op, "tangent", "its primal", tangent, primal.shape, primal.dtype, "I4"))
    return tuple(out)


def as_cotangent(op: Operator, cotangent: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """The cotangent as an array like the output."""
    return _like(op, "cotangent", "the output", cotangent, shape, dtype, "I5")


def _like(
    op: Operator, name: str, whose: str, value: Any, shape: tuple[int, ...], dtype: np.dtype[Any], label: str
) -> Array:
    array = read(op, name, value)
    if array.shape != shape:
        raise ShapeError(op.name, f"{name} shape={array.shape}", f"must be {shape}, the shape of {whose}", label)
    if array.dtype.newbyteorder("=") != dtype.newbyteorder("="):
        raise DTypeError(op.name, f"{name} dtype={array.dtype}", f"must be {dtype}, the element type of {whose}", label)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def as_output(op: Operator, out: Any) -> Array:
    """The array that a caller wants filled: one that can be written to."""
    if not isinstance(out, np.ndarray):
        raise DTypeError(op.name, f"out of type {type(out).__name__}", "must be a NumPy array", "I6")
    refuse_mask(op.name, "out", out)
    if not out.flags.writeable:
        raise ShapeError(op.name, "out is read-only", "must be writeable", "I6")
    return out


def filled(op: Operator, out: Array, result: Any) -> Array:
    """``out`` with the result in it, copied unless it was computed in place."""
    if result is not out:
        value = np.asarray(result)
        _like(op, "out", "the output", out, value.shape, value.dtype, "I6")
        np.copyto(out, value, casting="equiv")
    return out


def refuse_nan(op: Any, x: Array) -> None:
    """Under nan="raise", name the first NaN."""
    if getattr(op, "nan", None) != "raise" or x.dtype.kind in "iub":
        return
    if x.dtype.kind == "O":
        found = [i for i, value in enumerate(x.ravel()) if _is_nan(value)][:1]
    else:
        found = np.flatnonzero(np.isnan(as_doubles(x.ravel())))[:1].tolist()
    if found:
        where = tuple(int(i) for i in np.unravel_index(found[0], x.shape))
        raise PolicyError(op.name, "nan='raise'", f"the input is NaN at {where}; it must have no NaN", "P3")


def _is_nan(value: Any) -> bool:
    answer = getattr(value, "is_nan", None)
    if answer is None:
        return bool(value != value)
    return bool(answer() if callable(answer) else answer)
