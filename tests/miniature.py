"""A second, slow implementation of the operators over floats, for the tests: Fractions, brute force, no halfulp.spec.

A *term* is a product of factors (floats, or rationals that are 1 over a count) kept exactly, with the class and sign
that IEEE 754 gives the product. A result is a sum of terms, rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

import numpy as np

import halfulp as hu
from halfulp.geometry import Axis
from tests.test_geometry import BEYOND, REAL, brute_windows

FORMATS = {
    "float16": (11, -14, 15),
    "bfloat16": (8, -126, 127),
    "float32": (24, -126, 127),
    "float64": (53, -1022, 1023),
}


class Term(NamedTuple):
    special: float | None
    """NaN or an infinity; None for a finite product."""
    value: Fraction
    negative: bool


def term(*factors: Any) -> Term:
    negative = sum(math.copysign(1.0, f) < 0 for f in factors) % 2 == 1
    if any(f != f for f in factors) or (any(math.isinf(f) for f in factors) and 0 in factors):
        return Term(math.nan, Fraction(0), False)
    if any(math.isinf(f) for f in factors):
        return Term(-math.inf if negative else math.inf, Fraction(0), negative)
    return Term(None, math.prod(map(Fraction, factors), start=Fraction(1)), negative)


def total(terms: Iterable[Term], dtype: Any) -> float:
    terms = list(terms)
    specials = {t.special for t in terms if t.special is not None}
    if any(s != s for s in specials) or len(specials) > 1:
        return math.nan
    if specials:
        return specials.pop()
    exact = sum((t.value for t in terms), Fraction(0))
    if exact == 0:
        return -0.0 if terms and all(t.negative for t in terms) else 0.0
    return nearest(exact, dtype)


def nearest(value: Fraction, dtype: Any) -> float:
    """Round to nearest, ties to even, as Python rounds fractions to integers: in units of the last place."""
    precision, least, most = FORMATS[np.dtype(dtype).name]
    exponent = abs(value.numerator).bit_length() - value.denominator.bit_length()
    if abs(value) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, least) - precision + 1)
    result = round(value / unit) * unit
    if abs(result) >= Fraction(2) ** (most + 1):
        return -math.inf if value < 0 else math.inf
    return -float(abs(result)) if value < 0 else float(result)


class Pool(NamedTuple):
    """One plane's windows: (flat indices of real cells, number of padded cells) each."""

    windows: list[tuple[list[int], int]]

    @classmethod
    def of(cls, op: Any, spatial: tuple[int, ...]) -> Pool:
        number = np.arange(math.prod(spatial)).reshape(spatial)
        if isinstance(op, (hu.GlobalAvgPool, hu.GlobalMaxPool, hu.GlobalMinPool)):
            return cls([(number.ravel().tolist(), 0)])
        if isinstance(op, (hu.AdaptiveAvgPool, hu.AdaptiveMaxPool)):
            pairs = [(n, n if m is None else m) for n, m in zip(spatial, op.output_size, strict=True)]
            bins = [
                [slice(math.floor(Fraction(i * n, m)), math.ceil(Fraction((i + 1) * n, m))) for i in range(m)]
                for n, m in pairs
            ]
            return cls([(number[choice].ravel().tolist(), 0) for choice in product(*bins)])
        found = []
        for choice in product(*(brute_windows(axis) for axis in op.axes(spatial))):
            taps = list(product(*choice))
            cells = [int(number[tuple(at for _, at in tap)]) for tap in taps if all(kind == REAL for kind, _ in tap)]
            inside = sum(all(kind != BEYOND for kind, _ in tap) for tap in taps)
            found.append((cells, inside - len(cells)))
        return cls(found)


def divisor(op: Any, real: int, padded: int) -> int:
    counted = real + (padded if getattr(op, "count_include_pad", False) else 0)
    override = getattr(op, "divisor_override", None)
    return counted if counted == 0 or override is None else override


