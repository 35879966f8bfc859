"""One node of a model as the operators see it: its attributes by name and type, and errors that name it."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import AttributeProto, GraphProto, NodeProto

from halfulp.errors import ModelError
from halfulp.onnx._memory import in_use
from halfulp.onnx._tensors import array_of, check_size

_KINDS = {
    "int": (AttributeProto.INT, "i"),
    "float": (AttributeProto.FLOAT, "f"),
    "string": (AttributeProto.STRING, "s"),
    "ints": (AttributeProto.INTS, "ints"),
    "floats": (AttributeProto.FLOATS, "floats"),
    "strings": (AttributeProto.STRINGS, "strings"),
    "tensor": (AttributeProto.TENSOR, "t"),
    "graph": (AttributeProto.GRAPH, "g"),
}


class Node:
    """A node while its operator is built. Every attribute must be read; one that is left over is refused."""

    def __init__(
        self, proto: NodeProto, position: int, opset: int, limit: int, folder: Path | None = None, loaded: int = 0
    ) -> None:
        self.operator = proto.op_type
        self.label = f"node {proto.name!r} ({proto.op_type})" if proto.name else f"node {position} ({proto.op_type})"
        self.position = position
        self.opset = opset
        self.limit = limit
        self.inputs = list(proto.input)
        self.outputs = list(proto.output)
        self.captured: list[str] = []
        """Values of the surrounding graph that the subgraphs of this node use; they are passed after the inputs."""
        self.read_graph: Callable[[GraphProto], Any] | None = None
        self._folder = folder
        self.loaded = loaded
        self._unread: dict[str, AttributeProto] = {}
        for attribute in proto.attribute:
            if attribute.name in self._unread:
                raise self.refusal(attribute.name, "is given twice")
            self._unread[attribute.name] = attribute

    def refusal(self, argument: str, rule: str, label: str = "O3") -> ModelError:
        """The error that names this node."""
        return ModelError(self.label, argument, rule, label)

    def has(self, name: str) -> bool:
        """Whether the attribute is given and not read yet."""
        return name in self._unread

    def _take(self, name: str, kind: str, default: Any) -> Any:
        attribute = self._unread.pop(name, None)
        if attribute is None:
            return default
        code, field = _KINDS[kind]
        if attribute.type != code or attribute.ref_attr_name:
            raise self.refusal(name, f"must be of type {kind}")
        return getattr(attribute, field)

    def integer(self, name: str, default: int) -> int:
        """An integer attribute."""
        return int(self._take(name, "int", default))

    def flag(self, name: str, default: int = 0) -> bool:
        """An integer attribute that is 0 or 1."""
        value = self.integer(name, default)
        if value not in (0, 1):
            raise self.refusal(f"{name}={value}", "must be 0 or 1")
        return bool(value)

    def number(self, name: str, default: float) -> float:
        """A float attribute."""
        return float(self._take(name, "float", default))

    def text(self, name: str, default: str) -> str:
        """A string attribute."""
        value = self._take(name, "string", default.encode())
        try:
            return str(value.decode())
        except UnicodeDecodeError as error:
            raise self.refusal(name, "is not text") from error

    def texts(self, name: str) -> tuple[str, ...] | None:
        """A list of strings, or None if it is not given."""
        value = self._take(name, "strings", None)
        try:
            return None if value is None else tuple(item.decode() for item in value)
        except UnicodeDecodeError as error:
            raise self.refusal(name, "is not text") from error

    def integers(self, name: str) -> tuple[int, ...] | None:
        """A list of integers, or None if it is not given."""
        value = self._take(name, "ints", None)
        return None if value is None else tuple(int(item) for item in value)

    def numbers(self, name: str) -> tuple[float, ...] | None:
        """A list of floats, or None if it is not given."""
        value = self._take(name, "floats", None)
        return None if value is None else tuple(float(item) for item in value)

    def tensor(self, name: str) -> NDArray[Any]:
        """A tensor attribute."""
        value = self._take(name, "tensor", None)
        if value is None:
            raise self.refusal(name, "must be given")
        array = array_of(value, self._folder, self.limit, self.label, self.loaded)
        self.loaded += array.nbytes
        return array

    def subgraph(self, name: str) -> Any:
        """A graph attribute as a program; what it takes from the surrounding graph is added to ``captured``."""
        value = self._take(name, "graph", None)
        if value is None or self.read_graph is None:
            raise self.refusal(name, "must be given")
        program = self.read_graph(value)
        self.captured += [outer for outer in program.captured if outer not in self.captured]
        return program

    def check_all_read(self) -> None:
        """Refuse what no operator has asked for: an unknown attribute may change the meaning."""
        for name in self._unread:
            raise self.refusal(name, f"is not an attribute of {self.operator} that halfulp computes")

    def fits(self, shape: tuple[int, ...], like: Any, scratch: int = 0) -> None:
        """Refuse an output for which the limit leaves no room before it is made.

        ``scratch`` is what the operator needs besides, in bytes per element of the output.
        """
        dtype = like.dtype
        if dtype.hasobject or prod(shape) * (dtype.itemsize + scratch) + in_use.get() > self.limit or len(shape) > 32:
            check_size(self.label, "output", shape, np.dtype(dtype), self.limit, in_use.get(), scratch)

    def same_types(self, *values: Any) -> None:
        """All inputs of one element type: NumPy would promote, ONNX does not."""
        first = values[0].dtype
        for value in values:
            if value is not None and value.dtype is not first and value.dtype != first:
                types = sorted({str(v.dtype) for v in values if v is not None})
                raise self.refusal(f"element types {types}", "must be one type", "O9")

    def concrete(self, value: Any, argument: str) -> NDArray[np.int64]:
        """An integer input that decides a shape."""
        if not isinstance(value, np.ndarray) or value.dtype not in (np.int64, np.int32) or value.ndim != 1:
            raise self.refusal(argument, "must be a vector of integers", "O9")
        return value.astype(np.int64)
