"""From a file, bytes or a message to a checked program: whatever is wrong with a model is found here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError

from halfulp.errors import ModelError
from halfulp.onnx._program import Program, Scope, constants_of, input_of, opset_of, steps_of
from halfulp.onnx._wire import Malformed, Place, split
from halfulp.onnx.operators import OPERATORS, Builder
from halfulp.onnx.operators.microsoft import MICROSOFT

OLDEST_OPSET = 6
_PROTOBUF_LIMIT = 2**31


def read(source: Any, max_bytes: int, operators: Mapping[str, Builder] = OPERATORS) -> Program:
    """A program from a path, the bytes of a file or a ``ModelProto``, made of these operators."""
    if isinstance(source, onnx.ModelProto):
        return program_of(source, None, max_bytes, operators)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return program_of(_parse(bytes(source)), None, max_bytes, operators)
    path = Path(os.fspath(source))
    try:
        if not path.is_file():
            raise ModelError("load", f"path={str(path)!r}", "is not a file", "O1")
        if path.stat().st_size >= _PROTOBUF_LIMIT:
            raise ModelError("load", f"path={str(path)!r}", "an ONNX file is smaller than 2 GiB", "O1")
        data, places = _without_weights(path)
    except (OSError, ValueError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError("load", f"path={str(path)!r}", f"cannot be read: {error}", "O1") from error
    return program_of(_parse(data), path.parent, max_bytes, operators, places)


def _without_weights(path: Path) -> tuple[bytes, dict[str, Place]]:
    """A file without the data of its large initializers; whole if it is not what it should be."""
    try:
        return split(path)
    except (Malformed, ValueError):  # an empty file cannot be mapped
        return path.read_bytes(), {}


def _parse(data: bytes) -> onnx.ModelProto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, RecursionError) as error:
        raise ModelError("load", f"{len(data)} bytes", "are not a complete ONNX model", "O1") from error
    return model


def program_of(
    model: onnx.ModelProto,
    folder: Path | None,
    max_bytes: int,
    operators: Mapping[str, Builder] = OPERATORS,
    places: Mapping[str, Place] | None = None,
) -> Program:
    """Check a model from its head to its outputs."""
    if not model.HasField("graph") or model.ir_version < 1:
        raise ModelError("load", "model", "has no graph: it is not a complete ONNX model", "O1")
    opset = opset_of(model.opset_import, None, OLDEST_OPSET)
    functions = {(function.domain, function.name): function for function in model.functions}
    contributed = MICROSOFT if operators is OPERATORS else {}
    scope = Scope(opset, folder, max_bytes, operators, functions, contributed)
    graph = model.graph
    constants = constants_of(graph, scope, 0, places)
    inputs = tuple(input_of(value) for value in graph.input if value.name not in constants)
    known = {*constants, *(value.name for value in inputs)}
    if len(known) != len(constants) + len(inputs):
        raise ModelError("model", f"inputs={[value.name for value in inputs]}", "every name must be used once", "O4")
    steps, held = steps_of(graph.node, scope, known, constants, sum(array.nbytes for array in constants.values()))
    outputs = tuple(value.name for value in graph.output)
    for name in outputs:
        if name not in known:
            raise ModelError("model", f"output {name!r}", "is not computed by any node", "O4")
    if not outputs:
        raise ModelError("model", "outputs", "a model must have at least one", "O1")
    return Program(inputs, constants, steps, outputs, opset, max_bytes, held)
