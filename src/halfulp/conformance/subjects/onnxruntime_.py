"""The subject ``onnxruntime``: one ONNX node per record on the CPU provider, forward only."""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import onnxruntime

from halfulp.conformance.subjects import _source as source
from halfulp.conformance.subjects._base import ForwardSubject, Unsupported
from halfulp.conformance.subjects._layers import is_layer
from halfulp.conformance.subjects._layout import batched, unbatched
from halfulp.conformance.subjects._onnx_model import OPSET, model_bytes, node_of
from halfulp.records import Array, MaxPool, Operator


def _of_type(arrays: tuple[Array | None, ...], dtype: Any) -> list[Array | None]:
    """Inputs without derivative in the element type of the case, class indices as int64."""
    return [None if a is None else a.astype(np.int64 if a.dtype.kind in "iu" else dtype) for a in arrays]


class OnnxruntimeSubject(ForwardSubject):
    """ONNX Runtime's CPU kernels, through models of one node."""

    name: ClassVar[str] = "onnxruntime"
    title: ClassVar[str] = "ONNX Runtime"

    def __init__(self) -> None:
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
        given = (np.ascontiguousarray(batched(op, x)), *_of_type(inputs[1:], x.dtype))
        shapes = tuple(None if a is None else a.shape for a in given)
        session = self._session(model_bytes(op, shapes, x.dtype.name, indices), self.threads)
        feeds = {n: a for n, a in zip(source.names_of(op), given, strict=False) if a is not None}
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
        named = [(n, a) for n, a in zip(source.names_of(op), given, strict=False) if a is not None]
        lines += [f"{n} = {source.literal(a)}.astype(np.{source.type_of(a, dtype)})" for n, a in named]
        feeds = ", ".join(f'"{n}": {n}' for n, _ in named)
        lines.append('session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])')
        lines.append(f"got = session.run(None, {{{feeds}}})[{int(indices)}]")
        if indices:
            plane = int(np.prod(given[0].shape[2:]))
            lines.append(f"got = got % {plane}  # from the whole tensor to one plane")
        shape = op.output_shape(*(None if a is None else a.shape for a in arrays.primals))  # type: ignore[arg-type]
        if len(shape) != given[0].ndim and not is_layer(op):
            lines.append(f"got = got.reshape(got.shape[{given[0].ndim - arrays.primals[0].ndim}:])")
        return "\n".join(lines)
