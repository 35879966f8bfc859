"""Writes the polynomials of the elementwise kernels, and proves how far each is from its function.

``python -m tools.polynomials`` writes ``cpp/src/elementwise/kernels/polynomials.hpp``. Every polynomial interpolates an
analytic function at Chebyshev's points. :func:`bound` encloses its distance from the function by Taylor expansions in
ball arithmetic on small pieces of the interval, the rounding of the coefficients included. The tests hold the bounds to
what the kernels count on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from flint import arb, arb_series, ctx, fmpq

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "cpp" / "src" / "elementwise" / "kernels" / "polynomials.hpp"
PRECISION = 500


@dataclass(frozen=True)
class Polynomial:
    """A function on an interval, and the degrees of its polynomials in doubles and in pairs of doubles."""

    name: str
    meaning: str
    function: Callable[[Any], Any]
    low: Fraction
    high: Fraction
    quick: int
    pair: int | None
    centred: bool = False
    """Whether the polynomial's variable is (x - middle) / half: for intervals on which powers of x are ill suited."""


def _exponential_rest(r: Any) -> Any:
    """(exp(r) - 1 - r) / r^2 by its series."""
    total, term = r * 0 + fmpq(1, 2), r * 0 + fmpq(1, 2)
    for n in range(3, 60):
        term = term * r / n
        total += term
    return total


def _atanh_rest(w: Any) -> Any:
    """(atanh(z) / z - 1) / z^2 with w = z^2, by its series: |w| < 0.4 on the ellipse."""
    total, power = w * 0, w * 0 + 1
    for n in range(260):
        total += power / (2 * n + 3)
        power = power * w
    return total


def _erf_rest(w: Any) -> Any:
    """erf(x) / x with w = x^2, by its series."""
    total, term = w * 0, w * 0 + 1
    for n in range(120):
        total += term / (2 * n + 1)
        term = -term * w / (n + 1)
    return total * 2 / arb.pi().sqrt()


def _tail(t: Any) -> Any:
    """R(a) / t where R(a) = exp(a^2 / 2) (1 - Phi(a)) and t = 1 / (1 + 3 a / 10)."""
    z = (1 / t - 1) * fmpq(10, 3) / arb(2).sqrt()
    return (z * z).exp() * z.erfc() / (2 * t)


THIRD = Fraction(347, 1000)
POLYNOMIALS = (
    Polynomial(
        "ExponentialRest",
        "(exp(r) - 1 - r) / r^2, |r| <= 0.347",
        _exponential_rest,
        -THIRD,
        THIRD,
        8,
        None,
    ),
    Polynomial(
        "AtanhRest",
        "(atanh(z) / z - 1) / z^2 as a polynomial in z^2 <= 0.0296",
        _atanh_rest,
        Fraction(0),
        Fraction(296, 10000),
        5,
        None,
    ),
    Polynomial("ErfRest", "erf(x) / x as a polynomial in x^2 <= 1", _erf_rest, Fraction(0), Fraction(1), 10, 18),
    Polynomial(
        "Tail",
        "exp(a^2 / 2) (1 - Phi(a)) / t, t = 1 / (1 + 0.3 a), a <= 39, in (t - kTailMiddle) * kTailScale",
        _tail,
        Fraction(5, 64),
        Fraction(1),
        20,
        44,
        centred=True,
    ),
)


def _rational(x: Fraction) -> arb:
    return arb(fmpq(x.numerator, x.denominator))


def coefficients(p: Polynomial, degree: int) -> list[arb]:
    """The interpolant at Chebyshev's points, as coefficients of powers of the polynomial's variable."""
    count, pi = degree + 1, arb.pi()
    middle, half = _rational((p.low + p.high) / 2), _rational((p.high - p.low) / 2)
    angles = [arb(2 * j + 1) * pi / (2 * count) for j in range(count)]
    values = [p.function(middle + half * angle.cos()) for angle in angles]
    series = [
        sum((v * (a * k).cos() for v, a in zip(values, angles, strict=True)), arb(0)) * 2 / count for k in range(count)
    ]
    series[0] /= 2
    powers = _powers(series)
    return powers if p.centred else _shifted(powers, middle, half)


def _powers(series: list[arb]) -> list[arb]:
    """Coefficients of powers from coefficients of Chebyshev polynomials."""
    result = [arb(0)] * len(series)
    before, now = [arb(0)], [arb(1)]
    for k, c in enumerate(series):
        for i, v in enumerate(now):
            result[i] += c * v
        following = [arb(0)] + [(1 if k == 0 else 2) * v for v in now]
        for i, v in enumerate(before if k else []):
            following[i] -= v
        before, now = now, following
    return result


