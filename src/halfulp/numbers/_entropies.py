"""Correct rounding of cross entropy and its derivatives, one result at a time.

A value is a rational plus rational multiples of logarithms of sums of exponentials. Such a sum of logarithms with
coefficients of one sign is rational only if every argument is 1: the product of sums of exponentials with positive
coefficients has several terms, or a coefficient above 1, if one of its factors has (Lindemann-Weierstrass). Derivatives
are rational functions of exponentials, which are compared exactly after multiplying out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import count
from math import prod
from typing import Any, NamedTuple

import numpy as np

from halfulp.numbers import flint
from halfulp.numbers._exponentials import added, evaluated, is_bad, quotient, rational, rounded, sign, total
from halfulp.numbers._formats import Format
from halfulp.numbers._rounding import as_doubles, round_rational

_TERMS = 4096
"""So many products are multiplied out."""
_BITS = 1 << 16
"""Numbers that agree in so many bits are taken for equal, where nothing else decides."""


class Coefficients(NamedTuple):
    """The coefficients of every sample's classes (None: left out), and the divisor of a reduction."""

    rows: list[list[Any] | None]
    divisor: Any


def _lifted(array: Any) -> list[Any]:
    """Floats and fractions as rationals; other exact numbers, and what is not finite, as they are."""
    if array.dtype.kind != "O":
        return [rational(v) if math.isfinite(v) else v for v in as_doubles(array).ravel().tolist()]
    found = array.ravel().tolist()
    return [flint.fmpq(*v.as_integer_ratio()) if isinstance(v, (int, float, Fraction)) else v for v in found]


def coefficients(op: Any, shape: tuple[int, ...], target: Any, weight: Any) -> Coefficients:
    """weight * ((1 - s) q + s / classes) for every sample and class, exactly."""
    op.finite(weight)
    classes = shape[op.class_axis(shape)]
    labels = op.labels(shape, target)
    smooth = rational(op.label_smoothing)
    weights = [flint.fmpq(1)] * classes if weight is None else _lifted(weight)
    base = [w * smooth / classes for w in weights]
    lead = [w * (1 - smooth) for w in weights]
    rows: list[list[Any] | None] = []
    if labels is None:
        moved = np.moveaxis(target, op.class_axis(shape), -1)
        divisor: Any = flint.fmpq(prod(op.samples(shape)))
        for row in moved.reshape(prod(moved.shape[:-1]), classes):
            q = _lifted(row)
            bad = any(isinstance(v, float) for v in q)
            rows.append([math.nan] * classes if bad else [a * v + b for a, v, b in zip(lead, q, base, strict=True)])
    else:
        listed = labels.ravel().tolist()
        divisor = sum((weights[i] for i in listed if i >= 0), flint.fmpq(0))
        for i in listed:
            rows.append(None if i < 0 else [lead[i] + b if j == i else b for j, b in enumerate(base)])
    return Coefficients(rows, divisor if op.reduction == "mean" else flint.fmpq(1))


def value(samples: Sequence[tuple[Any, Any, Any]], divisor: Any, target: Format) -> float:
    """The sum over samples (row, coefficients, tangent or None) of values or tangents, over the divisor."""
    used = [(row, own, t) for row, own, t in samples if own is not None]
    if divisor == 0 or any(own[0] != own[0] or is_bad(row, t or ()) for row, own, t in used):
        return math.nan
    if not used:
        return 0.0
    return _tangent(used, divisor, target) if used[0][2] is not None else _value(used, divisor, target)


def _value(used: Sequence[tuple[Any, Any, Any]], divisor: Any, target: Format) -> float:
    whole, beyond = flint.fmpq(0), set()
    logs: dict[Any, Any] = {}
    for row, own, _ in used:
        top = rational(max(row))
        s = sum(own, flint.fmpq(0))
        for x, a in zip(row, own, strict=True):
            if a != 0 and x == -math.inf:
                beyond.add(1 if a / divisor > 0 else -1)
            elif a != 0:
                whole += a * (top - rational(x))
        key = frozenset((e - top, c) for e, c in total(row).items())
        logs[key] = logs.get(key, flint.fmpq(0)) + s
    if beyond:
        return math.inf * next(iter(beyond)) if len(beyond) == 1 else math.nan
    whole /= divisor
    parts = [(dict(key), s / divisor) for key, s in logs.items() if s != 0 and sum(c for _, c in key) != 1]
    if not parts:
        return round_rational(int(whole.p), int(whole.q), target) if whole != 0 else 0.0

    def ball() -> Any:
        found = flint.arb(whole)
        for exponentials, s in parts:
            rest = dict(exponentials)
            rest[flint.fmpq(0)] = rest[flint.fmpq(0)] - 1
            found += s * evaluated(rest, flint.fmpq(0)).log1p()
        return found

    return rounded(ball, lambda boundary: _side(lambda: ball() - boundary), target)


