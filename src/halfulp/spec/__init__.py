"""The executable specification: every operator exact, with both derivatives, over any scalar.

It is written for reading. Object arrays are evaluated in their own arithmetic (``Fraction``, ``flint.fmpq``,
``flint.arb``, Python floats, sympy, dual numbers, …). Float arrays are lifted exactly, evaluated, and rounded once.
"""

from importlib import import_module
from pkgutil import iter_modules

from halfulp.spec._interpreter import forward, indices, jvp, vjp
from halfulp.spec._pooling import Pooling
from halfulp.spec._registry import register

__all__ = ["Pooling", "forward", "indices", "jvp", "register", "vjp"]

for _module in iter_modules(__path__):  # the file of each operator registers its meaning
    import_module(f"{__name__}.{_module.name}")
