"""On which side of a rational a sum of fractions g / S lies, S being sums of exponentials: for smooth max's VJP.

The number times the product of all S is a sum of exponentials, which vanishes only if it is empty. It is formed where
that is affordable. Otherwise a random evaluation decides whether it is empty: all exponents are integer multiples of
one rational r, so in t = exp(r) it is a polynomial, and a polynomial that is not zero is so at nearly every t of a
large prime field. If it is not, the fractions are expanded in powers of their smaller terms, exactly, and the rest of
the series is enclosed in a ball, to ever higher order and precision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import reduce
from itertools import count
from random import Random
from typing import Any

from halfulp.numbers import flint

Exponentials = dict[Any, Any]
Shares = Mapping[frozenset[tuple[Any, Any]], Any]
"""{the terms (exponent, coefficient) of S: g}"""

_AFFORDABLE = 3000


def side_of(shares: Shares, boundary: Any) -> int:
    """The sign of sum(g / S) - boundary."""
    if math.prod(len(key) for key in shares) <= _AFFORDABLE:
        return sign_of_sum(_cleared(shares, boundary))
    if _vanishes(shares, boundary):
        return 0
    before = flint.ctx.prec
    try:
        order = 2
        for effort in count():
            flint.ctx.prec = 1024 << effort
            if sum(math.comb(len(key) + order, order) for key in shares) < 8 * _AFFORDABLE:
                order += 1
            near = _series(shares, boundary, order - 1)
            if near > 0 or near < 0:
                return 1 if near > 0 else -1
    finally:
        flint.ctx.prec = before
    raise AssertionError("unreachable: the precision grows for ever")


def sign_of_sum(sums: Exponentials) -> int:
    """The sign of a sum of exponentials; 0 only if it has no term."""
    terms = {a: c for a, c in sums.items() if c != 0}
    if not terms:
        return 0
    before = flint.ctx.prec
    try:
        flint.ctx.prec = 128
        top = max(terms)
        while True:
            value = evaluate(terms, top)
            if value > 0:
                return 1
            if value < 0:
                return -1
            flint.ctx.prec *= 2
    finally:
        flint.ctx.prec = before


def evaluate(sums: Exponentials, top: Any) -> flint.arb:
    """sum(c * exp(a - top)) as a ball."""
    return sum((flint.arb(c) * flint.arb(a - top).exp() for a, c in sums.items()), flint.arb(0))


def accumulate(sums: Exponentials, exponent: Any, coefficient: Any) -> None:
    """Add coefficient * exp(exponent) in place; what cancels leaves."""
    value = sums.get(exponent, flint.fmpq(0)) + coefficient
    if value == 0:
        sums.pop(exponent, None)
    else:
        sums[exponent] = value


def combine(left: Exponentials, right: Exponentials, factor: Any) -> Exponentials:
    """left + factor * right."""
    out = dict(left)
    for exponent, coefficient in right.items():
        accumulate(out, exponent, factor * coefficient)
    return out


def _product(left: Exponentials, right: Exponentials) -> Exponentials:
    out: Exponentials = {}
    for a, c in left.items():
        for b, d in right.items():
            accumulate(out, a + b, c * d)
    return out


def _cleared(shares: Shares, boundary: Any) -> Exponentials:
    """The number times the product of all S."""
    one = {flint.fmpq(0): flint.fmpq(1)}
    sums = [dict(key) for key in shares]
    out = {a: -boundary * c for a, c in reduce(_product, sums, one).items() if boundary != 0}
    for i, g in enumerate(shares.values()):
        out = combine(out, reduce(_product, sums[:i] + sums[i + 1 :], one), g)
    return out


def _vanishes(shares: Shares, boundary: Any) -> bool:
    """Whether the number is zero: if not, this is proved; if so, the chance of an error is below 2**-100.

    The polynomial has degree d and coefficients below 2**h. A random prime p of b bits divides one of its coefficients
    with a chance below 2h / 2**b * b, and a random t is a root modulo p with a chance of d / p.
    """
    unit = math.lcm(*(int(a.q) for key in shares for a, _ in key))
    powers = [[(int(a.p) * (unit // int(a.q)), int(c)) for a, c in key] for key in shares]
    common = math.gcd(*(n for sum_ in powers for n, _ in sum_)) or 1
    degree = sum(max(abs(n) for n, _ in sum_) // common for sum_ in powers) * 2
    bits = degree.bit_length() + 128
    random = Random(bits)
    prime = 0
    while not flint.fmpz(prime).is_probable_prime():
        prime = random.getrandbits(bits) | 1 << bits | 1
    while True:
        t = random.randrange(1, prime)
        total, usable = -int(boundary.p) * pow(int(boundary.q), -1, prime), True
        for sum_, g in zip(powers, shares.values(), strict=True):
            value = sum(c * pow(t, n // common, prime) for n, c in sum_) % prime
            usable = usable and value != 0
            total += int(g.p) * pow(int(g.q) * value, -1, prime) if value else 0
        if usable:
            return total % prime == 0


def _series(shares: Shares, boundary: Any, order: int) -> flint.arb:
    """The number as a ball. With the largest term c of S (times exp(top)) and r = S - c, to the given order

    1 / (c + r) = 1 / c - r / c**2 + ... with the rest (-r)**order / (c**order * (c + r)).

    All but the rest is summed exactly.
    """
    exact: Exponentials = {}
    accumulate(exact, flint.fmpq(0), -boundary)
    rests = []
    for key, g in shares.items():
        s = dict(key)
        top = max(s)
        c = s.pop(top)
        small = {a - top: -d / c for a, d in s.items()}
        power: Exponentials = {-top: g / c}
        for _ in range(order):
            for a, d in power.items():
                accumulate(exact, a, d)
            power = _product(power, small)
        if power:
            rests.append((power, small))
    scale = max([*exact, *(max(power) for power, _ in rests)])
    total = evaluate(exact, scale)
    for power, small in rests:
        total += evaluate(power, scale) / (1 - evaluate(small, flint.fmpq(0)))
    return total
