"""A graph as a checked list of steps: names, operators, subgraphs and functions of the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray

from halfulp.errors import HalfulpError, ModelError
from halfulp.onnx._node import Node
from halfulp.onnx._tensors import array_of, dtype_of
from halfulp.onnx._wire import Place
from halfulp.onnx.operators import Builder
from halfulp.onnx.operators.microsoft import Contributed

_STANDARD = ("", "ai.onnx")
_MOST_NESTED = 32
_MOST_NODES = 1 << 20


class Input(NamedTuple):
    """What a model says about one of its inputs; a size that is not fixed is a name or None."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | str | None, ...] | None


class Step(NamedTuple):
    """One node, ready to run on its inputs and then the values that its subgraphs capture."""

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


@dataclass(frozen=True, eq=False)
class Subgraph:
    """The graph of an attribute, or the body of a function: steps that also use values of the surrounding graph."""

    inputs: tuple[str, ...]
    captured: tuple[str, ...]
    constants: dict[str, NDArray[Any]]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]

    @cached_property
    def plan(self) -> tuple[Line, ...]:
        """The steps with the names that they read, make and use last."""
        return planned(self.steps, self.outputs)


class Line(NamedTuple):
    """A step, the names of all values that it reads and makes, and of those that nothing needs after it."""

    step: Step
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    last: tuple[str, ...]


def planned(steps: Sequence[Step], outputs: Sequence[str]) -> tuple[Line, ...]:
    """What is the same in every run of some steps."""
    last: dict[str, int] = {}
    for position, step in enumerate(steps):
        node = step.node
        last.update(dict.fromkeys((n for n in (*node.inputs, *node.captured, *node.outputs) if n), position))
    drop: dict[int, list[str]] = {}
    for name, position in last.items():
        if name not in outputs:
            drop.setdefault(position, []).append(name)
    return tuple(
        Line(step, (*step.node.inputs, *step.node.captured), tuple(step.node.outputs), tuple(drop.get(position, ())))
        for position, step in enumerate(steps)
    )


@dataclass(frozen=True)
class Scope:
    """What is the same for all graphs of a model, and how deep this one lies."""

    opset: int
    folder: Path | None
    limit: int
    operators: Mapping[str, Builder]
    functions: Mapping[tuple[str, str], onnx.FunctionProto]
    contributed: Mapping[str, Contributed] = field(default_factory=dict)
    """Operators of the domain ``com.microsoft``."""
    calls: tuple[tuple[str, str], ...] = ()
    depth: int = 0
    built: list[int] = field(default_factory=lambda: [0])
    """The number of nodes so far, which functions that call functions can multiply."""

    def inner(self, owner: str) -> Scope:
        """The scope of a graph inside this one."""
        if self.depth >= _MOST_NESTED:
            raise ModelError(owner, "subgraph", f"graphs may be nested {_MOST_NESTED} deep", "O4")
        return replace(self, depth=self.depth + 1)


def constants_of(
    graph: onnx.GraphProto, scope: Scope, used: int, places: Mapping[str, Place] | None = None
) -> dict[str, NDArray[Any]]:
    """The initializers of a graph by name; the data of some may have stayed in the file."""
    if graph.sparse_initializer:
        name = graph.sparse_initializer[0].values.name
        raise ModelError("model", f"sparse initializer {name!r}", "must be a dense tensor", "O6")
    constants: dict[str, NDArray[Any]] = {}
    for tensor in graph.initializer:
        if tensor.name in constants or not tensor.name:
            raise ModelError("model", f"initializer {tensor.name!r}", "must have a name of its own", "O4")
        place = (places or {}).get(tensor.name)
        constants[tensor.name] = array_of(tensor, scope.folder, scope.limit, used=used, place=place)
        used += constants[tensor.name].nbytes
    return constants


def input_of(value: onnx.ValueInfoProto) -> Input:
    """The declared type and shape of an input."""
    if value.type.WhichOneof("value") != "tensor_type":
        raise ModelError("model", f"input {value.name!r}", "must be a tensor", "O6")
    tensor = value.type.tensor_type
    dtype = dtype_of("model", f"input {value.name!r}", tensor.elem_type)
    if not tensor.HasField("shape"):
        return Input(value.name, dtype, None)
    sizes = []
    for dim in tensor.shape.dim:
        sizes.append(_size(dim))
    return Input(value.name, dtype, tuple(sizes))


def _size(dim: Any) -> int | str | None:
    """A fixed size, a name, or None; exporters write -1 or "?" for a size that is not known."""
    kind = dim.WhichOneof("value")
    if kind == "dim_value":
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    return dim.dim_param if kind == "dim_param" and dim.dim_param not in ("", "?") else None


