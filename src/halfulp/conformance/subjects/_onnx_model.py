"""A record as an ONNX model of one node: what every subject behind ONNX runs."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import onnx

from halfulp.conformance.subjects import _source as source
from halfulp.conformance.subjects._base import Unsupported
from halfulp.conformance.subjects._elementwise import onnx_node
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
    x = shapes[0] or ()
    spatial = x[len(x) - op.ndim :]  # type: ignore[attr-defined]  # every record has a rank
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
    names = [n for n, shape in zip(source.INPUT_NAMES, shapes, strict=False) if shape is not None]
    outputs = ["out", "indices"] if indices else ["out"]
    node = onnx.helper.make_node(name, names, outputs, **attributes)
    values = [
        onnx.helper.make_tensor_value_info(n, kind, shape)
        for n, shape in zip(source.INPUT_NAMES, shapes, strict=False)
        if shape is not None
    ]
    kinds = [kind, onnx.TensorProto.INT64]
    sizes = [None] * len(shapes[0] or ())  # every output has the rank of its input
    results = [onnx.helper.make_tensor_value_info(n, k, sizes) for n, k in zip(outputs, kinds, strict=False)]
    graph = onnx.helper.make_graph([node], "one_node", values, results)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=10)
    return model.SerializeToString()  # type: ignore[no-any-return]


def _tensor_type(dtype: str) -> str:
    return {"float32": "FLOAT", "float64": "DOUBLE"}.get(dtype, dtype.upper())
