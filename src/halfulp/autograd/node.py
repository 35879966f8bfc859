"""A node of the tape."""

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

    __slots__ = ("id", "kind", "name", "operator", "parents", "pullback", "requires_grad", "value")

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
    ) -> None:
        self.id = id
        self.name = name
        self.value = value
        self.parents = parents
        self.requires_grad = requires_grad
        self.operator = operator
        self.pullback = pullback
        self.kind = kind

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return tuple(self.value.shape)

    def __repr__(self) -> str:
        return f"Node({self.id}, {self.name!r}, shape={self.shape}, parents={self.parents})"
