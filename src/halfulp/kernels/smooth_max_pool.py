"""Smooth max pooling: the compiled core decides nearly all outputs, ball arithmetic the rest."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halfulp import _core
from halfulp.errors import DTypeError
from halfulp.geometry import Axis, flat_index
from halfulp.kernels._registry import register
from halfulp.kernels._window import window_arguments
from halfulp.numbers import Format, flint, float_format
from halfulp.numbers import _smooth_max as exact
from halfulp.records import Pullback, SmoothMaxPool, _inputs

Array = NDArray[Any]

_RANGE = 2**300
"""Beyond this (or below its inverse) a beta's products leave the range of doubles: nothing is left to the core."""


class Compiled(NamedTuple):
    """A record made ready: its core object, its beta exactly, and whether the core's results can be used."""

    core: _core.SmoothOperator
    beta: Any
    usable: bool


def compiled(op: SmoothMaxPool) -> Compiled:
    """The core's object for a record; it holds the window plans of the shapes that it has met lately."""
    exact_beta(op)  # refuses what has no exact value, which may have no hash either
    return _compiled(op)


@lru_cache(maxsize=1024)
def _compiled(op: SmoothMaxPool) -> Compiled:
    beta = exact_beta(op)
    usable = abs(beta) < _RANGE and abs(1 / beta) < _RANGE
    high = float(Fraction(abs(int(beta.p)), int(beta.q))) if usable else 1.0
    rest = abs(beta) - flint.fmpq(*high.as_integer_ratio()) if usable else flint.fmpq(0)
    core = _core.smooth_max_pool(
        **window_arguments(op),
        beta_high=high,
        beta_low=float(Fraction(int(rest.p), int(rest.q))),
        negative=bool(beta < 0),
    )
    return Compiled(core, beta, usable)


def exact_beta(op: SmoothMaxPool) -> Any:
    """The rational that a record's beta means exactly."""
    beta = op.beta
    if isinstance(beta, flint.fmpq):
        return beta
    if isinstance(beta, (float, int, Fraction)):
        return flint.fmpq(*beta.as_integer_ratio())
    raise DTypeError(op.name, f"beta={beta!r}", "floats need a beta that is a float or a rational", "I2")


class Planes(NamedTuple):
    """What the exact fallback needs to find the cells of a window: axes, and arrays with one axis for all planes."""

    axes: tuple[Axis, ...]
    target: Format

    def window(self, plane: Array, output: tuple[int, ...]) -> tuple[exact.Window, list[int]]:
        """A window of a plane (a flat array of doubles), and the positions of its cells."""
        real = [axis.real_cells(o) for axis, o in zip(self.axes, output, strict=True)]
        counted = prod(axis.counted(o) for axis, o in zip(self.axes, output, strict=True))
        sizes = [axis.size for axis in self.axes]
        cells = [flat_index(position, sizes) for position in product(*real)]
        return exact.Window([float(plane[i]) for i in cells], counted - len(cells)), cells


def _planes(op: SmoothMaxPool, x: Array) -> Planes:
    return Planes(op.axes(x.shape[x.ndim - op.ndim :]), float_format(x.dtype))


def _flat(op: SmoothMaxPool, x: Array) -> Array:
    """(planes, cells) as doubles."""
    return x.astype(np.float64).reshape((-1, prod(x.shape[x.ndim - op.ndim :])))


def _complete(op: SmoothMaxPool, result: tuple[Array, Array], decide: Callable[[int, tuple[int, ...]], float]) -> Array:
    """Fill in what the core left undecided: ``decide(plane, position in the plane)``."""
    out, undecided = result
    if not compiled(op).usable:
        undecided = np.arange(out.size)
    if undecided.size:
        spatial = out.shape[out.ndim - op.ndim :]
        for index in undecided.tolist():
            plane, position = divmod(index, prod(spatial))
            within = tuple(int(i) for i in np.unravel_index(position, spatial))
            out[np.unravel_index(index, out.shape)] = decide(plane, within)
    return out


def forward(op: SmoothMaxPool, *inputs: Any, out: Any = None) -> Array:
    """The correctly rounded value of every window."""
    if len(inputs) != 1:
        _inputs.as_arrays(op, inputs)
    x = np.asarray(inputs[0])
    return _values(op, x, compiled(op).core.forward(x, out))


def _values(op: SmoothMaxPool, x: Array, result: tuple[Array, Array]) -> Array:
    """The values that the core gives, completed."""

    def decide(plane: int, output: tuple[int, ...]) -> float:
        planes = _planes(op, x)
        window, _ = planes.window(_flat(op, x)[plane], output)
        return exact.value(compiled(op).beta, window, planes.target)

    return _complete(op, result, decide)


def jvp(op: SmoothMaxPool, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    """The values and the correctly rounded derivative along a tangent."""
    if len(primals) != 1 or len(tangents) != 1:
        _inputs.as_tangents(op, _inputs.as_arrays(op, primals), tangents)
    made = compiled(op)
    x, t = np.asarray(primals[0]), np.asarray(tangents[0])
    values, derivatives = made.core.jvp(x, t)

    def decide(plane: int, output: tuple[int, ...]) -> float:
        planes = _planes(op, x)
        window, cells = planes.window(_flat(op, x)[plane], output)
        along = _flat(op, t)[plane]
        return exact.jvp(made.beta, window, [float(along[i]) for i in cells], planes.target)

    return _values(op, x, values), _complete(op, derivatives, decide)


def vjp(op: SmoothMaxPool, *primals: Any) -> tuple[Array, Pullback]:
    """The values and a pullback, which keeps its own copy of the input."""
    if len(primals) != 1:
        _inputs.as_arrays(op, primals)
    made = compiled(op)
    output = forward(op, primals[0])
    x = np.array(primals[0], order="K", copy=True)

    def pullback(cotangent: Any) -> tuple[Array]:
        g = np.asarray(cotangent)
        result = made.core.vjp(x, g)

        def decide(plane: int, cell: tuple[int, ...]) -> float:
            planes = _planes(op, x)
            values, cotangents = _flat(op, x)[plane], _flat(op, g)[plane]
            sizes = [axis.output_size for axis in planes.axes]
            own = float(values[flat_index(cell, [axis.size for axis in planes.axes])])
            parts = [
                (planes.window(values, w)[0], own, float(cotangents[flat_index(w, sizes)]))
                for w in product(*(_windows_of(axis, i) for axis, i in zip(planes.axes, cell, strict=True)))
            ]
            return exact.vjp(made.beta, parts, planes.target)

        return (_complete(op, result, decide),)

    return output, pullback


def _windows_of(axis: Axis, cell: int) -> list[int]:
    """The windows of an axis that hold a cell."""
    return [o for o in range(axis.output_size) if cell in axis.real_cells(o)]


register(SmoothMaxPool, forward=forward, jvp=jvp, vjp=vjp)
