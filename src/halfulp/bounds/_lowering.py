"""The networks under construction, and the register of how operators become nodes. Others are refused by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from halfulp.bounds._maps import Array, Gather, Shape
from halfulp.bounds._network import Network, Node
from halfulp.errors import ModelError

Ids: TypeAlias = Sequence[int | None]
Lowering: TypeAlias = Callable[["Builder", Any, Ids, list[Any], Any], int]

LOWERINGS: dict[type, Lowering] = {}
"""Type of an operator -> the function that adds its nodes and gives the id of the last."""


def supported() -> str:
    """The operators that can be bounded, by name."""
    return ", ".join(sorted({_name(kind) for kind in LOWERINGS}))


def _name(kind: Any) -> str:
    name = getattr(kind, "base_name", None) or getattr(kind, "name", None)
    return name if isinstance(name, str) else str(kind.__name__)


class Builder:
    """A network under construction."""

    def __init__(self, owner: str, input_shape: Shape, dtype: np.dtype[Any]) -> None:
        self.owner, self.dtype = owner, dtype
        self.nodes = [Node("input", "input", (), input_shape)]
        self.label = ""
        """Name of the ONNX or torch node that is being read, for messages."""

    def refusal(self, argument: str, rule: str) -> ModelError:
        """The error of a node that cannot be part of a network."""
        where = f"node {self.label.removeprefix('node ')}: " if self.label else ""
        return ModelError(self.owner, f"{where}{argument}", rule, "V3")

    def add(self, name: str, kind: str, inputs: Sequence[int], shape: Shape, **fields: Any) -> int:
        """Append a node and give its id."""
        self.nodes.append(Node(name, kind, tuple(inputs), tuple(int(n) for n in shape), **fields))
        return len(self.nodes) - 1

    def gather(self, name: str, source: int, index: Array, sign: int = 1) -> int:
        """Append a node that moves cells."""
        return self.add(name, "affine", [source], index.shape, maps=(Gather(index, self.nodes[source].shape, sign),))

    def positions(self, source: int) -> Array:
        """The flat position of every cell of a node, in its shape."""
        found = self.nodes[source].shape
        return np.arange(math.prod(found), dtype=np.int64).reshape(found)

    def constant(self, value: Any, argument: str) -> Array:
        """A constant as float64, which holds every number of the four formats."""
        array = np.asarray(value).astype(np.float64)
        if not np.isfinite(array).all():
            raise self.refusal(argument, "must be finite numbers")
        return array

    def finish(self, output: int) -> Network:
        """The network up to a node, without the nodes that it does not need."""
        needed = {output}
        for position in range(output, 0, -1):
            if position in needed:
                needed.update(self.nodes[position].inputs)
        order = sorted(needed | {0})
        place = {old: new for new, old in enumerate(order)}
        nodes = []
        for old in order:
            node = self.nodes[old]
            fields = {name: getattr(node, name) for name in node.__dataclass_fields__}
            nodes.append(Node(**{**fields, "inputs": tuple(place[i] for i in node.inputs)}))
        return Network(tuple(nodes), place[output], self.dtype)


def lowering(*kinds: type) -> Callable[[Lowering], Lowering]:
    """Register a function for some types of operators."""

    def register(function: Lowering) -> Lowering:
        for kind in kinds:
            LOWERINGS[kind] = function
        return function

    return register


def refuse_dtype(builder: Builder, op: Any) -> None:
    """A network has one element type; ``nan`` does not matter, because no value of a bounded network is NaN."""
    if getattr(op, "dtype", None) not in (None, "same"):
        raise builder.refusal(f"{op.name} dtype={op.dtype!r}", "must be None or 'same': a network has one element type")


def only_input(ids: Ids) -> int:
    """The node that an operator of one input is applied to."""
    return known_input(ids[0])


def known_input(given: int | None) -> int:
    """A node that is there."""
    if given is None:
        raise AssertionError("an operator of one input is applied to a traced value")
    return given
