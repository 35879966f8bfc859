"""Scalars of any type in the specification: kind, zero, exp and log, sums of terms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from halfulp.errors import DTypeError
from halfulp.numbers import Extended, flint


def kind_of(scalar: Any) -> str:
    """The name of the number system that a scalar belongs to; integers belong to all of them."""
    if isinstance(scalar, (bool, np.bool_)):
        return "bool"
    if isinstance(scalar, (int, flint.fmpz, np.integer)):
        return "int"
    if isinstance(scalar, (float, np.floating)):
        return "float"
    if isinstance(scalar, (complex, np.complexfloating)):
        return "complex"
    root = type(scalar).__module__.partition(".")[0]
    # The expressions of a symbolic library have many classes but are one number system.
    return root if root == "sympy" else type(scalar).__name__


def unify(operator: str, arrays: Sequence[np.ndarray[Any, Any] | None]) -> tuple[np.ndarray[Any, Any] | None, ...]:
    """Check that all scalars of a call are of one kind, and lift integers to rationals where they stand alone."""
    # one scalar of every type tells the kinds
    types = {type(scalar): scalar for array in arrays if array is not None for scalar in array.ravel().tolist()}
    kinds = {kind_of(scalar) for scalar in types.values()}
    others = sorted(kinds - {"int"})
    refused = sorted({kind_of(scalar) for scalar in types.values() if not _is_ordered_number(scalar)})
    if refused:
        raise DTypeError(
            operator,
            f"scalars of kind {refused[0]}",
            "must be ordered numbers, such as Fraction, fmpq, arb or float",
            "I1",
        )
    if len(others) > 1:
        raise DTypeError(
            operator, f"scalars of kinds {', '.join(others)}", "all scalars of a call must be of one kind", "I2"
        )
    if kinds == {"int"}:
        return tuple(None if a is None else _map(a, lambda v: flint.fmpq(int(v))) for a in arrays)
    if "int" in kinds:
        unit = next(v for a in arrays if a is not None for v in a.ravel() if kind_of(v) != "int")
        return tuple(None if a is None else _map(a, lambda v: _like(v, unit)) for a in arrays)
    return tuple(arrays)


def _is_ordered_number(scalar: Any) -> bool:
    """Whether a scalar can be ordered, added, subtracted and multiplied, as no text, container or bare object can."""
    arithmetic = all(hasattr(type(scalar), name) for name in ("__add__", "__sub__", "__mul__"))
    return arithmetic and kind_of(scalar) not in ("bool", "complex")


def _like(value: Any, unit: Any) -> Any:
    """``value``, or the scalar of ``unit``'s kind that an integer means."""
    return value if kind_of(value) != "int" else zero_like(unit) + int(value)


def _map(array: np.ndarray[Any, Any], function: Any) -> np.ndarray[Any, Any]:
    return filled(array.shape, [function(v) for v in array.ravel()])


def filled(shape: tuple[int, ...], values: list[Any]) -> np.ndarray[Any, Any]:
    """An object array of this shape; NumPy is never asked to look inside the values."""
    out = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        out[i] = value
    return out.reshape(shape)


def zero_of(arrays: Iterable[np.ndarray[Any, Any] | None]) -> Any:
    """The zero of the scalars in these arrays; a rational zero if there are none."""
    for array in arrays:
        if array is not None and array.size:
            return zero_like(array.flat[0])
    return flint.fmpq(0)


def zero_like(scalar: Any) -> Any:
    """The zero of a scalar's number system."""
    if isinstance(scalar, Extended):
        return Extended(flint.fmpq(0))
    if isinstance(scalar, np.floating):  # before float: a NumPy double is both
        return type(scalar)(0)
    for kind in (flint.fmpq, flint.arb, Fraction, float):
        if isinstance(scalar, kind):
            return kind(0)
    return scalar * 0


def total(terms: Sequence[Any]) -> Any:
    """The sum of at least one term. It starts from the first term, so that a sum of negative zeros keeps its sign."""
    return reduce(add, terms)


def is_nan(scalar: Any) -> bool:
    """Whether a scalar is not a number: the only one that differs from itself."""
    return bool(scalar.is_nan()) if isinstance(scalar, flint.arb) else bool(scalar != scalar)


def is_rational(scalar: Any) -> bool:
    """Whether a scalar is a rational number by its type: never NaN, and with no exp or log among its kind."""
    return isinstance(scalar, (flint.fmpq, Fraction, int))


def hull(balls: Iterable[flint.arb]) -> flint.arb:
    """A ball that encloses all of these."""
    return reduce(lambda a, b: a.union(b), balls)


def exp(scalar: Any) -> Any:
    """e to the power of a scalar."""
    return _transcendental("exp", scalar)


def log(scalar: Any) -> Any:
    """The natural logarithm of a scalar."""
    return _transcendental("log", scalar)


def require_exp(operator: str, scalar: Any) -> None:
    """Refuse a number system that is not closed under exp and log."""
    known = isinstance(scalar, (float, np.floating)) or kind_of(scalar) == "sympy"
    if is_rational(scalar) or not (known or (hasattr(scalar, "exp") and hasattr(scalar, "log"))):
        raise DTypeError(
            operator,
            f"scalars of kind {type(scalar).__name__}",
            "a scalar with exp and log is needed: flint.arb, float, a float array, sympy, or any type with the methods "
            "exp() and log()",
            "S2",
        )


def quotient(numerator: Any, denominator: Any) -> Any:
    """numerator / denominator, where 0 / 0 and inf / inf among floats are NaN, as IEEE 754 has it."""
    if isinstance(denominator, (float, np.floating)) and denominator == 0:
        return numerator * math.nan
    return numerator / denominator


def exact_beta(operator: str, beta: Any) -> flint.fmpq:
    """The rational that a record's beta means exactly."""
    if isinstance(beta, float):
        return flint.fmpq(*beta.as_integer_ratio())
    if isinstance(beta, Fraction):
        return flint.fmpq(beta.numerator, beta.denominator)
    if isinstance(beta, int):
        return flint.fmpq(beta)
    raise DTypeError(operator, f"beta={beta!r}", "floats need a beta that is a float or a rational", "I2")


def _transcendental(function: str, scalar: Any) -> Any:
    if isinstance(scalar, (float, np.floating)):
        kind = type(scalar) if isinstance(scalar, np.floating) else float
        return kind(_float_exp(scalar) if function == "exp" else math.log(scalar) if scalar else -math.inf)
    if kind_of(scalar) == "sympy":
        import sympy

        return getattr(sympy, function)(scalar)
    return getattr(scalar, function)()


def _float_exp(scalar: Any) -> float:
    try:
        return math.exp(scalar)
    except OverflowError:
        return math.inf
