"""ONNX models as networks: the reader of :mod:`halfulp.onnx`, with a few more operators, run on a traced value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from halfulp.autograd import ops
from halfulp.bounds import _curves
from halfulp.bounds._lowering import LOWERINGS
from halfulp.bounds._network import Network
from halfulp.bounds._tracing import Symbol, trace
from halfulp.errors import ModelError
from halfulp.onnx._model import DEFAULT_LIMIT, Model
from halfulp.onnx._node import Node
from halfulp.onnx._program import Program, Step
from halfulp.onnx._reading import read
from halfulp.onnx.operators import OPERATORS, elementwise


def load(source: Any, *, max_bytes: int = DEFAULT_LIMIT) -> Network:
    """As :func:`halfulp.bounds.load`."""
    program = read(source, max_bytes, _operators())
    if len(program.inputs) != 1 or len(program.outputs) != 1:
        found = f"{len(program.inputs)} inputs, {len(program.outputs)} outputs"
        raise ModelError("load", found, "a network has one input and one output", "V3")
    (given,) = program.inputs
    shape: Any = tuple(1 if axis == 0 and not isinstance(n, int) else n for axis, n in enumerate(given.shape or ("?",)))
    if not all(isinstance(n, int) for n in shape) or given.shape is None:
        raise ModelError("load", f"input {given.name!r} shape={given.shape}", "every size must be fixed", "V3")
    return trace(lambda x: _run(program, x), shape, given.dtype, "load")


def _run(program: Program, x: Symbol) -> Any:
    """The model on a traced value; the builder knows the node that is being read."""

    def named(step: Step) -> Step:
        def function(*arguments: Any) -> Any:
            x.builder.label = f"{step.node.label}"
            output = step.function(*arguments)
            x.builder.label = ""
            return output

        return Step(step.node, function)

    return Model(program._replace(steps=tuple(named(step) for step in program.steps)))(x)


def _operators() -> dict[str, Any]:
    return {**OPERATORS, **_MORE}


def _leaky_relu(node: Node) -> Callable[..., Any]:
    slope = node.number("alpha", 0.01)
    return lambda x: _curves.leaky_relu(x, np.asarray(slope, dtype=np.float32)[()])


def _simple(function: Callable[[Any], Any]) -> Callable[[Node], Callable[..., Any]]:
    return lambda node: function


_MORE: dict[str, Callable[[Node], Callable[..., Any]]] = {
    "LeakyRelu": _leaky_relu,
    "Sigmoid": _simple(ops.sigmoid),
    "Softplus": _simple(_curves.softplus),
    "Tanh": _simple(ops.tanh),
}
"""Operators that can be bounded, besides those that :mod:`halfulp.onnx` computes."""


LOWERINGS[elementwise.Clip] = LOWERINGS[_curves.Clip]
