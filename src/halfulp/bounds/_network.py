"""A network as data: nodes in topological order, each an input, an affine map, a maximum or a curve."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from halfulp.bounds._maps import Array, Map, Shape
from halfulp.errors import ModelError
from halfulp.numbers import exact
from halfulp.records import Operator


@dataclass(frozen=True, eq=False)
class Node:
    """One value of a network.

    ``kind`` is ``"input"``, ``"affine"`` (the sum of ``maps`` of the inputs plus ``bias``), ``"max"`` and ``"smooth"``
    (over the cells ``index`` of the one input, -1 where a window has fewer), ``"rank"`` (a median or mode over such
    cells), ``"curve"`` (a function of one number)
    or ``"product"`` (of two inputs). ``operator`` with ``constants`` is the operation that halfulp runs: None among the
    constants stands for an input. A node without an operator moves numbers and rounds nothing.
    """

    name: str
    kind: str
    inputs: tuple[int, ...]
    shape: Shape
    maps: tuple[Map, ...] = ()
    bias: Array | None = None
    index: Array | None = None
    padded: Array | None = None
    function: str = ""
    parameters: tuple[float, ...] = ()
    operator: Any = None
    constants: tuple[Any, ...] = ()
    roundings: int = 0
    """How many roundings a term of the sum meets at most, in any order of evaluation."""
    spread: Array | None = None
    """Set where the true coefficients are not floats: |true - (maps + bias)| <= 2**-50 (|maps| |x| + spread)."""

    def run(self, *inputs: Any) -> Any:
        """The value that halfulp computes, on floats of one dtype or on exact numbers."""
        if self.operator is None:
            total = sum(m.forward(x[None])[0] for m, x in zip(self.maps, inputs, strict=True))
            return total if self.bias is None else total + _like(self.bias, inputs[0])
        given = iter(inputs)
        values = [next(given) if c is None else c if c is ABSENT else _like(c, inputs[0]) for c in self.constants]
        return self.operator(*[None if v is ABSENT else v for v in values])

    def __repr__(self) -> str:
        return f"Node({self.name!r}, {self.kind}, shape={self.shape}, inputs={self.inputs})"


class _Absent:
    """An optional input that an operator did not get."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()


def _like(constant: Any, value: Any) -> Any:
    """A constant in the kind of number of ``value``."""
    if value.dtype == object:
        return constant if constant.dtype == object else exact(constant)
    return constant.astype(value.dtype, copy=False)


@dataclass(frozen=True, eq=False)
class Network:
    """A network with one input and one output, made by :func:`load`, :func:`from_function` or :func:`from_torch`.

    It is callable: on arrays of its dtype it computes what halfulp computes, on exact rationals the exact value.

    >>> import numpy as np, halfulp.bounds as hb
    >>> from halfulp import ops
    >>> network = hb.from_function(lambda x: ops.relu(x - 1.0), (2,))
    >>> network
    Network(float32 (2,) -> (2,); 3 nodes: input, sub, relu)
    >>> network(np.array([0.0, 3.0], dtype=np.float32))
    array([0., 2.], dtype=float32)
    """

    nodes: tuple[Node, ...]
    output: int
    dtype: np.dtype[Any]

    @property
    def input_shape(self) -> Shape:
        """The shape of the input."""
        return self.nodes[0].shape

    @property
    def output_shape(self) -> Shape:
        """The shape of the output."""
        return self.nodes[self.output].shape

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __call__(self, x: Any) -> Any:
        """The output for one input."""
        return self.values(x)[self.output]

    def values(self, x: Any) -> list[Any]:
        """The value of every node."""
        array = np.asarray(x)
        if array.shape != self.input_shape:
            raise ModelError("network", f"input shape={array.shape}", f"must be {self.input_shape}", "V2")
        if array.dtype != object:
            array = array.astype(self.dtype)
        values: list[Any] = [array]
        for node in self.nodes[1:]:
            values.append(node.run(*(values[i] for i in node.inputs)))
        return values

    def digest(self) -> str:
        """A SHA-256 sum over everything that determines the function."""
        total = hashlib.sha256()
        for part in ("halfulp network 1", str(self.dtype), self.output, *self._parts()):
            if isinstance(part, np.ndarray):
                total.update(f"{part.dtype.str}{part.shape}".encode())
                total.update(np.ascontiguousarray(part).tobytes())
            else:
                total.update(repr(part).encode())
            total.update(b"\0")
        return total.hexdigest()

    def _parts(self) -> Iterator[Any]:
        for node in self.nodes:
            yield from (node.kind, node.inputs, node.shape, node.function, node.parameters, node.roundings)
            yield repr(node.operator) if isinstance(node.operator, Operator) else type(node.operator).__name__
            for linear in node.maps:
                yield from linear.fields()
            for array in (node.bias, node.index, node.padded, node.spread):
                yield "none" if array is None else array

    def __repr__(self) -> str:
        names = ", ".join(node.name for node in self.nodes[:8]) + (", …" if len(self.nodes) > 8 else "")
        shapes = f"{self.dtype} {self.input_shape} -> {self.output_shape}"
        return f"Network({shapes}; {len(self.nodes)} nodes: {names})"
