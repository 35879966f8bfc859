"""Small models for the tests, in ONNX's own textual form."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def model(text: str, opset: int = 22, ir_version: int = 10) -> onnx.ModelProto:
    """``m (float[2] x) => (float[2] y) { … }`` as a model."""
    return onnx.parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["": {opset}]> {text}')


def node_model(
    op_type: str, arrays: list[Any], outputs: int = 1, opset: int = 22, **attributes: Any
) -> onnx.ModelProto:
    """A model of one node whose inputs have the types of these arrays and no declared shapes; None is left out."""
    names = ["" if a is None else f"x{i}" for i, a in enumerate(arrays)]
    node = helper.make_node(op_type, names, [f"y{i}" for i in range(outputs)], name="the_node", **attributes)
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), None)
        for name, a in zip(names, arrays, strict=True)
        if a is not None
    ]
    results = [helper.make_tensor_value_info(f"y{i}", TensorProto.FLOAT, None) for i in range(outputs)]
    graph = helper.make_graph([node], "g", inputs, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def network() -> onnx.ModelProto:
    """A small convolutional network with weights, of most of the operators."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((4, 2, 3, 3)),
        "b": rng.standard_normal(4),
        "scale": rng.random(4) + 0.5,
        "shift": rng.standard_normal(4),
        "mean": rng.standard_normal(4),
        "variance": rng.random(4) + 0.5,
        "dense": rng.standard_normal((3, 16)),
        "bias": rng.standard_normal(3),
    }
    proto = model(
        """m (float[N, 2, 8, 8] x) => (float[N, 3] y) {
            a = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w, b)
            n = BatchNormalization(a, scale, shift, mean, variance)
            r = Relu(n)
            p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(r)
            f = Flatten(p)
            d = Gemm<transB = 1>(f, dense, bias)
            y = Softmax(d)
        }"""
    )
    proto.graph.initializer.extend(numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items())
    return proto
