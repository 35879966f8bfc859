"""The three arithmetics, and how far a computed value of a node can be from the exact one.

``u = 2**-p`` is half the distance of 1 to the next float, ``eta`` the smallest positive float. For a node with the
exact value s of its computed inputs, a computed value t satisfies

* ``"real"``: t = s;
* ``"halfulp"``: |t - s| <= u |t| + eta / 2, because t is s rounded to nearest;
* ``"any-order"``: |t - s| <= gamma(n) (sum of |products|) + 2 n eta with gamma(n) = n u / (1 - n u), where no term
  meets more than n roundings. It holds for every order of summation, with or without fused multiply-add. It does not
  hold for TF32, Winograd or FFT convolutions, or if subnormal numbers are flushed to zero.

sigmoid, tanh and softplus are taken to be within 16 u, eight ulps, of the exact value in both float arithmetics.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from halfulp.bounds._maps import Array
from halfulp.errors import ModelError, PolicyError
from halfulp.numbers import Format, float_format

ARITHMETICS = ("real", "halfulp", "any-order")
TRANSCENDENTAL = ("sigmoid", "tanh", "softplus")
_CURVE_UNITS = 16
UNIT64 = 2.0**-52
"""Twice the unit roundoff of float64: each use covers the rounding of the bound's own arithmetic too."""
TINY = 2.0**-960


class Arithmetic(NamedTuple):
    """A name, and the format of the floats."""

    name: str
    format: Format

    @classmethod
    def of(cls, name: str, dtype: Any) -> Arithmetic:
        """The arithmetic of this name for a network of this dtype."""
        if name not in ARITHMETICS:
            known = ", ".join(repr(a) for a in ARITHMETICS)
            raise PolicyError("bounds", f"arithmetic={name!r}", f"must be one of {known}", "V4")
        return cls(name, float_format(dtype))

    @property
    def unit(self) -> float:
        """u."""
        return float(2.0**-self.format.precision)

    @property
    def eta(self) -> float:
        """The smallest positive number of the format."""
        return max(float(2.0**self.format.quantum), 2.0**-1074)

    @property
    def largest(self) -> float:
        """The largest finite number of the format."""
        return float((2.0 - 2.0 ** (1 - self.format.precision)) * 2.0**self.format.emax)

    def half_ulp(self, magnitude: Array) -> Array:
        """A bound on the distance of a number to its rounding, where the rounded number is at most ``magnitude``."""
        return np.asarray(magnitude * (self.unit * (1 + UNIT64)) + self.eta)

    def any_order(self, node: Any, magnitude: Array) -> Array:
        """A bound on the error of a sum whose absolute terms add up to ``magnitude``, in any order of evaluation."""
        n = node.roundings
        share = n * self.unit
        if share >= 0.25:
            rule = f"{n} terms are too many for a bound in {self.format.dtype}"
            raise ModelError("bounds", f"node {node.name!r}", rule, "V5")
        gamma = share / (1 - share) * (1 + 4 * UNIT64)
        return np.asarray(magnitude * gamma + 2 * n * self.eta)

    def curve(self, magnitude: Array) -> Array:
        """A bound on the error of a transcendental function whose value is at most ``magnitude``."""
        return np.asarray(magnitude * (_CURVE_UNITS * self.unit) + _CURVE_UNITS * self.eta)
