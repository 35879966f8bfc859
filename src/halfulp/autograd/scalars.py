"""Scalars on the tape: the kind of an array, its zero, its constants, and exp, log and tanh of objects.

The *kind* of a float array is its dtype; the kind of an object array is the type of its scalars. The inputs
of a node have equal kinds: the result type of ``float32 + float64`` or ``Fraction + fmpq`` is not defined.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from fractions import Fraction
from numbers import Rational
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from halfulp.autograd.traced import strip
from halfulp.errors import DTypeError, TapeError
from halfulp.numbers import flint, refuse_mask

Array: TypeAlias = NDArray[Any]
Kind: TypeAlias = Any
"""A dtype, or the class of the scalars in an object array."""

_OBJECT = np.dtype(object)


class Unknown:
    """The kind of an object array without elements. (A dtype would not do: it equals every class of objects.)"""


def as_array(value: Any, operator: str = "tape") -> Array:
    """An ndarray; a scalar (NumPy gives them back for arrays without axes) becomes an array without axes."""
    if type(value) is np.ndarray:
        return value
    refuse_mask(operator, "value", value)
    if isinstance(value, np.ndarray):  # a matrix, for one, which would multiply in its own way
        return np.asarray(value)
    if isinstance(value, (np.generic, float, int, list, tuple)):
        return np.asarray(value)
    cell = np.empty((), dtype=object)
    cell[()] = value
    return cell


def _class_of(scalar: Any) -> Any:
    """The class that stands for a scalar's kind: all of SymPy's expressions are one kind, all integers another."""
    if type(scalar).__module__.startswith("sympy."):
        return sys.modules["sympy"].Expr
    if isinstance(scalar, (int, np.integer)) and not isinstance(scalar, bool):
        return int
    return type(scalar)


def kind_of(value: Array) -> Kind:
    """The kind of an operation's result, read off its first scalar (a leaf's scalars are all looked at)."""
    dtype = value.dtype
    if dtype is not _OBJECT and dtype != _OBJECT:
        return dtype
    return _class_of(value.flat[0]) if value.size else Unknown


def leaf_value(operator: str, value: Any) -> tuple[Array, Kind]:
    """An array and the one kind of all its scalars; a mixture is an error, but integers join the others' kind."""
    array = as_array(value, operator)
    if array.dtype != _OBJECT:
        return array, array.dtype
    kinds = {_class_of(scalar) for scalar in array.flat}
    if int in kinds:
        kinds.discard(int)
        unit = next((v for v in array.flat if _class_of(v) is not int), flint.fmpq(0))
        array = as_array(np.frompyfunc(lambda v: unit * 0 + int(v) if _class_of(v) is int else v, 1, 1)(array))
        kinds.add(_class_of(unit))
    if len(kinds) > 1:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise TapeError(operator, f"value with scalars of kinds {names}", "all must be of one kind", "E5")
    return array, kinds.pop() if kinds else Unknown


def kind_name(kind: Kind) -> str:
    """A kind as a reader would name it: ``float32``, ``Fraction``, ``fmpq``."""
    return str(kind) if isinstance(kind, np.dtype) else str(kind.__name__)


def is_differentiable(kind: Kind) -> bool:
    """Integers, truth values and other discrete kinds have no derivative."""
    if isinstance(kind, np.dtype):
        return kind.kind not in "iubSUMm"
    return kind not in (bool, str, bytes)


def scalar_like(value: Any, number: Any) -> Any:
    """``number`` as a scalar of the kind of an object array, exactly: 0.5 among rationals is one half."""
    kind = kind_of(strip(value))
    if not isinstance(number, (int, float, Rational, np.integer, np.floating)) or kind in (Unknown, int):
        return number
    if isinstance(number, (np.integer, np.floating)):
        number = number.item()
    exact = Fraction(number)
    if kind is Fraction:
        return exact
    if kind is flint.fmpq:
        return flint.fmpq(exact.numerator, exact.denominator)
    if kind is flint.arb:
        return flint.arb(flint.fmpq(exact.numerator, exact.denominator))
    if kind.__module__.startswith("sympy."):
        return sys.modules["sympy"].Rational(exact.numerator, exact.denominator)
    unit = strip(value).flat[0] * 0 + exact.numerator  # a foreign scalar makes integers of its own kind
    return unit if exact.denominator == 1 else unit / exact.denominator


def constant_like(value: Any, number: Any) -> Array:
    """``number`` as an array without axes of the kind of ``value``."""
    if value.dtype == _OBJECT:
        cell = np.empty((), dtype=object)
        cell[()] = scalar_like(value, number)
        return cell
    return np.asarray(number, dtype=value.dtype)


def holds(dtype: np.dtype[Any], number: int) -> bool:
    """Whether a float type has this integer among its numbers."""
    with np.errstate(over="ignore"):
        return bool(float(dtype.type(number)) == number) if abs(number) < 2**1023 else False


def full(shape: tuple[int, ...], like: Array, number: int) -> Array:
    """An array of one number, of the kind of ``like``."""
    if like.dtype == _OBJECT:
        array = np.empty(shape, dtype=object)
        array[...] = scalar_like(like, number)
        return array
    return np.full(shape, number, dtype=like.dtype)


def _method(name: str) -> Callable[[Any], Any]:
    """``name`` of one exact or ball scalar: its own method, or SymPy's function."""

    def call(scalar: Any) -> Any:
        own = getattr(scalar, name, None)
        if callable(own) and not isinstance(scalar, (Fraction, int, flint.fmpq)):
            return own()
        if type(scalar).__module__.startswith("sympy."):
            return getattr(sys.modules["sympy"], name)(scalar)
        raise DTypeError(
            name,
            f"scalar {scalar!r} of type {type(scalar).__name__}",
            f"{name} of a rational is not rational; use flint.arb balls or floats",
            "S2",
        )

    return call


_ELEMENTWISE: dict[str, Any] = {name: np.frompyfunc(_method(name), 1, 1) for name in ("exp", "log", "tanh")}


def elementwise(name: str, value: Array) -> Array:
    """exp, log or tanh of every element; floats through NumPy, which gives the same bits for any thread count."""
    if value.dtype == _OBJECT:
        return as_array(_ELEMENTWISE[name](value))
    return as_array(getattr(np, name)(value))