def steps_of(
    nodes: Any, scope: Scope, known: set[str], constants: dict[str, NDArray[Any]], loaded: int
) -> tuple[tuple[Step, ...], int]:
    """The nodes, ready to run, and the bytes of all constants with theirs.

    ``known`` gains the names that they define. A Constant node is no step: its value joins ``constants``.
    """
    later = {name for proto in nodes for name in proto.output if name}
    steps = []
    scope.built[0] += len(nodes)
    if scope.built[0] > _MOST_NODES:
        raise ModelError("model", "nodes", f"there may be {_MOST_NODES}, those of called functions included", "O4")
    for position, proto in enumerate(nodes):
        node = Node(proto, position, scope.opset, scope.limit, scope.folder, loaded)
        _check_names(node, known, later)
        node.read_graph = lambda graph, node=node: _subgraph(graph, scope.inner(node.label), known, node)
        function = build(node, proto, scope)
        if node.operator == "Constant" and proto.domain in _STANDARD:
            constants[node.outputs[0]] = function()
        else:
            steps.append(Step(node, function))
        loaded = node.loaded
        known.update(name for name in node.outputs if name)
    return tuple(steps), loaded


def _subgraph(graph: onnx.GraphProto, scope: Scope, outer: set[str], node: Node) -> Subgraph:
    """A graph attribute; names of the surrounding graph may be used in it, and not be computed a second time.

    Its inputs and constants may have names of the surrounding graph, which they hide: exporters write such loops.
    """
    constants = constants_of(graph, scope, node.loaded)
    node.loaded += sum(array.nbytes for array in constants.values())
    inputs = tuple(value.name for value in graph.input if value.name not in constants)
    own = [*constants, *inputs]
    if len(set(own)) != len(own):
        raise node.refusal(f"names {own} of a subgraph", "every name must be defined once", "O4")
    return _closed(graph.node, inputs, constants, tuple(v.name for v in graph.output), scope, outer - set(own), node)


def _closed(
    nodes: Any,
    inputs: tuple[str, ...],
    constants: dict[str, NDArray[Any]],
    outputs: tuple[str, ...],
    scope: Scope,
    outer: set[str],
    node: Node,
) -> Subgraph:
    own = {*constants, *inputs}
    known = outer | own
    steps, node.loaded = steps_of(nodes, scope, known, constants, node.loaded)
    made = own.union(constants).union(*(step.node.outputs for step in steps))
    used = [name for step in steps for name in (*step.node.inputs, *step.node.captured)] + list(outputs)
    captured = tuple(dict.fromkeys(name for name in used if name and name not in made))
    for name in captured:
        if name not in outer:
            raise node.refusal(f"output {name!r} of a subgraph", "is not computed by any node", "O4")
    return Subgraph(inputs, captured, constants, steps, outputs)


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


def build(node: Node, proto: onnx.NodeProto, scope: Scope) -> Callable[..., Any]:
    """The function of a node, or the error that names the node, and the attribute if one is at fault."""
    function = scope.functions.get((proto.domain, proto.op_type))
    if function is not None:
        return _call(node, proto, function, scope)
    if proto.domain == "com.microsoft" and node.operator in scope.contributed:
        return _contributed(node, scope.contributed[node.operator])
    operators = scope.operators
    if proto.domain in _STANDARD and node.operator not in operators and scope.contributed:
        defined = _definition(node)
        if defined is not None:
            _check_counts(node)
            return _call(node, proto, defined, scope)
    if proto.domain not in _STANDARD or node.operator not in operators:
        domain = f" of domain {proto.domain!r}" if proto.domain else ""
        known = ", ".join(sorted(operators))
        raise node.refusal(f"operator {node.operator!r}{domain}", f"is not computed; these are: {known}", "O2")
    _check_counts(node)
    return _built(node, operators[node.operator])


def _built(node: Node, builder: Builder) -> Callable[..., Any]:
    try:
        run = builder(node)
    except ModelError:
        raise
    except HalfulpError as error:
        raise node.refusal(error.argument, f"{error.rule} [{error.label}]") from error
    node.check_all_read()
    return run


def _contributed(node: Node, entry: Contributed) -> Callable[..., Any]:
    """An operator of another domain, whose schema ONNX does not have."""
    for what, names, least, most in (
        ("inputs", node.inputs, entry.least, entry.most),
        ("outputs", node.outputs, 1, entry.outputs),
    ):
        if not least <= len(names) <= most or not all(names[:least]):
            raise node.refusal(f"{what}={names}", f"there must be from {least} to {most}", "O9")
    return _built(node, entry.builder)


