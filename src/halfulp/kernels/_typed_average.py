"""Averages and sums into another element type, and those that pass over NaN."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import isnan, prod
from typing import Any

import numpy as np

from halfulp import _core
from halfulp.geometry import adaptive_end, adaptive_start
from halfulp.numbers import as_doubles, float_format, on_grid, round_rational
from halfulp.records import AdaptiveOperator, Pullback, SumPool, WindowOperator, _inputs
from halfulp.records._missing import does_not_fit, output_dtype

Array = np.ndarray[Any, Any]


def typed_forward(op: Any, compiled: _core.AvgOperator, inputs: tuple[Any, ...], out: Any = None) -> Any:
    """The value of an average with a dtype or a policy for NaN."""
    (x,) = _inputs.as_arrays(op, inputs)
    assert x is not None
    _inputs.refuse_nan(op, x)
    target = output_dtype(op, x.dtype)
    if x.dtype.kind in "iub":
        return _integers(op, compiled, x, target, out)
    if target == x.dtype:
        return _floats(op, compiled, x, out)
    if _holds(target, x.dtype):
        return _floats(op, compiled, as_doubles(x) if target == np.float64 else x.astype(target), out)
    return _narrowed(op, compiled, x, target)


def typed_jvp(
    op: Any, compiled: _core.AvgOperator, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[Any, Any]:
    """The value and the derivative of the same."""
    (x,) = _inputs.as_arrays(op, primals)
    assert x is not None
    _inputs.differentiable(op, x)
    (t,) = _inputs.as_tangents(op, (x,), tangents)
    _inputs.refuse_nan(op, x)
    if op.nan == "ignore":
        return compiled.present_jvp(x, t)
    return compiled.jvp(x, t)


def present_vjp(op: Any, compiled: _core.AvgOperator, x: Array) -> tuple[Any, Pullback]:
    """The value over the cells that are numbers, and a pullback that keeps which these are."""
    output, transpose = compiled.present_vjp(x)

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        return (transpose(cotangent),)

    return output, pullback


def _floats(op: Any, compiled: _core.AvgOperator, x: Array, out: Any = None) -> Any:
    """Floats into their own type."""
    if op.nan == "ignore":
        return compiled.present_forward(x, out)
    return compiled.forward(x) if out is None else compiled.forward_into(x, out)


def _integers(op: Any, compiled: _core.AvgOperator, x: Array, target: np.dtype[Any], out: Any = None) -> Any:
    output, wrong = compiled.forward_as(x, target.name, out)
    if wrong >= 0:
        raise does_not_fit(op, wrong, output.shape, target)
    return output


def _holds(wide: np.dtype[Any], narrow: np.dtype[Any]) -> bool:
    """Whether one float type holds every number of another."""
    if wide.kind in "iub":
        return False
    a, b = float_format(wide), float_format(narrow)
    return a.precision >= b.precision and a.emax >= b.emax and a.quantum <= b.quantum


def _narrowed(op: Any, compiled: _core.AvgOperator, x: Array, target: np.dtype[Any]) -> Array:
    """Floats into a type that does not hold them: the nearest double decides nearly all, exact numbers the rest.

    A double that is no midpoint of the target's grid rounds as the exact value does.
    """
    wide = as_doubles(x)
    if target.kind in "iub" and bool((np.abs(wide) < 2.0**62).all()) and bool((wide == np.rint(wide)).all()):
        return _integers(op, compiled, wide.astype(np.int64), target)  # type: ignore[no-any-return]
    doubles = _floats(op, compiled, wide)
    with np.errstate(all="ignore"):
        if target.kind in "iub":
            output = np.zeros(doubles.shape, target)
            least, most = (0, 1) if target.kind == "b" else (np.iinfo(target).min, np.iinfo(target).max)
            unsure = (np.abs(doubles) >= 2.0**51) | (doubles - np.floor(doubles) == 0.5) | ~np.isfinite(doubles)
            nearest = np.where(unsure, 0.0, np.rint(doubles))
            unsure |= (nearest < least) | (nearest > most)
            output[~unsure] = nearest[~unsure].astype(target)
        else:
            grid = float_format(target)
            output = on_grid(doubles, grid).astype(target)
            back = as_doubles(output)
            other = doubles + (doubles - back)
            midpoint = (back != doubles) & (on_grid(other, grid) == other)
            unsure = (midpoint | np.isinf(back)) & np.isfinite(doubles)
    for flat in np.flatnonzero(unsure).tolist():
        position = np.unravel_index(flat, output.shape)
        value = None if not np.isfinite(doubles[position]) else _exact(op, wide, [int(i) for i in position])
        if target.kind in "iub":
            if value is None or not least <= round(value) <= most:
                raise does_not_fit(op, flat, output.shape, target)
            output[position] = round(value)
        else:
            assert value is not None
            output[position] = round_rational(value.numerator, value.denominator, float_format(target))
    return output


def _exact(op: Any, x: Array, position: list[int]) -> Fraction:
    """The exact value of one finite output."""
    leading = x.ndim - op.ndim
    spatial = x.shape[leading:]
    place = position[leading:] or [0] * op.ndim
    real, counted = _cells(op, spatial, place)
    plane = x[tuple(position[:leading])]
    cells = [float(plane[cell]) for cell in product(*real)]
    kept = [Fraction(value) for value in cells if op.nan != "ignore" or not isnan(value)]
    if isinstance(op, SumPool):
        return sum(kept, Fraction(0))
    padded = counted - len(cells) if getattr(op, "count_include_pad", False) else 0
    divisor = getattr(op, "divisor_override", None) or len(kept) + padded
    return sum(kept, Fraction(0)) / divisor if divisor else Fraction(0)


def _cells(op: Any, spatial: tuple[int, ...], place: list[int]) -> tuple[list[range], int]:
    """The real cells of a window along every axis, and how many cells it counts."""
    if isinstance(op, WindowOperator):
        axes = op.axes(spatial)
        real = [axis.real_cells(o) for axis, o in zip(axes, place, strict=True)]
        return real, prod(axis.counted(o) for axis, o in zip(axes, place, strict=True))
    if isinstance(op, AdaptiveOperator):
        sizes = op.spatial_output(spatial)
        real = [
            range(adaptive_start(n, m, o), adaptive_end(n, m, o)) for o, n, m in zip(place, spatial, sizes, strict=True)
        ]
    else:
        real = [range(n) for n in spatial]
    return real, prod(len(r) for r in real)
