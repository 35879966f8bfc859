"""The subject ``onnxruntime``: one ONNX node per record on the CPU provider, forward only."""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import onnx
import onnxruntime

from halfulp.conformance.subjects import _source as source
from halfulp.conformance.subjects._base import Subject, Unsupported
from halfulp.conformance.subjects._layout import batched, unbatched
from halfulp.geometry import Axis
from halfulp.records import (
    Array,
    AvgPool,
    Conv,
    ConvTranspose,
    GlobalAvgPool,
    GlobalLpPool,
    GlobalMaxPool,
    LpPool,
    MaxPool,
    Operator,
    Shape,
)

OPSET = 22


def node_of(op: Operator, shapes: tuple[Shape | None, ...]) -> tuple[str, dict[str, Any]]:
    """(ONNX operator, attributes) for a record on inputs of these shapes; pads are always explicit."""
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
    results = [onnx.helper.make_tensor_value_info(n, k, None) for n, k in zip(outputs, kinds, strict=False)]
    graph = onnx.helper.make_graph([node], "one_node", values, results)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=10)
    return model.SerializeToString()  # type: ignore[no-any-return]


def _tensor_type(dtype: str) -> str:
    return {"float32": "FLOAT", "float64": "DOUBLE"}.get(dtype, dtype.upper())


class OnnxruntimeSubject(Subject):
    """ONNX Runtime's CPU kernels, through models of one node."""

    name: ClassVar[str] = "onnxruntime"

    def __init__(self) -> None:
        self.threads = 1
        self._session = lru_cache(maxsize=64)(self._new_session)

    @property
    def version(self) -> str:
        return str(onnxruntime.__version__)

    def _new_session(self, model: bytes, threads: int) -> Any:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def _run(self, op: Operator, inputs: tuple[Array | None, ...], indices: bool = False) -> list[Array]:
        x = inputs[0]
        assert x is not None
        if x.dtype.name == "bfloat16":
            raise Unsupported("ONNX Runtime takes no bfloat16 arrays from NumPy")
        given = (np.ascontiguousarray(batched(op, x)), *inputs[1:])
        shapes = tuple(None if a is None else a.shape for a in given)
        session = self._session(model_bytes(op, shapes, x.dtype.name, indices), self.threads)
        feeds = {n: a for n, a in zip(source.INPUT_NAMES, given, strict=False) if a is not None}
        return session.run(None, feeds)  # type: ignore[no-any-return]

    def forward(self, op: Operator, inputs: tuple[Array | None, ...]) -> Array:
        assert inputs[0] is not None
        return unbatched(op, inputs[0].shape, self._run(op, inputs)[0])

    def indices(self, op: Operator, x: Array) -> Array:
        if not isinstance(op, MaxPool):
            raise Unsupported(f"ONNX gives no indices for {op.name}")
        flat = self._run(op, (x,), indices=True)[1]  # counted over the whole tensor
        plane = int(np.prod(x.shape[x.ndim - op.ndim :]))
        return unbatched(op, x.shape, flat % plane)

    def jvp(
        self, op: Operator, primals: tuple[Array | None, ...], tangents: tuple[Array | None, ...]
    ) -> tuple[Array, Array]:
        raise Unsupported("ONNX Runtime has no derivatives")

    def vjp(self, op: Operator, primals: tuple[Array | None, ...], cotangent: Array) -> tuple[Array | None, ...]:
        raise Unsupported("ONNX Runtime has no derivatives")

    def set_num_threads(self, threads: int) -> None:
        self.threads = threads

    def with_threads(self, script: str) -> str:
        options = "options = onnxruntime.SessionOptions()\noptions.intra_op_num_threads = threads\n"
        session = "session = onnxruntime.InferenceSession(model, "
        return script.replace(session, f"{options}{session}options, ")

    def script(self, op: Operator, mode: str, arrays: Any, indices: bool = False) -> str | None:
        given = (batched(op, arrays.primals[0]), *arrays.primals[1:])
        shapes = tuple(None if a is None else a.shape for a in given)
        dtype = given[0].dtype.name
        name, attributes = node_of(op, shapes)
        encoded = base64.b64encode(model_bytes(op, shapes, dtype, indices)).decode()
        shown = ", ".join(f"{key}={value}" for key, value in attributes.items())
        lines = ["import base64", "", "import numpy as np", "import onnxruntime", ""]
        lines.append(f"# one node: {name}({shown}), opset {OPSET}")
        lines.append(f'model = base64.b64decode("{encoded}")')
        named = [(n, a) for n, a in zip(source.INPUT_NAMES, given, strict=False) if a is not None]
        lines += [f"{n} = {source.literal(a)}.astype(np.{dtype})" for n, a in named]
        feeds = ", ".join(f'"{n}": {n}' for n, _ in named)
        lines.append('session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])')
        lines.append(f"got = session.run(None, {{{feeds}}})[{int(indices)}]")
        if indices:
            plane = int(np.prod(given[0].shape[2:]))
            lines.append(f"got = got % {plane}  # from the whole tensor to one plane")
        shape = op.output_shape(*(None if a is None else a.shape for a in arrays.primals))  # type: ignore[arg-type]
        if len(shape) != given[0].ndim:
            lines.append(f"got = got.reshape(got.shape[{given[0].ndim - arrays.primals[0].ndim}:])")
        return "\n".join(lines)