def _check_counts(node: Node) -> None:
    """As many inputs and outputs as the operator's schema of this version takes."""
    try:
        schema = onnx.defs.get_schema(node.operator, node.opset)
    except onnx.defs.SchemaError as error:
        raise node.refusal(f"operator {node.operator!r}", f"is not in operator set {node.opset}", "O2") from error
    for what, names, least, most in (
        ("inputs", node.inputs, schema.min_input, schema.max_input),
        ("outputs", node.outputs, schema.min_output, schema.max_output),
    ):
        if not least <= len(names) <= most or (what == "outputs" and not all(names[:least])):
            raise node.refusal(f"{what}={names}", f"there must be from {least} to {most}", "O9")
    for position, name in enumerate(node.inputs):
        declared = schema.inputs[min(position, len(schema.inputs) - 1)]
        if not name and declared.option != onnx.defs.OpSchema.FormalParameterOption.Optional:
            raise node.refusal(f"inputs={node.inputs}", f"input {position} ({declared.name}) must be given", "O9")


# Functions of the model -----------------------------------------------------------------------------------------------


def _call(node: Node, proto: onnx.NodeProto, function: onnx.FunctionProto, scope: Scope) -> Callable[..., Any]:
    """A function of the model: its body, with this call's attributes in it."""
    from halfulp.onnx._running import run_subgraph

    key = (function.domain, function.name)
    if key in scope.calls:
        raise node.refusal(f"function {function.name!r}", "calls itself", "O4")
    if len(node.inputs) > len(function.input) or len(node.outputs) > len(function.output):
        counts = f"{len(function.input)} inputs and {len(function.output)} outputs"
        raise node.refusal(f"inputs={node.inputs}, outputs={node.outputs}", f"there may be {counts}", "O9")
    inner = replace(
        scope.inner(node.label), opset=opset_of(function.opset_import, scope.opset), calls=(*scope.calls, key)
    )
    given = {attribute.name: attribute for attribute in function.attribute_proto}
    given |= {attribute.name: attribute for attribute in proto.attribute}
    unknown = set(given) - {*function.attribute, *(a.name for a in function.attribute_proto)}
    if unknown:
        raise node.refusal(min(unknown), f"is not an attribute of the function {function.name!r}")
    body = [_with_attributes(inner_node, given) for inner_node in function.node]
    program = _closed(body, tuple(function.input), {}, tuple(function.output), inner, set(), node)
    missing = (None,) * (len(function.input) - len(node.inputs))
    return lambda *inputs: run_subgraph(node, program, (*inputs, *missing), ())[: len(node.outputs)]


def _definition(node: Node) -> onnx.FunctionProto | None:
    """ONNX's own definition of an operator by other nodes, if it has one that does not depend on types."""
    try:
        schema: Any = onnx.defs.get_schema(node.operator, node.opset)
    except (onnx.defs.SchemaError, TypeError):  # of a name that is no text
        return None
    if not schema.has_function:
        return None
    function = onnx.FunctionProto()
    function.CopyFrom(schema.function_body)
    function.domain = "ONNX's definitions"
    named = {attribute.name for attribute in function.attribute_proto}
    for name, attribute in schema.attributes.items():
        if attribute.default_value.name and name not in named:
            function.attribute_proto.add().CopyFrom(attribute.default_value)
            if name in function.attribute:
                function.attribute.remove(name)
    return function


def _with_attributes(proto: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto]) -> onnx.NodeProto:
    """A node of a function's body, references to the function's attributes replaced by what the call gives."""
    node = onnx.NodeProto()
    node.CopyFrom(proto)
    del node.attribute[:]
    for attribute in proto.attribute:
        if attribute.ref_attr_name:
            value = given.get(attribute.ref_attr_name)
            if value is None:  # the call leaves it out, so the inner node has it not
                continue
            filled = node.attribute.add()
            filled.CopyFrom(value)
            filled.name = attribute.name
        else:
            filled = node.attribute.add()
            filled.CopyFrom(attribute)
            if filled.HasField("g"):
                nodes = [_with_attributes(inner, given) for inner in filled.g.node]
                del filled.g.node[:]
                filled.g.node.extend(nodes)
    return node


def opset_of(imports: Any, default: int | None, oldest: int = 1) -> int:
    """The version of the standard operator set that a model or function names."""
    versions = [entry.version for entry in imports if entry.domain in _STANDARD]
    newest = onnx.defs.onnx_opset_version()
    if not versions and default is not None:
        return default
    if len(versions) != 1 or not oldest <= versions[0] <= newest:
        rule = f"must name one version of the operator set from {oldest} to {newest}"
        raise ModelError("model", f"opset_import={versions}", rule, "O1")
    return int(versions[0])
