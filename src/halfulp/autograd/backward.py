"""The reverse sweep over recorded nodes, without recursion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from halfulp.autograd.node import Node
from halfulp.autograd.operators.arithmetic import add


def sweep(nodes: Sequence[Node], cotangents: dict[int, Any], last: int, consume: bool = False) -> dict[int, Any]:
    """Pull cotangents back from node ``last`` to node 0, adding to ``cotangents`` an entry for every node reached.

    Where several consumers meet in a node, their cotangents are added one after the other: the latest consumer's first,
    and within a consumer in the order of its inputs. This order is part of the contract: it fixes every bit of a float
    result. With ``consume`` a pullback and its cotangent are dropped as soon as they have been used.
    """
    for position in range(last, -1, -1):
        node = nodes[position]
        pullback = node.pullback
        if pullback is None or position not in cotangents:
            continue
        if consume:
            node.pullback = None
            arriving = cotangents.pop(position)
        else:
            arriving = cotangents[position]
        for parent, share in zip(node.parents, pullback(arriving), strict=False):
            if parent < 0 or share is None or not nodes[parent].requires_grad:
                continue
            known = cotangents.get(parent)
            cotangents[parent] = share if known is None else add(known, share)
    return cotangents