def average(op: Any, values: Sequence[float], padded: int, dtype: Any) -> float:
    """The mean of a window; also its JVP, with tangents for values."""
    n = divisor(op, len(values), padded)
    if n == 0:
        return 0.0
    if getattr(op, "count_include_pad", False) and padded:
        values = [*values, 0.0]
    # the sum first, then one division: a cancelled sum is +0, which a negative divisor turns into -0
    terms = [term(v) for v in values]
    if all(t.special is None for t in terms) and sum(t.value for t in terms) == 0:
        negative = all(t.negative for t in terms) != (n < 0)
        return -0.0 if negative else 0.0
    return total([term(v, Fraction(1, n)) for v in values], dtype)


def winners(op: Any, values: Sequence[float]) -> list[int]:
    nans = [i for i, v in enumerate(values) if v != v]
    rest = [i for i, v in enumerate(values) if v == v]
    if nans and (op.nan == "propagate" or not rest):
        found = nans
    else:
        best = min if isinstance(op, (hu.MinPool, hu.GlobalMinPool)) else max
        top = best(values[i] for i in rest)
        found = [i for i in rest if values[i] == top]
    return found[:1] if op.ties == "first" else found[-1:] if op.ties == "last" else found


def pool_forward(op: Any, x: list[float], pool: Pool, dtype: Any) -> list[float]:
    if not hasattr(op, "ties"):
        return [average(op, [x[i] for i in cells], padded, dtype) for cells, padded in pool.windows]
    return [x[cells[winners(op, [x[i] for i in cells])[0]]] if cells else 0.0 for cells, _ in pool.windows]


def pool_jvp(op: Any, x: list[float], t: list[float], pool: Pool, dtype: Any) -> list[float]:
    if not hasattr(op, "ties"):
        return pool_forward(op, t, pool, dtype)
    out = []
    for cells, _ in pool.windows:
        won = [cells[i] for i in winners(op, [x[i] for i in cells])] if cells else []
        share = Fraction(1, len(won)) if won and op.ties == "split" else Fraction(1)
        out.append(total([term(t[i], share) for i in won], dtype))
    return out


def pool_vjp(op: Any, x: list[float], g: list[float], pool: Pool, dtype: Any) -> list[float]:
    parts: list[list[Term]] = [[] for _ in x]
    for (cells, padded), cotangent in zip(pool.windows, g, strict=True):
        if not cells:
            continue
        if hasattr(op, "ties"):
            taking = [cells[i] for i in winners(op, [x[i] for i in cells])]
            share = Fraction(1, len(taking)) if op.ties == "split" else Fraction(1)
        else:
            taking, share = cells, Fraction(1, divisor(op, len(cells), padded))
        for i in taking:
            parts[i].append(term(cotangent, share))
    return [total(terms, dtype) for terms in parts]


class Link(NamedTuple):
    """output[out] has a term weight[tap] * input[cell]; all three are full indices, the sample's left out."""

    out: tuple[int, ...]
    tap: tuple[int, ...]
    cell: tuple[int, ...]


def links(op: Any, x: tuple[int, ...], weight: tuple[int, ...], output: tuple[int, ...]) -> list[Link]:
    """Every product of a convolution, or of a transposed one, for one sample of these shapes."""
    transposed = isinstance(op, hu.ConvTranspose)
    small, large = (x, output) if transposed else (output, x)
    # the convolution's own axes: its input is `large`, its positions are those of `small`
    axes: tuple[Axis, ...] = op.axes(x[1:], weight[2:])
    found = []
    for b, local in product(range(weight[0]), range(weight[1])):
        a = b // (weight[0] // op.groups) * weight[1] + local
        for position in product(*map(range, small[1:])):
            for tap in product(*map(range, weight[2:])):
                at = [p * s.stride + w * s.dilation - s.before for p, w, s in zip(position, tap, axes, strict=True)]
                if all(0 <= c < n for c, n in zip(at, large[1:], strict=True)):
                    ends = (b, *position), (a, *at)
                    cell, out = ends if transposed else ends[::-1]
                    found.append(Link(out, (b, local, *tap), cell))
    return found
