"""Writes the polynomials of the elementwise kernels, and proves how far each is from its function.

``python -m tools.polynomials`` writes ``cpp/src/elementwise/kernels/polynomials.hpp``. Every polynomial interpolates an
analytic function at Chebyshev's points. If the function is at most M in size on the ellipse with foci at the ends of
the interval and axes that sum to rho (in units of half the interval), the interpolant of degree n is off by at most
4 M rho^-n / (rho - 1) [Trefethen, Approximation Theory and Approximation Practice, theorem 8.2]. :func:`bound`
evaluates M in complex ball arithmetic on the ellipse itself, where its maximum lies, and adds what the rounding of the
coefficients changes. The tests hold the bounds to what the kernels count on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from flint import acb, arb, ctx, fmpq

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
    rho: Fraction
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
        Fraction(40),
    ),
    Polynomial(
        "AtanhRest",
        "(atanh(z) / z - 1) / z^2 as a polynomial in z^2 <= 0.0296",
        _atanh_rest,
        Fraction(0),
        Fraction(296, 10000),
        5,
        14,
        Fraction(50),
    ),
    Polynomial(
        "ErfRest", "erf(x) / x as a polynomial in x^2 <= 1", _erf_rest, Fraction(0), Fraction(1), 10, 18, Fraction(40)
    ),
    Polynomial(
        "Tail",
        "exp(a^2 / 2) (1 - Phi(a)) / t, t = 1 / (1 + 0.3 a), 0 <= a <= 39, in (t - kTailMiddle) * kTailScale",
        _tail,
        Fraction(5, 64),
        Fraction(1),
        20,
        44,
        Fraction(4),
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


def bound(p: Polynomial, count: int) -> arb:
    """How far the polynomial with coefficients of `count` doubles may be from its function."""
    degree = p.quick if count == 1 else p.pair
    assert degree is not None
    rho = _rational(p.rho)
    middle, half = _rational((p.low + p.high) / 2), _rational((p.high - p.low) / 2)
    most, pieces = arb(0), 720
    for i in range(pieces):
        angle = (arb(2 * i + 1) / pieces) * arb.pi() + arb(0, 1) * arb.pi() / pieces
        circle = acb(rho * angle.cos(), rho * angle.sin())
        value = abs(p.function(middle + half * (circle + 1 / circle) / 2))
        most = value if value.upper() > most else arb(most)
        most = arb(max(most.upper(), value.upper()))
    off = 4 * most * rho ** (-degree) / (rho - 1)
    reach = arb(1) if p.centred else arb(max(abs(_rational(p.low)), abs(_rational(p.high))).upper())
    for i, c in enumerate(coefficients(p, degree)):
        off += abs(c - sum((arb(v) for v in parts(c, count)), arb(0))) * reach**i
    return arb(off.upper())


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
