"""The right answers of a case, each computed once for all subjects."""

from __future__ import annotations

from typing import Any

import numpy as np

from halfulp import spec
from halfulp.conformance.cases import Arrays
from halfulp.errors import HalfulpError
from halfulp.records import Array, Operator

__all__ = ["Answer", "Oracle", "answer"]

Answer = tuple[Array, ...]
"""What a mode is compared by: (output), (tangent), or the input cotangents that are there."""


def answer(op: Operator, mode: str, arrays: Arrays) -> Answer:
    """The specification's answer, rounded once."""
    if mode == "forward":
        return (spec.forward(op, *arrays.primals),)
    if mode == "jvp":
        return (spec.jvp(op, arrays.primals, arrays.tangents)[1],)
    return tuple(a for a in spec.vjp(op, arrays.primals, arrays.cotangent) if a is not None)


class Oracle:
    """Answers for one set of arrays; subjects that are held to the same record share them."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self._known: dict[tuple[Operator, str], Answer | HalfulpError] = {}

    def __call__(self, op: Operator, mode: str) -> Answer | HalfulpError:
        """The answer, or the error that the specification demands."""
        key = (op, mode)
        if key not in self._known:
            try:
                self._known[key] = answer(op, mode, self.arrays)
            except HalfulpError as error:
                self._known[key] = error
        return self._known[key]

    def indices(self, op: Operator) -> Array:
        """Flat indices of the winners under the record's tie rule."""
        key = (op, "indices")
        if key not in self._known:
            self._known[key] = (spec.indices(op, self.arrays.primals[0]),)
        found = self._known[key]
        assert isinstance(found, tuple)
        return found[0]

    def has_nan(self) -> bool:
        """Whether an input holds a NaN."""
        return any(_has_nan(a) for a in self.arrays.primals if a is not None)


def _has_nan(array: Any) -> bool:
    return array.dtype.kind not in "iub" and bool(np.isnan(array).any())
