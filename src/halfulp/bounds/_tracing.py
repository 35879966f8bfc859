"""From a function of traced values to a :class:`Network`: every operator that the function applies becomes nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from halfulp.autograd import rules
from halfulp.autograd.traced import Traced, new_level
from halfulp.autograd.values import TracedArray
from halfulp.bounds._lowering import Builder, supported
from halfulp.bounds._maps import Shape
from halfulp.bounds._network import Network
from halfulp.bounds._record_lowering import lowering_of, why_not
from halfulp.errors import ModelError
from halfulp.numbers import float_format


class Symbol(TracedArray):
    """A node of the network under construction; its value is what the function gives for an input of zeros."""

    __slots__ = ("builder", "position")

    def __init__(self, level: int, builder: Builder, position: int, value: Any) -> None:
        self.level, self.builder, self.position, self.value = level, builder, position, value

    def process(self, op: Any, inputs: tuple[Any, ...]) -> Any:
        values = [given.value if isinstance(given, Symbol) else given for given in inputs]
        if any(isinstance(value, Traced) for value in values):
            raise ModelError("from_function", f"operator={op!r}", "a network cannot be traced inside a transform", "V3")
        ids = [given.position if isinstance(given, Symbol) else None for given in inputs]
        lowering = lowering_of(op)
        if lowering is None:
            raise self.builder.refusal(rules.name_of(op), f"{why_not(op)}; these are: {supported()}")
        with np.errstate(all="ignore"):
            output = op(*values)
        position = lowering(self.builder, op, ids, values, output)
        return Symbol(self.level, self.builder, position, output)


def trace(function: Callable[[Any], Any], input_shape: Shape, dtype: Any, owner: str) -> Network:
    """The network of a function of one traced value."""
    kind = float_format(dtype, owner).dtype
    shape = tuple(int(n) for n in input_shape)
    builder = Builder(owner, shape, kind)
    output = function(Symbol(new_level(), builder, 0, np.zeros(shape, dtype=kind)))
    if isinstance(output, (tuple, list)) and len(output) == 1:
        output = output[0]
    if not isinstance(output, Symbol):
        raise ModelError(owner, f"output of type {type(output).__name__}", "must be one value that depends on x", "V3")
    return builder.finish(output.position)


def from_function(function: Callable[[Any], Any], input_shape: Shape, dtype: Any = np.float32) -> Network:
    """The network that a function of one array computes: it may use halfulp's functions, ``halfulp.ops`` and operators.

    >>> import numpy as np, halfulp as hu, halfulp.bounds as hb
    >>> weight = np.ones((1, 1, 2, 2), dtype=np.float32)
    >>> hb.from_function(lambda x: hu.max_pool2d(hu.conv2d(x, weight), 2), (1, 5, 5))
    Network(float32 (1, 5, 5) -> (1, 2, 2); 3 nodes: input, conv2d, max_pool2d)
    """
    return trace(function, input_shape, dtype, "from_function")
