"""The executable specification: every operator exact, with both derivatives, over any scalar.

It is written for reading. Object arrays are evaluated in their own arithmetic (``Fraction``, ``flint.fmpq``,
``flint.arb``, Python floats, sympy, dual numbers, …). Float arrays are lifted exactly, evaluated, and rounded once.
"""

from halfulp.spec._interpreter import forward, indices, jvp, register, vjp
from halfulp.spec._pooling import Pooling

__all__ = ["Pooling", "forward", "indices", "jvp", "register", "vjp"]
