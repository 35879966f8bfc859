"""What a campaign asks of a subject: settings (a record with input shapes), fillings (numbers by label), and cases.

A *setting* is one operator record with the shapes and memory layout of its inputs. A *filling* puts numbers into them.
A *case* is a setting with a filling, an element type and a mode. Everything follows from the campaign's seed.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np

from halfulp.conformance.fill import filled
from halfulp.records import Array, Operator, Shape, declaration_of, declarations, is_declared, named

__all__ = [
    "DTYPES",
    "FLOATS",
    "INTEGERS",
    "MODES",
    "OPERATORS",
    "Arrays",
    "Case",
    "Filling",
    "Setting",
    "known",
]

OPERATORS: Final = tuple(d.name for d in declarations() if d.record.__module__.startswith("halfulp."))
"""The package's own operators; :func:`known` also has those that others have declared."""
MODES: Final = ("forward", "jvp", "vjp")
FLOATS: Final = ("float16", "bfloat16", "float32", "float64")
INTEGERS: Final = ("int8", "uint8", "int32", "int64")
DTYPES: Final = (*FLOATS, *INTEGERS)


def known() -> tuple[str, ...]:
    """Every declared operator by name."""
    return tuple(declaration.name for declaration in declarations())


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a name; bfloat16 comes from ml_dtypes.

    >>> numpy_dtype("bfloat16").itemsize
    2
    """
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def derived_seed(*parts: object) -> int:
    """A 63-bit seed that depends on every part, the same on every machine.

    >>> derived_seed(0, "conv") == derived_seed(0, "conv")
    True
    """
    digest = hashlib.blake2b("\x1f".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def takes(operator: str, mode: str, dtype: str) -> bool:
    """Whether the specification gives this combination a meaning: integers are for hard maxima, forward only.

    >>> takes("max_pool", "forward", "int8"), takes("max_pool", "vjp", "int8"), takes("conv", "vjp", "float16")
    (True, False, True)
    """
    return dtype in FLOATS or (mode == "forward" and named(operator).integers)


@dataclass(frozen=True)
class Filling:
    """How numbers are put into a setting: a label of :mod:`halfulp.conformance.fill`, and a seed."""

    label: str
    seed: int


@dataclass(frozen=True)
class Setting:
    """One operator record with the shapes of its inputs, their layout, and what it is meant to probe."""

    op: Operator
    shapes: tuple[Shape | None, ...]
    fillings: tuple[Filling, ...]
    label: str = "drawn"
    layout: str = "C"
    choice: tuple[tuple[str, Any], ...] = ()
    """The options that a drawn setting was made of; empty for a curated one."""
    rank: int = 0
    """The spatial rank that a drawn setting was made for; 0 for a curated one."""

    @property
    def output_shape(self) -> Shape:
        """The output's shape by the record's own formula."""
        return self.op.output_shape(*self.shapes)  # type: ignore[arg-type]  # a bias may be None


@dataclass(frozen=True)
class Arrays:
    """The arrays of a case: inputs, their tangents, and a cotangent of the output."""

    primals: tuple[Array | None, ...]
    tangents: tuple[Array | None, ...]
    cotangent: Array


@dataclass(frozen=True)
class Case:
    """A setting with numbers of one element type, seen in one mode."""

    operator: str
    setting: Setting
    filling: Filling
    dtype: str
    mode: str
    key: str = ""

    def arrays(self) -> Arrays:
        """The case's arrays, the same at every call."""
        return make_arrays(self.setting, self.filling, self.dtype)

    @property
    def label(self) -> str:
        """What the case probes, in words."""
        return self.filling.label if self.setting.label == "drawn" else f"{self.setting.label}, {self.filling.label}"


def make_arrays(setting: Setting, filling: Filling, dtype: str) -> Arrays:
    """Inputs, tangents and cotangent of a setting under a filling."""
    rng = np.random.default_rng(filling.seed)
    kind = numpy_dtype(dtype)
    primals: list[Array | None] = []
    tangents: list[Array | None] = []
    for position, shape in enumerate(setting.shapes):
        if shape is None:
            primals.append(None)
            tangents.append(None)
            continue
        primal = filled(filling.label, shape, kind, rng, weight=position > 0)
        tangent = filled(filling.label, shape, kind, rng, derivative=True)
        primals.append(laid_out(primal, setting.layout) if position == 0 else primal)
        tangents.append(laid_out(tangent, setting.layout) if position == 0 else tangent)
    made = declaration_of(setting.op).draw.constants if is_declared(setting.op) else None
    if made is not None:  # inputs without a derivative: no filling fits them
        given = made(setting.op, setting.shapes, rng)
        count = len(primals) - len(given)
        primals, tangents = [*primals[:count], *given], [*tangents[:count], *(None for _ in given)]
    cotangent = filled(filling.label, setting.output_shape, kind, rng, derivative=True)
    return Arrays(tuple(primals), tuple(tangents), cotangent)


def laid_out(array: Array, layout: str) -> Array:
    """The same numbers in another memory layout.

    >>> laid_out(np.zeros((2, 3, 4)), "channels_last").strides
    (96, 8, 24)
    """
    if layout == "channels_last" and array.ndim >= 3:
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)
    if layout == "negative_strides" and array.ndim:
        return np.ascontiguousarray(array[..., ::-1])[..., ::-1]
    if layout == "strided" and array.ndim:
        spread = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        spread[..., ::2] = array
        return spread[..., ::2]
    return array


def elements(shape: Shape) -> int:
    """How many elements a shape has."""
    return math.prod(shape)
