"""A node of the tape, and the structure that makes extending a tape cost O(1) without copying or sharing a buffer.

Every node knows the one before it and one further back (``jump``), chosen so that the jumps form a skew binary tree:
any earlier node is found in O(log n) steps, and appending touches nothing that exists. So two tapes can grow from the
same ancestor, in two threads, and a branch that is dropped is freed.
"""

from __future__ import annotations

from typing import Any

from halfulp.autograd.operators._base import PullbackRule
from halfulp.autograd.scalars import Kind


class Node:
    """One value on the tape, and how to pull a cotangent back through it.

    ``parents`` are the ids of the inputs; ``operator`` and ``pullback`` are None for a leaf, and ``pullback`` also
    where no input requires a gradient.

    >>> import numpy as np, halfulp as hu
    >>> tape, x = hu.Tape().leaf(np.array([1.0, 2.0]), name="x")
    >>> tape, y = tape.mul(x, x)
    >>> tape.nodes[y]
    Node(1, 'mul', shape=(2,), parents=(0, 0))
    """

    __slots__ = (
        "_jump",
        "_previous",
        "id",
        "kind",
        "name",
        "operator",
        "parents",
        "pullback",
        "requires_grad",
        "value",
    )

    def __init__(
        self,
        id: int,
        name: str,
        value: Any,
        parents: tuple[int, ...],
        requires_grad: bool,
        operator: Any,
        pullback: PullbackRule | None,
        kind: Kind,
        previous: Node | None,
    ) -> None:
        self.id = id
        self.name = name
        self.value = value
        self.parents = parents
        self.requires_grad = requires_grad
        self.operator = operator
        self.pullback = pullback
        self.kind = kind
        self._previous = previous
        self._jump = previous if previous is None else _jump_after(previous)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return tuple(self.value.shape)

    def __repr__(self) -> str:
        return f"Node({self.id}, {self.name!r}, shape={self.shape}, parents={self.parents})"


def _jump_after(previous: Node) -> Node:
    """Where the node after ``previous`` jumps: over two equal jumps if the last two were equal, else just back."""
    near = previous._jump
    if near is None:
        return previous
    far = near._jump
    if far is not None and previous.id - near.id == near.id - far.id:
        return far
    return previous


def ancestor(node: Node, id: int) -> Node:
    """The node with position ``id`` at or before ``node``."""
    while node.id > id:
        jump = node._jump
        node = jump if jump is not None and jump.id >= id else node._previous  # type: ignore[assignment]
    return node


def history(last: Node | None) -> list[Node]:
    """All nodes up to ``last``, oldest first."""
    nodes = []
    while last is not None:
        nodes.append(last)
        last = last._previous
    nodes.reverse()
    return nodes
