"""Power-mean pooling: a long float decides nearly all outputs, exact numbers the rest.

p = 1 is a sum of magnitudes and p = infinity a maximum of magnitudes, both in the compiled core.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, lru_cache
from math import prod
from typing import Any

import numpy as np

from halfulp import _core
from halfulp.kernels._norm_sums import PlaneSums, WindowSums, decided
from halfulp.kernels._registry import register
from halfulp.kernels._window import window_arguments
from halfulp.numbers import as_doubles, float_format
from halfulp.numbers._norms import NormTerm, norm, norm_sum
from halfulp.records import GlobalLpPool, LpPool, Pullback, _inputs

Array = np.ndarray[Any, Any]

_LONG = np.longdouble
_TINY = _LONG(2) ** (np.finfo(_LONG).minexp + 200)
"""Below this powers may have lost digits."""


@lru_cache(maxsize=1024)
def _linear(op: Any) -> Any:
    """The sum for p = 1, which takes magnitudes."""
    if isinstance(op, GlobalLpPool):
        return _core.global_avg_pool(name=op.name, ndim=op.ndim, keepdims=op.keepdims, divisor=1)
    return _core.avg_pool(**window_arguments(op), count_include_pad=True, divisor=1)


@lru_cache(maxsize=1024)
def _largest(op: Any) -> _core.MaxOperator:
    """The maximum of magnitudes for p = infinity."""
    policies: dict[str, Any] = {"ties": "split", "nan": "propagate", "cells": "magnitude"}
    if isinstance(op, GlobalLpPool):
        return _core.global_max_pool(name=op.name, ndim=op.ndim, keepdims=op.keepdims, **policies)
    return _core.max_pool(**window_arguments(op), **policies)


class Norm:
    """One call on floats x, for 1 < p < infinity: estimates with error bounds, and the exact numbers behind them."""

    def __init__(self, op: Any, x: Array) -> None:
        self.op, self.x = op, x
        self.shape = _shape(op, x.shape)
        spatial = x.shape[x.ndim - op.ndim :]
        self.sums = _sums(op, spatial)
        self.target = float_format(x.dtype)
        self.planes, self.size = prod(x.shape[: x.ndim - op.ndim]), prod(spatial)
        self.inverse: Array | None = None  # for p = 2, what else the core's pullback takes

    @cached_property
    def flat(self) -> Array:
        """x as doubles, (planes, cells)."""
        doubles: Array = as_doubles(self.x).reshape(self.planes, self.size)
        return doubles

    def prepare(self) -> None:
        """Magnitudes, norms and the relative error of the norms."""
        p = _LONG(self.op.p) if isinstance(self.op.p, (int, float)) else _long(self.op.p)
        with np.errstate(all="ignore"):
            finite = np.isfinite(self.flat)
            a = np.abs(np.where(finite, self.flat, 0.0)).astype(_LONG)
            powers = a * a if self.op.p == 2 else a**p
            self.slopes = a if self.op.p == 2 else a ** (p - 1)
            small = (a != 0) & ((powers < _TINY) | (self.slopes < _TINY))
            self.bad = self.sums.push((~finite | small | ~np.isfinite(powers)).astype(np.float64)) > 0
            total = self.sums.push(powers)
            self.y = np.sqrt(total) if self.op.p == 2 else total ** (1 / p)
            self.steep = self.y if self.op.p == 2 else self.y ** (p - 1)
            logs = np.abs(np.log(a[a != 0]))
        span = float(logs.max(initial=0.0)) + math.log(self.sums.cells + 1) + 1
        unit = float(np.finfo(_LONG).eps)
        # every power and root: 4 units, and the rounding of its exponent; every sum: one unit per term
        self.error = 2 * unit * (self.sums.cells + 32 + (2 * float(p) + 4) * span)
        self.slope_error = 2 * (float(p) + 2) * self.error

    def complete(self, found: tuple[Array, Array], exactly: Any, shape: tuple[int, ...]) -> Array:
        """The array, its elements at the given flat positions computed exactly."""
        out, positions = found
        if positions.size:
            planes = out.reshape(self.planes, -1)
            for plane, position in (divmod(index, planes.shape[1]) for index in positions.tolist()):
                planes[plane, position] = exactly(plane, position)
        return out.reshape(shape)

    def values(self) -> Array:
        """The norms."""
        if not self.x.size:
            return np.zeros(self.shape, self.x.dtype)
        if self.op.p == 2:
            found = _core.norm2(self.op.name, self.sums.numbers, np.ascontiguousarray(self.x), self.shape)
        else:
            self.prepare()
            out, sure = decided(self.y, self.y * self.error, self.target)
            zero = (self.y == 0) & ~self.bad
            out[zero] = 0
            found = out, np.flatnonzero(~((sure & ~self.bad) | zero))
        return self.complete(found, self._exact_norm, self.shape)

    def _window(self, plane: int, position: int) -> list[float]:
        return self._cells(plane, self.sums.window(position))

    def _cells(self, plane: int, cells: Any) -> list[float]:
        found: list[float] = as_doubles(self._planes[plane, cells]).tolist()
        return found

    @cached_property
    def _planes(self) -> Array:
        return np.ascontiguousarray(self.x).reshape(self.planes, self.size)

    def values_and_kept(self) -> tuple[Array, Norm]:
        """The norms, and the norm of a copy of x, for a pullback."""
        if self.op.p != 2 or not self.x.size:
            return self.values(), Norm(self.op, self.x.copy())
        x = np.ascontiguousarray(self.x)
        out, undecided, copied, inverse = _core.norm2_keep(self.op.name, self.sums.numbers, x, self.shape)
        kept = Norm(self.op, copied)
        kept.inverse = inverse
        return self.complete((out, undecided), self._exact_norm, self.shape), kept

    def _exact_norm(self, plane: int, position: int) -> float:
        return norm(self._window(plane, position), self.op.p, self.target)

    def tangents(self, t: Array) -> tuple[Array, Array]:
        """The norms and their derivative along t."""
        if not self.x.size:
            return self.values(), self.values()
        along = np.ascontiguousarray(t)
        if self.op.p == 2:
            numbers, x = self.sums.numbers, np.ascontiguousarray(self.x)
            values, undecided, *rest = _core.norm2_jvp(self.op.name, numbers, x, along, self.shape)
            value, found = self.complete((values, undecided), self._exact_norm, self.shape), tuple(rest)
        else:
            value, found = self.values(), self._estimated_tangents(as_doubles(along).reshape(self.flat.shape))
        directions = along.reshape(self.planes, self.size)

        def exactly(plane: int, position: int) -> float:
            cells = self.sums.window(position)
            window, factors = self._cells(plane, cells), as_doubles(directions[plane, cells]).tolist()
            parts = [NormTerm(value, factor, window) for value, factor in zip(window, factors, strict=True)]
            return norm_sum(parts, self.op.p, self.target, self.sums.padded(position))

        return value, self.complete(found, exactly, self.shape)

    def _estimated_tangents(self, along: Array) -> tuple[Array, Array]:
        with np.errstate(all="ignore"):
            terms = np.where(np.isfinite(along), along, 0.0) * self.slopes * np.sign(_plain(self.flat))
            bad = self.bad | (self.sums.push((~np.isfinite(along)).astype(np.float64)) > 0)
            estimate = self.sums.push(terms) / self.steep
            error = self.slope_error * self.sums.push(np.abs(terms)) / self.steep
        out, sure = decided(estimate, error, self.target)
        return out, np.flatnonzero(~(sure & ~bad))

    def cotangents(self, g: Array) -> Array:
        """The transpose of the derivative, applied to g."""
        if not g.size or not self.x.size:
            return np.zeros(self.x.shape, self.x.dtype)
        given = np.ascontiguousarray(g).reshape(self.planes, -1)
        if self.op.p == 2:
            found = _core.norm2_vjp(self.op.name, self.sums.numbers, self.x, self.inverse, given)
        else:
            found = self._estimated_cotangents(as_doubles(given))

        def exactly(plane: int, cell: int) -> float:
            (own,) = self._cells(plane, [cell])
            holders = self.sums.holders(cell)
            factors = as_doubles(given[plane, holders]).tolist()
            parts = [NormTerm(own, f, self._window(plane, o)) for o, f in zip(holders, factors, strict=True)]
            return norm_sum(parts, self.op.p, self.target)

        return self.complete(found, exactly, self.x.shape)

    def _estimated_cotangents(self, given: Array) -> tuple[Array, Array]:
        self.prepare()
        with np.errstate(all="ignore"):
            usable = np.isfinite(given) & (self.steep != 0)
            shares = np.where(usable, given / np.where(usable, self.steep, 1), 0).astype(_LONG)
            bad = self.sums.pull((self.bad | ~np.isfinite(given)).astype(np.float64)) > 0
            estimate = self.sums.pull(shares) * self.slopes * np.sign(_plain(self.flat))
            error = self.slope_error * self.sums.pull(np.abs(shares)) * self.slopes
        out, sure = decided(estimate, error, self.target)
        zero = (self.flat == 0) & ~bad
        out[zero] = 0  # every term of a cell that is 0 is +0
        return out, np.flatnonzero(~((sure & ~bad) | zero))


def _plain(values: Array) -> Array:
    return np.where(np.isnan(values), 0.0, values)


def _long(p: Any) -> Any:
    return _LONG(p.numerator) / _LONG(p.denominator)


def _signed(op: Any, x: Array, t: Array) -> Array:
    """t times the sign of x: +0 where x is 0, NaN where it is NaN."""
    out: Array
    out, missing = _core.give_signs(op.name, np.ascontiguousarray(x), np.ascontiguousarray(t), True)
    if missing:
        out[np.isnan(x)] = np.nan
    return out


@lru_cache(maxsize=1024)
def _shape(op: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    found: tuple[int, ...] = op.output_shape(shape)
    return found


@lru_cache(maxsize=1024)
def _sums(op: Any, spatial: tuple[int, ...]) -> Any:
    return WindowSums(op.axes(spatial)) if isinstance(op, LpPool) else PlaneSums(spatial)


def _value(op: Any, x: Array) -> Any:
    if op.p == math.inf:
        return _largest(op).forward(x)
    if op.p == 1:
        linear = _linear(op)
        return linear.forward_magnitudes(x) if x.flags.c_contiguous else linear.forward(np.abs(x))
    return Norm(op, x).values()


def forward(op: Any, *inputs: Any, out: Any = None) -> Any:
    """The norm of every window."""
    (x,) = _inputs.as_arrays(op, inputs)
    assert x is not None
    _shape(op, x.shape)
    return _value(op, x)


def jvp(op: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    """The norms and their derivative along a tangent."""
    (x,) = _inputs.as_arrays(op, primals)
    assert x is not None
    (t,) = _inputs.as_tangents(op, (x,), tangents)
    assert t is not None
    _shape(op, x.shape)
    if op.p == math.inf:
        return _largest_jvp(op, x, t)
    if op.p == 1:
        return tuple(_linear(op).magnitudes_jvp(np.ascontiguousarray(x), np.ascontiguousarray(t)))
    return Norm(op, x).tangents(t)


def _largest_jvp(op: Any, x: Array, t: Array) -> tuple[Array, Array]:
    """p = infinity: the planes in which every window has one largest cell; then the others, which have ties or NaN."""
    t = np.ascontiguousarray(t)
    found = None
    if x.size:
        x = np.ascontiguousarray(x)
        found = _core.magnitude_jvp(op.name, _sums(op, x.shape[-op.ndim :]).numbers, x, t, _shape(op, x.shape))
    if found is None:
        return tuple(_largest(op).jvp(x, _signed(op, x, t)))
    value, tangent, left = found
    if left.size:
        own = _planes(op, x)[left]
        values, tangents = _largest(op).jvp(own, _signed(op, own, _planes(op, t)[left]))
        _windows(op, value)[left], _windows(op, tangent)[left] = values, tangents
    return value, tangent


def _planes(op: Any, array: Array) -> Array:
    return array.reshape(-1, *array.shape[array.ndim - op.ndim :])


def _windows(op: Any, array: Array) -> Array:
    """The outputs of every plane."""
    return array.reshape(-1) if isinstance(op, GlobalLpPool) and not op.keepdims else _planes(op, array)


def vjp(op: Any, *primals: Any) -> tuple[Any, Pullback]:
    """The norms, and a pullback that keeps its own copy of the input."""
    (given,) = _inputs.as_arrays(op, primals)
    assert given is not None
    shape, dtype = _shape(op, given.shape), given.dtype
    if 1 < op.p < math.inf:
        output, kept = Norm(op, given).values_and_kept()

        def pullback(cotangent: Any) -> tuple[Any, ...]:
            g = _inputs.as_cotangent(op, cotangent, shape, dtype)
            return (kept.cotangents(g),)

        return output, pullback
    value, transpose = _largest_vjp(op, given) if op.p == math.inf else _linear_vjp(op, given)

    def signed_pullback(cotangent: Any) -> tuple[Any, ...]:
        return (transpose(np.asarray(_inputs.as_cotangent(op, cotangent, shape, dtype), order="C")),)

    return value, signed_pullback


def _linear_vjp(op: Any, x: Array) -> tuple[Array, Callable[[Array], Array]]:
    """p = 1: two bits for the sign of each cell."""
    value, transpose = _linear(op).magnitudes_vjp(np.ascontiguousarray(x))
    return value, transpose


def _largest_vjp(op: Any, x: Array) -> tuple[Array, Callable[[Array], Array]]:
    """p = infinity, as the JVP: a byte for each window, and a copy of the planes with ties or NaN."""
    found = None
    if x.size:
        x = np.ascontiguousarray(x)
        numbers, shape = _sums(op, x.shape[-op.ndim :]).numbers, x.shape
        found = _core.magnitude_keep(op.name, numbers, x, _shape(op, shape))
    if found is None:
        return _signed_vjp(op, x.copy(order="K"))
    value, winners, left = found
    if left.size:
        _windows(op, value)[left], others = _signed_vjp(op, _planes(op, x)[left])

    def transpose(g: Array) -> Array:
        g = np.ascontiguousarray(g)
        dx: Any = _core.magnitude_vjp(op.name, numbers, winners, g, shape)
        if left.size:
            _planes(op, dx)[left] = others(_windows(op, g)[left])
        pulled: Array = dx
        return pulled

    return value, transpose


def _signed_vjp(op: Any, x: Array) -> tuple[Array, Callable[[Array], Array]]:
    """p = infinity, as maxima of magnitudes, whose cotangents get the signs of x."""
    value, transpose = _largest(op).vjp(x)
    x = np.ascontiguousarray(x)

    def pullback(g: Array) -> Array:
        (positive,) = transpose(g)
        dx: Array
        dx, missing = _core.give_signs(op.name, x, np.ascontiguousarray(positive), False)
        # A sum of terms that are not 0 is +0 for both signs. Where a term may be 0, its sign is that of the cell.
        # Shares of a maximum may underflow to 0.
        with np.errstate(invalid="ignore"):
            nonzero = g.size > 0 and bool(np.abs(g).min() >= np.ldexp(1.0, float_format(g.dtype).emin))
        if not nonzero:
            negative = np.signbit(x) & ~np.isnan(x) & (x != 0)
            np.copyto(dx, transpose(-g)[0], where=negative & (positive == 0))
        if missing:
            dx[np.isnan(x) & _covered(op, x.shape)] = np.nan
        return dx

    return value, pullback


def _covered(op: Any, shape: tuple[int, ...]) -> Array:
    """The cells of a plane that some window holds."""
    spatial = shape[len(shape) - op.ndim :]
    if isinstance(op, GlobalLpPool):
        return np.ones(spatial, bool)
    held = np.ones(spatial, bool)
    for number, axis in enumerate(op.axes(spatial)):
        along = np.zeros(axis.size, bool)
        for o in range(axis.output_size):
            along[list(axis.real_cells(o))] = True
        held &= along.reshape([-1 if i == number else 1 for i in range(op.ndim)])
    return held


register(LpPool, forward=forward, jvp=jvp, vjp=vjp)
register(GlobalLpPool, forward=forward, jvp=jvp, vjp=vjp)
