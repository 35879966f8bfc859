"""Pieces of source text for reproducers: arrays as literals that give back the same bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from halfulp.records import Array, Operator

INPUT_NAMES = ("x", "weight", "bias", "running_mean", "running_var")


def names_of(op: Operator) -> tuple[str, ...]:
    """The names of an operator's inputs in a script.

    >>> from halfulp import MSELoss
    >>> names_of(MSELoss())
    ('x', 'target')
    """
    return ("x", *op.input_names[1 : op.arity]) if op.required is not None else INPUT_NAMES[: op.arity]


class Seeded(np.ndarray[Any, Any]):
    """An array of normal numbers that remembers its seed: too large to be written out, but easy to make again."""

    seed: int = 0

    @classmethod
    def make(cls, seed: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Seeded:
        """Normal numbers of a seed."""
        made = np.random.default_rng(seed).standard_normal(shape).astype(dtype).view(cls)
        made.seed = seed
        return made


def literal(array: Array) -> str:
    """A nested list that holds exactly the array's numbers; an array without elements keeps its shape.

    >>> literal(np.array([[0.5, -0.0]], np.float32))
    'np.array([[0.5, -0.0]])'
    >>> literal(np.zeros((0, 2)))
    'np.zeros((0, 2))'
    """
    if isinstance(array, Seeded):
        return f"np.random.default_rng({array.seed}).standard_normal({array.shape})"
    if array.size == 0:
        return f"np.zeros({array.shape})"
    return f"np.array({_nested(array)})"


def _nested(array: Array) -> str:
    if array.ndim == 0:
        return _number(array[()])
    return "[" + ", ".join(_nested(item) for item in array) + "]"


def _number(value: Any) -> str:
    if isinstance(value, (int, np.integer, bool, np.bool_)):
        return repr(int(value))
    number = float(value)
    if math.isnan(number):
        return "np.nan"
    if math.isinf(number):
        return "np.inf" if number > 0 else "-np.inf"
    return repr(number)


def named_arrays(mode: str, arrays: Any, names: tuple[str, ...] = INPUT_NAMES) -> list[tuple[str, Array]]:
    """(name, array) of everything that a case in this mode is given."""
    named = [(name, a) for name, a in zip(names, arrays.primals, strict=False) if a is not None]
    if mode == "jvp":
        named += [(f"d{name}", a) for name, a in zip(names, arrays.tangents, strict=False) if a is not None]
    if mode == "vjp":
        named.append(("cotangent", arrays.cotangent))
    return named


def given_names(arrays: Any, names: tuple[str, ...] = INPUT_NAMES) -> list[str]:
    """The names of the inputs that are there."""
    return [name for name, a in zip(names, arrays.primals, strict=False) if a is not None]


def type_of(array: Array, dtype: str) -> str:
    """The element type that an array has in a script: that of the case, or integers for class indices."""
    return array.dtype.name if array.dtype.kind in "iu" else dtype


def numpy_arrays(mode: str, arrays: Any) -> list[str]:
    """One assignment per array, for scripts that need nothing but NumPy arrays (bfloat16 through ml_dtypes)."""
    named = named_arrays(mode, arrays)
    dtype = np.dtype(named[0][1].dtype).name
    lines = ["from ml_dtypes import bfloat16"] if dtype == "bfloat16" else []
    written = "bfloat16" if dtype == "bfloat16" else f"np.{dtype}"
    for name, array in named:
        own = f"np.{array.dtype.name}" if array.dtype.kind in "iu" else written
        lines.append(f"{name} = {literal(array)}.astype({own})")
    return lines


def halfulp_call(mode: str, target: str = "op") -> list[str]:
    """The lines that compute ``got`` with an operator record, or with a backend that takes one."""
    if mode == "forward":
        return [f"got = {target}(*inputs)"]
    if mode == "jvp":
        return [f"got = {target}.jvp(inputs, tangents)[1]"]
    return [f"got = {target}.vjp(*inputs)[1](cotangent)[which]"]


def inputs_line(arrays: Any, mode: str) -> list[str]:
    """Tuples of the inputs (and tangents), with None for an absent bias."""
    names = [name if a is not None else "None" for name, a in zip(INPUT_NAMES, arrays.primals, strict=False)]
    lines = [f"inputs = ({', '.join(names)},)"]
    if mode == "jvp":
        tangents = [name if name == "None" else f"d{name}" for name in names]
        lines.append(f"tangents = ({', '.join(tangents)},)")
    return lines