def _side(ball: Any) -> int:
    """The sign of a number that balls enclose."""
    for precision in (2048 << i for i in count()):
        with flint.ctx.workprec(precision):
            found = ball()
            if not found.contains(0):
                return 1 if found > 0 else -1
        if precision > _BITS:
            return 0
    raise AssertionError("unreachable: the precision grows for ever")


def _tangent(used: Sequence[tuple[Any, Any, Any]], divisor: Any, target: Format) -> float:
    whole = flint.fmpq(0)
    tops: dict[Any, Any] = {}
    for row, own, t in used:
        top = rational(max(row))
        s = sum(own, flint.fmpq(0)) / divisor
        exact = [rational(v) for v in t]
        whole -= sum((a * v for a, v in zip(own, exact, strict=True)), flint.fmpq(0)) / divisor
        sums: dict[Any, Any] = {}
        for x, v in zip(row, exact, strict=True):
            if x != -math.inf:
                sums = added(sums, {rational(x) - top: s * v}, 1)
        key = frozenset((e - top, c) for e, c in total(row).items())
        tops[key] = added(tops.get(key, {}), sums, 1)
    left = []
    for key, sums in tops.items():
        bottom = dict(key)
        share = sums.get(flint.fmpq(0), flint.fmpq(0)) / bottom[flint.fmpq(0)]
        rest = added(sums, bottom, -share)
        whole += share
        if any(c != 0 for c in rest.values()):
            left.append(({e: c for e, c in rest.items() if c != 0}, bottom))
    if not left:
        return round_rational(int(whole.p), int(whole.q), target) if whole != 0 else 0.0
    if len(left) == 1:
        top, bottom = left[0]
        return quotient(added(top, bottom, whole) if whole != 0 else top, bottom, target)

    def ball() -> Any:
        zero = flint.fmpq(0)
        return sum((evaluated(a, zero) / evaluated(b, zero) for a, b in left), flint.arb(whole))

    return rounded(ball, lambda boundary: _compared(left, whole - boundary, ball, boundary), target)


def _compared(left: Any, rest: Any, ball: Any, boundary: Any) -> int:
    """The sign of rest + the sum of the quotients: multiplied out, if that has few terms."""
    if prod(len(bottom) for _, bottom in left) > _TERMS:
        return _side(lambda: ball() - boundary)
    top, bottom = left[0]
    for more, under in left[1:]:
        top, bottom = added(_times(top, under), _times(more, bottom), 1), _times(bottom, under)
    return sign({e: c for e, c in added(top, bottom, rest).items() if c != 0})


def _times(a: dict[Any, Any], b: dict[Any, Any]) -> dict[Any, Any]:
    out: dict[Any, Any] = {}
    for e, c in a.items():
        for f, d in b.items():
            out[e + f] = out.get(e + f, flint.fmpq(0)) + c * d
    return out


def cell(row: Sequence[float], own: Any, divisor: Any, g: float, i: int, target: Format) -> float:
    """(S p_i - A_i) g / D, rounded once."""
    if own is None:
        return 0.0
    if divisor == 0 or own[0] != own[0] or is_bad(row, (g,)):
        return math.nan
    factor = rational(g) / divisor
    if row[i] == -math.inf:
        y = -own[i] * factor
        return round_rational(int(y.p), int(y.q), target) if y != 0 else 0.0
    bottom, s = total(row), sum(own, flint.fmpq(0))
    top = added({rational(row[i]): s * factor} if s * factor != 0 else {}, bottom, -own[i] * factor)
    return quotient({e: c for e, c in top.items() if c != 0}, bottom, target)