def _shifted(powers: list[arb], middle: arb, half: arb) -> list[arb]:
    """A polynomial of (x - middle) / half as one of x."""
    result: list[arb] = []
    for c in reversed(powers):
        grown = [arb(0), *(v / half for v in result)]
        for i, v in enumerate(result):
            grown[i] -= v * middle / half
        grown[0] += c
        result = grown[: len(powers)]
    return result


def parts(c: arb, count: int) -> list[float]:
    """A coefficient as the sum of so many doubles, each the nearest to what is left."""
    result = []
    for _ in range(count):
        result.append(float(c.mid()))
        c -= arb(result[-1])
    return result


def bound(p: Polynomial, count: int, terms: int = 32) -> arb:
    """How far the polynomial with coefficients of `count` doubles may be from its function, relative to that.

    On each of the pieces of the interval both are expanded around the middle. The first `terms` coefficients of the
    difference are balls at a point; the next one, over the whole piece, bounds the remainder.
    """
    degree = p.quick if count == 1 else p.pair
    assert degree is not None
    rounded = [sum((arb(v) for v in parts(c, count)), arb(0)) for c in coefficients(p, degree)]
    before, ctx.cap = ctx.cap, terms + 1
    try:
        found = [_distance(p, rounded, low, high, terms) for low, high in _pieces(p)]
        return max(found, key=lambda v: float(v.upper()))
    finally:
        ctx.cap = before


def _pieces(p: Polynomial) -> list[tuple[Fraction, Fraction]]:
    """Pieces of an interval: even ones, or, where the function bends most at the lower end, finer towards that."""
    found, low = [], p.low
    while low < p.high:
        step = Fraction(round(low**3 / 16 * 2**40), 2**40) if p.centred else (p.high - p.low) / 200
        found.append((low, min(low + step, p.high)))
        low += step
    return found


def _distance(p: Polynomial, rounded: list[arb], low: Fraction, high: Fraction, terms: int) -> arb:
    middle, half = _rational((low + high) / 2), _rational((high - low) / 2)
    at_point = _difference(p, rounded, middle, terms)
    everywhere = _difference(p, rounded, middle + arb(0, 1) * half, terms)
    total = sum((abs(c) * half**i for i, c in enumerate(at_point[:terms])), arb(0))
    least = abs(p.function(middle + arb(0, 1) * half)).lower()
    return arb(((total + abs(everywhere[terms]) * half**terms) / least).upper())


def _difference(p: Polynomial, rounded: list[arb], x: arb, terms: int) -> list[arb]:
    """The Taylor coefficients of function - polynomial around x."""
    variable = arb_series([x, 1], prec=terms + 1)
    inner = variable
    if p.centred:
        inner = (variable - _rational((p.low + p.high) / 2)) * (1 / _rational((p.high - p.low) / 2))
    total = variable * 0
    for c in reversed(rounded):
        total = total * inner + c
    found = list((p.function(variable) - total).coeffs())
    return found + [arb(0)] * (terms + 1 - len(found))


def header() -> str:
    """The file's text."""
    old, ctx.prec = ctx.prec, PRECISION
    try:
        return "\n".join(
            [
                "// Generated by `python -m tools.polynomials`, which also proves how far each is from its function. "
                "Do not edit.",
                "// clang-format off",
                "#pragma once",
                "",
                "namespace halfulp::HALFULP_ISA_NAMESPACE {",
                "namespace {",
                "",
                *(line for p in POLYNOMIALS for line in _arrays(p)),
                "}  // namespace",
                "}  // namespace halfulp::HALFULP_ISA_NAMESPACE",
                "",
            ]
        )
    finally:
        ctx.prec = old


def _arrays(p: Polynomial) -> list[str]:
    lines = [f"// {p.meaning}; from the constant up."]
    if p.centred:
        middle, half = (p.low + p.high) / 2, (p.high - p.low) / 2
        lines.append(f"constexpr double k{p.name}Middle = {float(middle).hex()};")
        lines.append(f"constexpr double k{p.name}Scale[2] = {_row(parts(1 / _rational(half), 2))};")
    lines.append(f"constexpr double k{p.name}[{p.quick + 1}] = {{")
    lines += [f"    {parts(c, 1)[0].hex()}," for c in coefficients(p, p.quick)] + ["};"]
    if p.pair is not None:
        lines.append(f"constexpr double k{p.name}Pair[{p.pair + 1}][2] = {{")
        lines += [f"    {_row(parts(c, 2))}," for c in coefficients(p, p.pair)] + ["};"]
    return [*lines, ""]


def _row(values: list[float]) -> str:
    return "{" + ", ".join(v.hex() for v in values) + "}"


def main() -> None:
    """Write the header."""
    TARGET.write_text(header())


if __name__ == "__main__":
    main()
