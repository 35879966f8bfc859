"""A record as an ONNX model of one node: what every subject behind ONNX runs."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import onnx

from halfulp.conformance.subjects import _source as source
from halfulp.conformance.subjects._base import Unsupported
from halfulp.conformance.subjects._elementwise import onnx_node
from halfulp.conformance.subjects._layers import is_layer, onnx_layer
from halfulp.geometry import Axis
from halfulp.records import (
    AvgPool,
    Conv,
    ConvTranspose,
    ElementwiseOperator,
    GlobalAvgPool,
    GlobalLpPool,
    GlobalMaxPool,
    LpPool,
    MaxPool,
    Operator,
    Shape,
)

__all__ = ["OPSET", "model_bytes", "node_of"]

OPSET = 22


def node_of(op: Operator, shapes: tuple[Shape | None, ...]) -> tuple[str, dict[str, Any]]:
    """(ONNX operator, attributes) for a record on inputs of these shapes; pads are always explicit."""
    if isinstance(op, ElementwiseOperator):
        return onnx_node(op)
    if is_layer(op):
        return onnx_layer(op, shapes)[:2]
    if not hasattr(op, "ndim"):
        raise Unsupported(f"ONNX has no {op.name}")
    x = shapes[0] or ()
    spatial = x[len(x) - op.ndim :]
    if isinstance(op, MaxPool):
        attributes = _window(op.axes(spatial), op) | {"dilations": list(op.dilation)}
        return "MaxPool", attributes
    if isinstance(op, AvgPool):
        if op.divisor_override is not None:
            raise Unsupported("ONNX AveragePool has no divisor_override")
        attributes = _window(op.axes(spatial), op) | {"count_include_pad": int(op.count_include_pad)}
        return "AveragePool", attributes | {"dilations": list(op.dilation)}
    if isinstance(op, (GlobalAvgPool, GlobalMaxPool)):
        return ("GlobalAveragePool" if isinstance(op, GlobalAvgPool) else "GlobalMaxPool"), {}
    if isinstance(op, (LpPool, GlobalLpPool)):
        if not isinstance(op.p, int):
            raise Unsupported("ONNX LpPool takes an integer p")
        if isinstance(op, GlobalLpPool):
            return "GlobalLpPool", {"p": op.p}
        return "LpPool", _window(op.axes(spatial), op) | {"dilations": list(op.dilation), "p": op.p}
    if isinstance(op, (Conv, ConvTranspose)):
        kernel = shapes[1][2:]  # type: ignore[index]
        axes = op.axes(spatial, kernel)
        attributes = {
            "kernel_shape": list(kernel),
            "strides": list(op.stride),
            "dilations": list(op.dilation),
            "group": op.groups,
            "pads": _pads(axes),
        }
        if isinstance(op, ConvTranspose):
            return "ConvTranspose", attributes | {"output_padding": list(op.output_padding)}
        return "Conv", attributes
    raise Unsupported(f"ONNX has no {op.name}")


def _pads(axes: tuple[Axis, ...]) -> list[int]:
    return [a.before for a in axes] + [a.after for a in axes]


def _window(axes: tuple[Axis, ...], op: MaxPool | AvgPool | LpPool) -> dict[str, Any]:
    return {
        "kernel_shape": list(op.kernel_size),
        "strides": list(op.stride),
        "pads": _pads(axes),
        "ceil_mode": int(op.ceil_mode),
    }


@lru_cache(maxsize=128)
def model_bytes(op: Operator, shapes: tuple[Shape | None, ...], dtype: str, indices: bool = False) -> bytes:
    """A serialised model with the record's node, its inputs in the form (batch, channels, …)."""
    kind = onnx.TensorProto.DataType.Value({"bfloat16": "BFLOAT16"}.get(dtype, _tensor_type(dtype)))
    name, attributes = node_of(op, shapes)
    given = {n: shape for n, shape in zip(source.names_of(op), shapes, strict=False) if shape is not None}
    outputs = ["out", "indices"] if indices else ["out"]
    constants = _constants(op, shapes)
    more = [constant.name if constant is not None else "" for constant in constants]
    node = onnx.helper.make_node(name, [*given, *more], outputs, **attributes)
    values = [
        onnx.helper.make_tensor_value_info(n, onnx.TensorProto.INT64 if n == "target" and is_layer(op) else kind, shape)
        for n, shape in given.items()
    ]
    kinds = [kind, onnx.TensorProto.INT64]
    sizes = [None] * len(op.output_shape(*shapes) if is_layer(op) else shapes[0] or ())  # type: ignore[arg-type]
    results = [onnx.helper.make_tensor_value_info(n, k, sizes) for n, k in zip(outputs, kinds, strict=False)]
    held = [constant for constant in constants if constant is not None]
    graph = onnx.helper.make_graph([node], "one_node", values, results, held)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=10)
    return model.SerializeToString()  # type: ignore[no-any-return]


def _constants(op: Operator, shapes: tuple[Shape | None, ...]) -> list[Any]:
    """The inputs of a node that a record has as settings: tensors, or None for one that is left out."""
    if not is_layer(op):
        return []
    found: list[Any] = []
    for i, (kind, values) in enumerate(onnx_layer(op, shapes)[2]):
        made = None
        if values is not None:
            data_type = onnx.TensorProto.DataType.Value(kind)
            made = onnx.helper.make_tensor(f"constant_{i}", data_type, [len(values)], values)
        found.append(made)
    return found


def _tensor_type(dtype: str) -> str:
    return {"float32": "FLOAT", "float64": "DOUBLE"}.get(dtype, dtype.upper())
