"""The subject ``onnx:module``: any backend with ONNX's own interface, ``run_model`` or ``prepare``; forward only."""

from __future__ import annotations

import base64
import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

from halfulp.conformance.subjects import SubjectError
from halfulp.conformance.subjects import _source as source
from halfulp.conformance.subjects._base import Subject, Unsupported
from halfulp.conformance.subjects._layout import batched, unbatched
from halfulp.records import Array, MaxPool, Operator


class OnnxBackendSubject(Subject):
    """A module with ``run_model(model, inputs)`` or ``prepare(model).run(inputs)``, on models of one node."""

    def __init__(self, module_name: str, module: Any) -> None:
        self.module_name = module_name
        self.module = module
        self.name = f"onnx:{module_name}"  # type: ignore[misc]  # a class variable of the built-in subjects

    @property
    def version(self) -> str:
        top = sys.modules.get(self.module_name.split(".")[0])
        return str(getattr(top, "__version__", ""))

    def _run(self, op: Operator, inputs: tuple[Array | None, ...], indices: bool = False) -> list[Array]:
        import onnx

        from halfulp.conformance.subjects._onnx_model import model_bytes

        x = inputs[0]
        assert x is not None
        given = (np.ascontiguousarray(batched(op, x)), *inputs[1:])
        shapes = tuple(None if a is None else a.shape for a in given)
        model = onnx.load_from_string(model_bytes(op, shapes, x.dtype.name, indices))
        arrays = [a for a in given if a is not None]
        if hasattr(self.module, "run_model"):
            return list(self.module.run_model(model, arrays))
        return list(self.module.prepare(model).run(arrays))

    def forward(self, op: Operator, inputs: tuple[Array | None, ...]) -> Array:
        assert inputs[0] is not None
        return unbatched(op, inputs[0].shape, np.asarray(self._run(op, inputs)[0]))

    def indices(self, op: Operator, x: Array) -> Array:
        if not isinstance(op, MaxPool):
            raise Unsupported(f"ONNX gives no indices for {op.name}")
        flat = np.asarray(self._run(op, (x,), indices=True)[1])  # counted over the whole tensor
        plane = int(np.prod(x.shape[x.ndim - op.ndim :]))
        return unbatched(op, x.shape, flat % plane)

    def script(self, op: Operator, mode: str, arrays: Any, indices: bool = False) -> str | None:
        from halfulp.conformance.subjects._onnx_model import model_bytes

        given = (batched(op, arrays.primals[0]), *arrays.primals[1:])
        shapes = tuple(None if a is None else a.shape for a in given)
        dtype = given[0].dtype.name
        encoded = base64.b64encode(model_bytes(op, shapes, dtype, indices)).decode()
        named = [(n, a) for n, a in zip(source.names_of(op), given, strict=False) if a is not None]
        kind = "ml_dtypes.bfloat16" if dtype == "bfloat16" else f"np.{dtype}"
        lines = ["import base64", f"import {self.module_name} as backend"]
        lines += ["import ml_dtypes"] if dtype == "bfloat16" else []
        lines += ["import numpy as np", "import onnx", ""]
        lines.append(f'model = onnx.load_from_string(base64.b64decode("{encoded}"))')
        lines += [f"{n} = {source.literal(a)}.astype({kind})" for n, a in named]
        inputs = f"[{', '.join(n for n, _ in named)}]"
        called = f"run_model(model, {inputs})" if hasattr(self.module, "run_model") else f"prepare(model).run({inputs})"
        lines.append(f"got = backend.{called}[{int(indices)}]")
        if indices:
            lines.append(f"got = got % {int(np.prod(given[0].shape[2:]))}  # from the whole tensor to one plane")
        if arrays.primals[0].ndim != given[0].ndim:
            lines.append(f"got = got.reshape(got.shape[{given[0].ndim - arrays.primals[0].ndim}:])")
        return "\n".join(lines)


def load_backend(name: str) -> OnnxBackendSubject:
    """The subject of ``onnx:module``; modules in the working directory are found, as ``python -m`` finds them."""
    module_name = name.partition(":")[2]
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        importlib.import_module("onnx")
    except ImportError as error:
        raise SubjectError(f"subject {name!r} needs onnx: pip install onnx ({error})") from error
    try:
        module = importlib.import_module(module_name)
    except (ImportError, ValueError) as error:
        raise SubjectError(f"subject {name!r} cannot be loaded: {error}") from error
    if not any(callable(getattr(module, function, None)) for function in ("run_model", "prepare")):
        raise SubjectError(f"subject {name!r}: the module {module_name} has no function run_model or prepare")
    return OnnxBackendSubject(module_name, module)
