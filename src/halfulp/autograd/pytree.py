"""Nested structures of arrays: flatten them to a list of leaves, and build the same structure around other leaves.

Dictionaries (in the order of their keys' insertion), lists, tuples, named tuples and dataclasses are structure;
``None`` is an empty structure; everything else is a leaf.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Builder: TypeAlias = Callable[[Sequence[Any]], Any]


def flatten(tree: Any) -> tuple[list[Any], Builder]:
    """The leaves of a structure, and a function that builds the structure from as many new leaves.

    >>> leaves, build = flatten({"w": 1, "b": (2, None)})
    >>> leaves
    [1, 2]
    >>> build([10, 20])
    {'w': 10, 'b': (20, None)}
    """
    children, rebuild = _open(tree)
    if rebuild is None:
        return [tree], lambda leaves: leaves[0]
    leaves: list[Any] = []
    parts: list[tuple[int, int, Builder]] = []
    for child in children:
        below, build = flatten(child)
        parts.append((len(leaves), len(leaves) + len(below), build))
        leaves.extend(below)

    def build_all(new: Sequence[Any]) -> Any:
        return rebuild([build(new[start:stop]) for start, stop, build in parts])

    return leaves, build_all


def tree_map(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """Apply a function to the leaves of structures of the same form.

    >>> tree_map(lambda a, b: a + b, {"w": 1, "b": [2]}, {"w": 10, "b": [20]})
    {'w': 11, 'b': [22]}
    """
    leaves, build = flatten(tree)
    columns = [flatten(other)[0] for other in others]
    return build([function(*row) for row in zip(leaves, *columns, strict=True)])


def _open(tree: Any) -> tuple[Sequence[Any], Builder | None]:
    """(children, function that builds the node from new children), or no function for a leaf."""
    if tree is None:
        return (), lambda children: None
    if isinstance(tree, dict):
        keys = list(tree)
        return list(tree.values()), lambda children: dict(zip(keys, children, strict=True))
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return tree, lambda children: type(tree)(*children)
    if isinstance(tree, (list, tuple)):
        return tree, lambda children: type(tree)(children)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        fields = [field.name for field in dataclasses.fields(tree) if field.init]
        return [getattr(tree, name) for name in fields], lambda children: dataclasses.replace(
            tree, **dict(zip(fields, children, strict=True))
        )
    return (), None
