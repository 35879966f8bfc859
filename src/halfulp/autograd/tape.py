"""The tape: an immutable sequence of nodes that grows by making a longer tape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from halfulp.autograd import check, inspection, picture, rules
from halfulp.autograd.backward import sweep
from halfulp.autograd.builders import Builders
from halfulp.autograd.node import Node
from halfulp.autograd.operators._base import TapeOperator
from halfulp.autograd.persistent import Persistent
from halfulp.autograd.scalars import (
    Array,
    Kind,
    Unknown,
    as_array,
    full,
    is_differentiable,
    kind_name,
    kind_of,
    leaf_value,
)
from halfulp.autograd.traced import Traced
from halfulp.errors import DTypeError, ShapeError, TapeError
from halfulp.records import Operator


class Tape(Builders):
    """A recorded computation: leaves, the operations on them, and everything needed to differentiate it.

    Each operation appends one node and gives a new tape and the node's id; the old tape stays as it was and can be
    extended in another direction. Appending copies nothing.

    >>> import numpy as np, halfulp as hu
    >>> tape, x = hu.Tape().leaf(np.array([[1.0, 4.0], [2.0, 3.0]]), name="x")
    >>> tape, y = tape.max_pool2d(x, 2)
    >>> tape, loss = tape.sum(y)
    >>> tape.backward(loss)[x]
    array([[0., 1.],
           [0., 0.]])
    """

    __slots__ = ("_nodes",)

    def __init__(self) -> None:
        self._nodes: Persistent[Node] = Persistent()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, oldest first: a node's id is its position.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.zeros(3), name="x")
        >>> tape.nodes
        (Node(0, 'x', shape=(3,), parents=()),)
        """
        return tuple(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def node(self, id: int) -> Node:
        """The node with this id.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.zeros(3))
        >>> tape.node(x).shape
        (3,)
        """
        if (type(id) is not int and not isinstance(id, np.integer)) or not 0 <= id < self._nodes.size:
            raise TapeError(
                "tape", f"id={id!r}", f"must be the position of one of the {len(self)} nodes of this tape", "E1"
            )
        return self._nodes[id]

    def value(self, id: int) -> Array:
        """The value of a node.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([1.0]))
        >>> tape.value(x)
        array([1.])
        """
        return self.node(id).value  # type: ignore[no-any-return]

    def leaf(self, value: Any, name: str | None = None, requires_grad: bool = True) -> tuple[Tape, int]:
        """Append an input. Do not change the array afterwards.

        Integers and truth values have no derivative; they are leaves with ``requires_grad=False``.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([1.0, 2.0]), name="x")
        >>> (len(tape), x)
        (1, 0)
        """
        if isinstance(value, Traced):
            raise TapeError("tape.leaf", f"value={value!r}", "must be an array, not a traced value", "E6")
        array, kind = leaf_value("tape.leaf", value)
        if requires_grad and not is_differentiable(kind):
            raise DTypeError(
                "tape.leaf",
                f"value dtype={kind_name(kind)}",
                "has no derivative; use astype(float) or requires_grad=False",
                "I1",
            )
        return self._extended(name or "leaf", array, (), requires_grad, None, None, kind)

    def apply(self, operator: Any, *ids: int | None, name: str | None = None) -> tuple[Tape, int]:
        """Append the value of any operator with the forward/JVP/VJP triple; an id of None is an absent input.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([3.0, 1.0, 2.0]))
        >>> tape, y = tape.apply(hu.MaxPool((3,)), x)
        >>> tape.value(y)
        array([3.])
        """
        parents: list[int] = []
        values: list[Any] = []
        needs: list[bool] = []
        kind: Kind = None
        nodes = self._nodes
        size = nodes.size
        constant = len(getattr(operator, "constants", ()))  # they come last, and are of kinds of their own
        for id in ids:
            if id is None:
                values.append(None)
                needs.append(False)
                continue
            node = nodes[id] if type(id) is int and 0 <= id < size else self.node(id)
            parents.append(node.id)
            values.append(node.value)
            needs.append(node.requires_grad)
            if kind is None or kind is Unknown:
                kind = node.kind
            elif kind is not node.kind and kind != node.kind and node.kind is not Unknown:
                if len(values) > len(ids) - constant:
                    continue
                raise _mixed(operator, kind, node.kind)
        if None in ids:
            _check_absent(operator, ids, len(parents))
        requires_grad = True in needs
        output, pullback = _evaluate(operator, values, needs, requires_grad)
        name = name or rules.name_of(operator)
        return self._extended(name, output, tuple(parents), requires_grad, operator, pullback, kind_of(output))

    def _extended(
        self,
        name: str,
        value: Array,
        parents: tuple[int, ...],
        requires_grad: bool,
        operator: Any,
        pullback: Any,
        kind: Kind,
    ) -> tuple[Tape, int]:
        nodes = self._nodes
        id = nodes.size
        longer = Tape.__new__(Tape)
        longer._nodes = nodes.append(Node(id, name, value, parents, requires_grad, operator, pullback, kind))
        return longer, id

    def backward(self, output: int, cotangent: Any = None) -> dict[int, Array]:
        """The cotangent of every node that ``output`` depends on and that requires a gradient.

        The cotangent of a scalar output may be omitted; it is 1. If a node is used several times, the
        cotangents of its uses are added one after the other, the latest use first. Nodes may share an array: read the
        results, do not write into them.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array(3.0))
        >>> tape, y = tape.mul(x, x)
        >>> tape.backward(y)
        {1: array(1.), 0: array(6.)}
        """
        node = self.node(output)
        if cotangent is None:
            if node.value.size != 1:
                raise TapeError(
                    "tape.backward",
                    f"output={output} of shape {node.shape}",
                    "needs a cotangent; only a scalar output can omit it",
                    "E4",
                )
            cotangent = full(node.shape, node.value, 1)
        else:
            cotangent = _fitting("tape.backward", "cotangent", cotangent, node)
        if not node.requires_grad:
            return {}
        return sweep(self._nodes.upto(node.id + 1), {node.id: cotangent}, node.id)

    def jvp(self, output: int, tangents: Mapping[int, Any]) -> Array:
        """The tangent of ``output`` for the tangents of leaves, a mapping from leaf id to tangent.

        Leaves without an entry have the tangent 0.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array(3.0))
        >>> tape, y = tape.mul(x, x)
        >>> tape.jvp(y, {x: np.array(1.0)})
        array(6.)
        """
        last = self.node(output)
        nodes = self._nodes.upto(last.id + 1)
        moving: dict[int, Any] = {}
        for id, tangent in tangents.items():
            node = self.node(id)
            if node.operator is not None:
                raise TapeError(
                    "tape.jvp", f"tangent of node {id} ({node.name!r})", "only leaves can be given a tangent", "E3"
                )
            moving[node.id] = _fitting("tape.jvp", f"tangent of node {id}", tangent, node)
        for node in nodes:
            if node.operator is None or not any(parent in moving for parent in node.parents):
                continue
            primals = [nodes[parent].value for parent in node.parents]
            directions = [moving.get(parent) for parent in node.parents]
            _, tangent = rules.jvp(node.operator, primals, directions)
            if tangent is not None:
                moving[node.id] = tangent
        found = moving.get(last.id)
        return full(last.shape, last.value, 0) if found is None else as_array(found)

    def check(self, seed: int = 0) -> None:
        """Check every node's derivatives exactly, without finite differences; a TapeError names the first bad node.

        Each node's inputs are lifted to exact rationals, or to balls where an operator is transcendental, and with
        random integer tangents t and cotangents g the identity <g, JVP t> = <VJP g, t> must hold exactly. The float
        pullback that the tape recorded must agree with the exact one: to the bit for correctly rounded operators.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.array([1.0, 2.0]))
        >>> tape, y = tape.tanh(x)
        >>> tape.check()
        """
        check.check(self.nodes, seed)

    def to_dot(self) -> str:
        """The tape as a graph in the DOT language of Graphviz.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.zeros(2), name="x")
        >>> print(tape.to_dot())
        digraph tape {
          rankdir=LR;
          node [shape=box, fontname="sans-serif"];
          0 [label="0: x\\n(2,) float64", style=filled, fillcolor="#e8f1fa"];
        }
        """
        return inspection.to_dot(self.nodes)

    def to_svg(self, gradients: Mapping[int, Any] | None = None) -> str:
        """A picture of the tape with names, shapes and, where ``gradients`` has them, the norms of the gradients.

        >>> import numpy as np, halfulp as hu
        >>> tape, x = hu.Tape().leaf(np.zeros(2), name="x")
        >>> tape.to_svg().startswith("<svg")
        True
        """
        return picture.to_svg(self.nodes, gradients or {})

    def _repr_svg_(self) -> str:
        last = self._nodes[len(self) - 1] if len(self) else None
        known = self.backward(last.id) if last is not None and last.value.size == 1 and last.requires_grad else {}
        return self.to_svg(known)

    def __str__(self) -> str:
        return inspection.table(self.nodes)

    def __repr__(self) -> str:
        return f"Tape with {len(self)} nodes"


def _evaluate(operator: Any, values: list[Any], needs: list[bool], requires_grad: bool) -> tuple[Array, Any]:
    """The value and, if a gradient is wanted, the pullback; shapes that do not fit are the tape's error."""
    try:
        if requires_grad:
            output, pullback = rules.vjp(operator, values, needs)
        else:
            if not isinstance(operator, TapeOperator):
                rules.check_triple(operator)
            output, pullback = operator(*values), None
    except ShapeError as error:
        shapes = ", ".join(str(v.shape) for v in values if v is not None)
        raise TapeError(f"tape.{rules.name_of(operator)}", f"input shapes={shapes}", str(error), "E2") from error
    return (output if isinstance(output, np.ndarray) else as_array(output)), pullback


def _check_absent(operator: Any, ids: tuple[int | None, ...], present: int) -> None:
    """Only a bias may be absent; another library's operator says itself what may, but its first input."""
    name = f"tape.{rules.name_of(operator)}"
    if any(id is not None for id in ids[present:]):
        raise TapeError(name, f"ids={ids}", "only the last inputs may be absent", "E1")
    if isinstance(operator, TapeOperator):
        least = len(ids) - operator.takes_bias
    else:
        least = (operator.required or min(2, operator.arity)) if isinstance(operator, Operator) else 1
    if present < least:
        rule = "must be the positions of nodes of this tape; only a bias may be None"
        raise TapeError(name, f"ids={ids}", rule, "E1")


def _meet(first: Kind, second: Kind) -> bool:
    """Whether two different kinds are both known, so that their meeting is a mistake."""
    return first is not Unknown and second is not Unknown


def _mixed(operator: Any, first: Kind, second: Kind) -> TapeError:
    return TapeError(
        f"tape.{rules.name_of(operator)}",
        f"inputs of kinds {kind_name(first)} and {kind_name(second)}",
        "all inputs must be of one kind; convert with astype, hu.exact or hu.rounded",
        "E5",
    )


def _fitting(operator: str, what: str, given: Any, node: Node) -> Array:
    """A tangent or cotangent with the node's shape and kind."""
    array, kind = leaf_value(operator, given)
    if array.shape != node.shape:
        raise TapeError(operator, f"{what} shape={array.shape}", f"must be {node.shape}, as the node's value", "E3")
    if kind != node.kind and _meet(kind, node.kind):
        raise TapeError(
            operator, f"{what} of kind {kind_name(kind)}", f"must be {kind_name(node.kind)}, as the node's value", "E3"
        )
    return array
