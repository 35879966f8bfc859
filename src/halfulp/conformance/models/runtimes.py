"""Runtimes that a model is compared with: each gives the values of all nodes, or only of the outputs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import onnx

from halfulp.conformance.subjects import SubjectError
from halfulp.records import Array

__all__ = ["RUNTIMES", "Runtime", "load_runtime"]


class Runtime(NamedTuple):
    """A runtime: ``run(model, folder, inputs, names)`` gives the named values."""

    name: str
    version: str
    run: Callable[[onnx.ModelProto, Path, Mapping[str, Array], Sequence[str]], list[Array]]
    source: str
    """Lines of a script that set ``outputs`` from ``model`` (a ModelProto) and ``inputs`` (a dictionary)."""


_ONNXRUNTIME = """\
import onnxruntime
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
outputs = session.run(None, inputs)"""
_REFERENCE = """\
from onnx.reference import ReferenceEvaluator
outputs = ReferenceEvaluator(model).run(None, inputs)"""


def _onnxruntime() -> Runtime:
    import onnxruntime

    def run(model: onnx.ModelProto, folder: Path, inputs: Mapping[str, Array], names: Sequence[str]) -> list[Array]:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return list(session.run(list(names), dict(inputs)))

    return Runtime("onnxruntime", str(onnxruntime.__version__), run, _ONNXRUNTIME)


def _reference() -> Runtime:
    from onnx.reference import ReferenceEvaluator

    def run(model: onnx.ModelProto, folder: Path, inputs: Mapping[str, Array], names: Sequence[str]) -> list[Array]:
        return [np.asarray(value) for value in ReferenceEvaluator(model).run(list(names), dict(inputs))]

    return Runtime("reference", str(onnx.__version__), run, _REFERENCE)


RUNTIMES: Final[dict[str, Callable[[], Runtime]]] = {"onnxruntime": _onnxruntime, "reference": _reference}


def load_runtime(name: str) -> Runtime:
    """``onnxruntime``, ``reference`` (ONNX's own evaluator), or a module with ``run_model`` as ONNX backends have."""
    if name in RUNTIMES:
        try:
            return RUNTIMES[name]()
        except ImportError as error:
            raise SubjectError(f"{name} is not installed: pip install {name}") from error
    try:
        module: Any = importlib.import_module(name)
    except ImportError as error:
        known = ", ".join(RUNTIMES)
        raise SubjectError(f"there is no runtime {name!r}: {error}; known are {known}, and modules") from error
    if not callable(getattr(module, "run_model", None)):
        raise SubjectError(f"the module {name!r} has no function run_model(model, inputs)")

    def run(model: onnx.ModelProto, folder: Path, inputs: Mapping[str, Array], names: Sequence[str]) -> list[Array]:
        found = module.run_model(model, list(inputs.values()))
        by_name = dict(zip([value.name for value in model.graph.output], found, strict=True))
        return [np.asarray(by_name[n]) for n in names]

    source = f"import {name} as backend\noutputs = backend.run_model(model, list(inputs.values()))"
    return Runtime(name, str(getattr(module, "__version__", "")), run, source)
