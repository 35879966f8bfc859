"""Smooth max pooling: y = (1/beta) * log(sum(exp(beta * x))) over a window, padded cells counting as zeros.

With the weights p_i = exp(beta * x_i) / sum(exp(beta * x)), which sum to 1 over the window and its padding,

    forward   (1/beta) * log(sum(exp(beta * x)))
    JVP       sum(p_i * t_i)
    VJP       p_i * g to every real cell

A window of one cell is that cell; a window of none is 0. Floats are rounded once, by ``halfulp.numbers._smooth_max``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from halfulp.geometry import Window, windows
from halfulp.numbers import flint
from halfulp.records import Shape, SmoothMaxPool
from halfulp.spec._pooling import Pooling
from halfulp.spec._registry import register
from halfulp.spec._scalars import exact_beta, exp, log, quotient, require_exp, total


def smooth_max_pool_windows(op: SmoothMaxPool, spatial: Shape) -> Iterable[Window]:
    """The sliding windows of a plane."""
    return windows(op.axes(spatial))


def beta_like(op: Any, scalar: Any) -> Any:
    """The record's beta as a number that multiplies this scalar without loss."""
    beta = op.beta
    if isinstance(scalar, flint.arb):
        if isinstance(beta, Fraction):
            return flint.arb(flint.fmpq(beta.numerator, beta.denominator))
        return beta if isinstance(beta, flint.arb) else flint.arb(beta)
    if isinstance(scalar, (float, np.floating)):
        return float(exact_beta(op.name, beta))
    return beta


def shift(beta: Any, cells: Sequence[Any], zero: Any) -> Any:
    """A number subtracted from every cell before exp, so that nothing overflows: the cell of the largest beta * x.

    Any number gives the same result in exact arithmetic, so a ball's middle will do, and kinds that do not overflow
    subtract nothing. Nor do infinite cells: theirs is the case that the plain formula decides.
    """
    if not isinstance(zero, (float, np.floating, flint.arb)):
        return zero
    middle = [cell.mid() if isinstance(cell, flint.arb) else cell for cell in cells]
    best = max(middle, key=lambda cell: beta * cell)
    return best if abs(best) < math.inf else zero


def exponentials(op: Any, zero: Any, values: Sequence[Any], padded: int) -> tuple[Any, list[Any], Any]:
    """(shift c, exp(beta * (x - c)) of every real cell, their sum together with the padding's)."""
    require_exp(op.name, zero)
    beta = beta_like(op, zero)
    cells = [*values, zero] if padded else list(values)
    c = shift(beta, cells, zero)
    terms = [exp(beta * (value - c)) for value in values]
    padding = [exp(beta * (zero - c)) * padded] if padded else []
    return c, terms, total([*terms, *padding])


def smooth_max_pool_value(op: Any, zero: Any, values: Sequence[Any], padded: int) -> Any:
    """The smooth maximum of a window."""
    if len(values) + padded <= 1:
        return values[0] if values else zero
    c, _, s = exponentials(op, zero, values, padded)
    return c + log(s) / beta_like(op, zero)


def weights(op: Any, zero: Any, values: Sequence[Any], padded: int) -> list[Any]:
    """The share p_i of every real cell in a window."""
    _, terms, s = exponentials(op, zero, values, padded)
    return [quotient(term, s) for term in terms]


def smooth_max_pool_jvp_value(op: Any, zero: Any, values: Sequence[Any], tangents: Sequence[Any], padded: int) -> Any:
    """The mean of the tangents, weighted by p."""
    if len(values) + padded <= 1:
        return tangents[0] if tangents else zero
    p = weights(op, zero, values, padded)
    return total([weight * t for weight, t in zip(p, tangents, strict=True)]) if p else zero


def smooth_max_pool_vjp_values(op: Any, zero: Any, values: Sequence[Any], cotangent: Any, padded: int) -> list[Any]:
    """The share of the cotangent that each cell's weight gives it."""
    if len(values) + padded <= 1:
        return [cotangent for _ in values]
    return [weight * cotangent for weight in weights(op, zero, values, padded)] if values else []


RULE = Pooling(smooth_max_pool_windows, smooth_max_pool_value, smooth_max_pool_jvp_value, smooth_max_pool_vjp_values)
register(SmoothMaxPool, RULE)
