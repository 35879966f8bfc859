"""Networks of one record: every operator of the registry, as a model that our reader knows.

ONNX has no medians, smooth maxima or fractional windows. Such a network is written as one node of the domain
``halfulp``, with the record's fields as text and its constants as tensors. Other verifiers refuse it.
"""

from __future__ import annotations

import ast
import math
import random
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from halfulp.conformance.bounds.network import DOMAIN, Layer, Network
from halfulp.conformance.build import small
from halfulp.records import declarations, named

if TYPE_CHECKING:
    import onnx

__all__ = ["draw_record", "function_of"]

_CELLS, _OUTPUTS = 40, 16


def draw_record(generator: np.random.Generator, box: Callable[..., Any]) -> Network | None:
    """A network of one record of the registry, sometimes behind a ReLU; None if it is too large."""
    from halfulp.bounds._record_lowering import bounded

    ours = [d for d in declarations() if d.record.__module__.startswith("halfulp.") and bounded(d.record)]
    declaration = ours[int(generator.integers(len(ours)))]
    op, shapes = small(declaration, random.Random(int(generator.integers(2**31))))
    if shapes[0] is None or not 0 < math.prod(shapes[0]) <= _CELLS:
        return None
    if (declaration.name == "matmul" and len(shapes[1] or ()) != 2) or getattr(op, "training", False):
        return None  # bounds take one constant matrix, and given statistics
    slope = getattr(op, "negative_slope", 0.0)
    if float(np.float32(slope)) != slope:
        return None  # and slopes of their dtype
    made = declaration.draw.constants
    fixed = () if made is None else tuple(np.asarray(c) for c in made(op, shapes, generator))
    numbers = [
        None if shape is None else generator.integers(-16, 17, size=shape) / 16.0
        for shape in shapes[1 : len(shapes) - len(fixed)]
    ]
    layer = Layer("record", op, constants=(*numbers, *fixed))
    before = (Layer("relu"),) if generator.random() < 0.3 else ()
    network = Network((*before, layer), *box(generator, shapes[0]))
    return network if 0 < math.prod(network.shapes[-1]) <= _OUTPUTS else None


def function_of(model: onnx.ModelProto) -> Callable[[Any], Any]:
    """The function that a model with nodes of our domain means, of an input with a batch axis of 1."""
    from onnx import helper, numpy_helper

    from halfulp import ops

    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    steps: list[Any] = []
    for node in model.graph.node:
        if node.domain == DOMAIN:
            given = {a.name: helper.get_attribute_value(a).decode() for a in node.attribute}
            record = _read(node.op_type, given["fields"])
            steps.append((record, [tensors[name] if name else None for name in node.input[1:]]))
        elif node.op_type == "Relu":
            steps.append((ops.relu, []))
        else:
            raise ValueError(f"{node.op_type}: is not written beside nodes of the domain {DOMAIN!r}")

    def function(x: Any) -> Any:
        value = x[0]
        for step, constants in steps:
            value = step(value, *(c if c is None or c.dtype.kind == "i" else c.astype(value.dtype) for c in constants))
        return value

    return function


def _read(name: str, text: str) -> Any:
    record = named(name).record
    known = {field.name for field in fields(record)}
    given = ast.literal_eval(text)
    if not isinstance(given, dict) or not set(given) <= known:
        raise ValueError(f"{name} fields={text!r}: must be fields of the record")
    return record(**{key: float(value[1]) if _is_float(value) else value for key, value in given.items()})


def _is_float(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and value[0] == "float"
