"""From a file, bytes or a message to a checked list of steps: whatever is wrong with a model is found here."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from halfulp.errors import HalfulpError, ModelError
from halfulp.onnx._node import Node
from halfulp.onnx._tensors import array_of, dtype_of
from halfulp.onnx.operators import OPERATORS, Builder

OLDEST_OPSET = 6
_PROTOBUF_LIMIT = 2**31


class Input(NamedTuple):
    """What a model says about one of its inputs; a size that is not fixed is a name or None."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | str | None, ...] | None


class Step(NamedTuple):
    """One node, ready to run."""

    node: Node
    function: Callable[..., Any]


class Program(NamedTuple):
    """A model as data: what goes in, what is constant, what is done, what comes out."""

    inputs: tuple[Input, ...]
    constants: dict[str, NDArray[Any]]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    opset: int
    limit: int
    held: int
    """The bytes of all initializers and constants."""


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
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError("load", f"path={str(path)!r}", f"cannot be read: {error}", "O1") from error
    return program_of(_parse(data), path.parent, max_bytes, operators)


def _parse(data: bytes) -> onnx.ModelProto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, RecursionError) as error:
        raise ModelError("load", f"{len(data)} bytes", "are not a whole ONNX model", "O1") from error
    return model


def program_of(
    model: onnx.ModelProto, folder: Path | None, max_bytes: int, operators: Mapping[str, Builder] = OPERATORS
) -> Program:
    """Check a model from its head to its outputs."""
    if not model.HasField("graph") or model.ir_version < 1:
        raise ModelError("load", "model", "has no graph: it is not a whole ONNX model", "O1")
    opset = _opset(model)
    graph = model.graph
    if graph.sparse_initializer:
        name = graph.sparse_initializer[0].values.name
        raise ModelError("model", f"sparse initializer {name!r}", "must be a dense tensor", "O6")
    constants: dict[str, NDArray[Any]] = {}
    loaded = 0
    for tensor in graph.initializer:
        if tensor.name in constants or not tensor.name:
            raise ModelError("model", f"initializer {tensor.name!r}", "must have a name of its own", "O4")
        constants[tensor.name] = array_of(tensor, folder, max_bytes, used=loaded)
        loaded += constants[tensor.name].nbytes
    inputs = tuple(_input(value) for value in graph.input if value.name not in constants)
    defined = [*constants, *(value.name for value in inputs)]
    if len(set(defined)) != len(defined):
        raise ModelError("model", f"inputs={[value.name for value in inputs]}", "every name must be used once", "O4")
    steps, held = _steps(graph, opset, set(defined), folder, max_bytes, loaded, operators)
    outputs = tuple(value.name for value in graph.output)
    made = set(defined).union(*(step.node.outputs for step in steps))
    for name in outputs:
        if name not in made:
            raise ModelError("model", f"output {name!r}", "is not computed by any node", "O4")
    if not outputs:
        raise ModelError("model", "outputs", "a model must have at least one", "O1")
    return Program(inputs, constants, steps, outputs, opset, max_bytes, held)


def _opset(model: onnx.ModelProto) -> int:
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    newest = onnx.defs.onnx_opset_version()
    if len(versions) != 1 or not OLDEST_OPSET <= versions[0] <= newest:
        rule = f"must name one version of the operator set from {OLDEST_OPSET} to {newest}"
        raise ModelError("model", f"opset_import={versions}", rule, "O1")
    return int(versions[0])


def _input(value: onnx.ValueInfoProto) -> Input:
    if value.type.WhichOneof("value") != "tensor_type":
        raise ModelError("model", f"input {value.name!r}", "must be a tensor", "O6")
    tensor = value.type.tensor_type
    dtype = dtype_of("model", f"input {value.name!r}", tensor.elem_type)
    if not tensor.HasField("shape"):
        return Input(value.name, dtype, None)
    sizes = []
    for dim in tensor.shape.dim:
        kind = dim.WhichOneof("value")
        sizes.append(dim.dim_value if kind == "dim_value" else (dim.dim_param or None) if kind == "dim_param" else None)
    return Input(value.name, dtype, tuple(sizes))


def _steps(
    graph: onnx.GraphProto,
    opset: int,
    known: set[str],
    folder: Path | None,
    max_bytes: int,
    loaded: int,
    operators: Mapping[str, Builder],
) -> tuple[tuple[Step, ...], int]:
    """The nodes, ready to run, and the bytes of all constants with theirs."""
    later = {name for proto in graph.node for name in proto.output if name}
    steps = []
    for position, proto in enumerate(graph.node):
        node = Node(proto, position, opset, max_bytes, folder, loaded)
        _check_names(node, known, later)
        steps.append(Step(node, build(node, proto, operators)))
        loaded = node.loaded
        known.update(name for name in node.outputs if name)
    return tuple(steps), loaded


def _check_names(node: Node, known: set[str], later: set[str]) -> None:
    for name in node.inputs:
        if name and name not in known:
            rule = (
                "is used before it is computed: a cycle, or nodes out of order" if name in later else "is not defined"
            )
            raise node.refusal(f"input {name!r}", rule, "O4")
    outputs = [name for name in node.outputs if name]
    if not outputs:
        raise node.refusal("outputs", "a node must have at least one", "O4")
    for name in outputs:
        if name in known or outputs.count(name) > 1:
            raise node.refusal(f"output {name!r}", "is defined a second time", "O4")


def build(node: Node, proto: onnx.NodeProto, operators: Mapping[str, Builder] = OPERATORS) -> Callable[..., Any]:
    """The function of a node, or the error that names the node, and the attribute if one is at fault."""
    if proto.domain not in ("", "ai.onnx") or node.operator not in operators:
        domain = f" of domain {proto.domain!r}" if proto.domain else ""
        known = ", ".join(operators)
        raise node.refusal(f"operator {node.operator!r}{domain}", f"is not computed; these are: {known}", "O2")
    _check_counts(node)
    try:
        function = operators[node.operator](node)
    except ModelError:
        raise
    except HalfulpError as error:
        raise node.refusal(error.argument, f"{error.rule} [{error.label}]") from error
    node.check_all_read()
    return function


def _check_counts(node: Node) -> None:
    """As many inputs and outputs as the operator's schema of this version takes."""
    schema = onnx.defs.get_schema(node.operator, node.opset)
    for what, names, least, most in (
        ("inputs", node.inputs, schema.min_input, schema.max_input),
        ("outputs", node.outputs, schema.min_output, schema.max_output),
    ):
        if not least <= len(names) <= most or not all(names[:least]):
            raise node.refusal(f"{what}={names}", f"there must be from {least} to {most}", "O9")
    for position, name in enumerate(node.inputs):
        declared = schema.inputs[min(position, len(schema.inputs) - 1)]
        if not name and declared.option != onnx.defs.OpSchema.FormalParameterOption.Optional:
            raise node.refusal(f"inputs={node.inputs}", f"input {position} ({declared.name}) must be given", "O9")
