"""Convolution and pooling with exact results, rounded once to the nearest float.

The results do not depend on threads, batch size, memory layout or machine. The same operators work over exact numbers.

>>> import numpy as np
>>> import halfulp as hu
>>> hu.max_pool2d(np.arange(16.0).reshape(4, 4), 2)
array([[ 5.,  7.],
       [13., 15.]])
"""

from typing import TYPE_CHECKING

from halfulp import geometry
from halfulp.errors import (
    CertificateError,
    DTypeError,
    HalfulpError,
    ModelError,
    PolicyError,
    PyramidError,
    ShapeError,
    TapeError,
)
from halfulp.functional import *
from halfulp.functional._generated import __all__ as _functional
from halfulp.functional._source import functions
from halfulp.kernels import get_num_threads, set_num_threads
from halfulp.numbers import exact, rounded
from halfulp.records import Curvature, Draw, Operator, declare
from halfulp.records._generated import *
from halfulp.records._generated import __all__ as _operators

__all__ = [
    "CertificateError",
    "Curvature",
    "DTypeError",
    "Draw",
    "HalfulpError",
    "ModelError",
    "Node",
    "Operator",
    "PolicyError",
    "PyramidError",
    "ShapeError",
    "Tape",
    "TapeError",
    "Traced",
    "declare",
    "exact",
    "functions",
    "geometry",
    "get_num_threads",
    "grad",
    "hvp",
    "jvp",
    "ops",
    "rounded",
    "set_num_threads",
    "spec",
    "tree_map",
    "value_and_grad",
    "vjp",
    *_functional,
    *_operators,
]


if TYPE_CHECKING:
    from halfulp import spec
    from halfulp.autograd import Node, Tape, Traced, grad, hvp, jvp, ops, tree_map, value_and_grad, vjp

    __version__: str
else:  # hidden from type checkers, for which it would give every misspelt name a type

    def __getattr__(name: str) -> object:
        """What is loaded when it is first asked for: the tape, the specification, and the version in the metadata."""
        if name == "__version__":
            from importlib.metadata import version

            return version("halfulp")
        if name not in __all__:
            raise AttributeError(f"module 'halfulp' has no attribute {name!r}")
        from importlib import import_module

        if name == "spec":
            return import_module("halfulp.spec")
        globals()[name] = value = getattr(import_module("halfulp.autograd"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, "__version__"})
