"""The sign of sum(g / D) - m, exactly: D are sums of exponentials of rationals, g and m rationals.

Multiplying out all denominators would take a time that grows exponentially with their number. Instead

* whether the number is zero is asked modulo a prime. Every exponent is an integer multiple n of one rational r, and
  exp(r) is transcendental, so the number is zero if and only if the rational function sum(g / sum(c * t**n)) - m is.
  Its numerator has a degree below ``degree`` and coefficients below ``height``; modulo a prime above both it is nonzero
  if it is, and then a random t is a root with a probability of at most degree / prime < 2**-128. A value that is not
  zero proves that the number is not;
* the sign of a number that is not zero comes from long division of 1 by D, largest exponentials first. The quotients
  are exact sums of exponentials in which what cancels is gone, however far below the rest the next term lies; what is
  left of the division is enclosed in a ball. Few and short denominators are multiplied out after all.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from heapq import heappop, heappush
from itertools import count
from math import gcd, lcm, prod
from random import Random
from typing import Any

from halfulp.numbers import flint
from halfulp.numbers._exponentials import evaluated, plus, side_of_zero
from halfulp.numbers._exponentials import sign as sign_of_sum

Terms = Sequence[tuple[tuple[tuple[Any, Any], ...], Any]]
"""(((a, c), ...), g) for g / sum(c * exp(a)), every c positive, the exponents rising."""

_MERSENNE = (521, 1279, 2203, 4423, 9689, 19937, 44497, 86243, 216091, 756839)
"""2**n - 1 is prime."""
_CERTAINTY = 128
_FEW = 2000
"""Up to so many products of exponentials are multiplied out."""


def sign(terms: Terms, boundary: Any) -> int:
    """The sign of sum(g / D) - boundary."""
    if is_zero(terms, boundary):
        return 0
    if prod(len(key) for key, _ in terms) <= _FEW:
        numerator = _multiplied_out(terms, boundary)
        return sign_of_sum(numerator)
    division = _Division(terms, boundary)
    for effort in count():
        division.advance(len(terms) << effort)
        with flint.ctx.workprec(256 << effort):
            side = side_of_zero(division.ball())
        if side:
            return side
    raise AssertionError("unreachable: the number is not zero")


def is_zero(terms: Terms, boundary: Any) -> bool:
    """Whether sum(g / D) - boundary is zero; a wrong True has a probability below 2**-128, a False is proved."""
    steps, degree = _as_polynomials(terms)
    numbers = [*(_fraction(g) for _, g in terms), -_fraction(boundary)]
    scale = lcm(*(number.denominator for number in numbers))
    *shares, rest = (int(number * scale) for number in numbers)
    height = (sum(map(abs, shares)) + abs(rest)).bit_length()
    height += sum(int(sum(c for _, c in key)).bit_length() for key, _ in terms)
    bits = max(degree.bit_length() + _CERTAINTY, height) + 1
    prime = (1 << next((n for n in _MERSENNE if n > bits), _MERSENNE[-1])) - 1
    random = Random(f"{degree} {height}")
    while True:
        point = random.randrange(2, prime - 1)
        powers = {n: pow(point, n, prime) for n in {n for polynomial in steps for n, _ in polynomial}}
        values = [sum(c * powers[n] for n, c in polynomial) % prime for polynomial in steps]
        if all(values):
            return (rest + sum(g * pow(v, -1, prime) for g, v in zip(shares, values, strict=True))) % prime == 0


def _as_polynomials(terms: Terms) -> tuple[list[list[tuple[int, int]]], int]:
    """The denominators in t = exp(r), with exponents that may be negative, and a bound on the numerator's degree."""
    exponents = [_fraction(a) for key, _ in terms for a, _ in key]
    scale = lcm(*(a.denominator for a in exponents))
    step = gcd(*(int(a * scale) for a in exponents)) or 1
    out = [[(int(_fraction(a) * scale) // step, int(c)) for a, c in key] for key, _ in terms]
    # Each denominator, and the fractions' shift against each other, adds what its exponents span, 0 included.
    degree = sum(max(0, polynomial[-1][0]) - min(0, polynomial[0][0]) for polynomial in out)
    return out, degree


def _multiplied_out(terms: Terms, boundary: Any) -> dict[Any, Any]:
    """The number times the product of all denominators."""
    product, total = {flint.fmpq(0): flint.fmpq(1)}, {flint.fmpq(0): -boundary} if boundary != 0 else {}
    for key, g in terms:
        wider: dict[Any, Any] = {}
        for a, c in total.items():
            for b, d in key:
                plus(wider, a + b, c * d)
        for a, c in product.items():
            plus(wider, a, c * g)
        total, before, product = wider, product, {}
        for a, c in before.items():
            for b, d in key:
                plus(product, a + b, c * d)
    return total


class _Division:
    """sum(g / D) - boundary as known + sum(left / D): both sums of exponentials, the second ever smaller."""

    def __init__(self, terms: Terms, boundary: Any) -> None:
        self._denominators = [key for key, _ in terms]
        self._left = [{flint.fmpq(0): g} for _, g in terms]
        self._known: dict[Any, Any] = {flint.fmpq(0): -boundary} if boundary != 0 else {}
        # The exponents to be divided, the largest quotient first; one that has cancelled is passed over.
        self._next: list[tuple[Any, int, Any]] = []
        for i in range(len(terms)):
            self._push(i, flint.fmpq(0))

    def _push(self, i: int, exponent: Any) -> None:
        heappush(self._next, (self._denominators[i][-1][0] - exponent, i, exponent))

    def advance(self, steps: int) -> None:
        """Take out the largest quotients, one after the other."""
        while steps > 0 and self._next:
            _, i, exponent = heappop(self._next)
            left = self._left[i]
            coefficient = left.get(exponent)
            if coefficient is None:
                continue
            *others, (top, own) = self._denominators[i]
            quotient, power = coefficient / own, exponent - top
            plus(self._known, power, quotient)
            del left[exponent]
            for a, c in others:
                if power + a not in left:
                    self._push(i, power + a)
                plus(left, power + a, -quotient * c)
            steps -= 1

    def ball(self) -> Any:
        """A ball around the number, times a positive one."""
        tops = [max(left) - key[-1][0] for key, left in zip(self._denominators, self._left, strict=True) if left]
        shift = max([*tops, *([max(self._known)] if self._known else [])])
        total = evaluated(self._known, shift)
        for key, left in zip(self._denominators, self._left, strict=True):
            if left:
                total += evaluated(left, shift + key[-1][0]) / evaluated(dict(key), key[-1][0])
        return total


def _fraction(q: Any) -> Fraction:
    q = flint.fmpq(q)
    return Fraction(int(q.p), int(q.q))
