"""Less, Equal, Not, And, IsNaN and their kind: truth values, which have no derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from halfulp.autograd.traced import strip
from halfulp.onnx._node import Node
from halfulp.onnx.operators.movement import _broadcast


def compare(function: Callable[[Any, Any], Any]) -> Callable[[Node], Callable[..., Any]]:
    """The builder of a comparison of two inputs of one type."""

    def builder(node: Node) -> Callable[..., Any]:
        legacy = node.opset < 7
        if legacy:
            node.flag("broadcast")
            if node.has("axis"):
                raise node.refusal("axis", "broadcasting from an axis is not computed for comparisons")

        def run(x: Any, y: Any) -> Any:
            node.same_types(x, y)
            a, b = strip(x), strip(y)
            node.fits(_broadcast(a.shape, b.shape), np.empty(0, dtype=np.bool_))
            return np.asarray(function(a, b), dtype=np.bool_)

        return run

    return builder


def logic(function: Callable[..., Any]) -> Callable[[Node], Callable[..., Any]]:
    """The builder of an operator on truth values."""

    def builder(node: Node) -> Callable[..., Any]:
        if node.opset < 7 and node.operator != "Not":
            node.flag("broadcast")

        def run(*inputs: Any) -> Any:
            for value in inputs:
                if value.dtype != np.bool_:
                    raise node.refusal(f"dtype={value.dtype}", "must be bool", "O9")
            return np.asarray(function(*inputs), dtype=np.bool_)

        return run

    return builder


def is_nan(node: Node) -> Callable[..., Any]:
    """IsNaN."""
    return lambda x: np.asarray(strip(x) != strip(x), dtype=np.bool_)


def is_inf(node: Node) -> Callable[..., Any]:
    """IsInf, of either sign or of one."""
    negative, positive = node.flag("detect_negative", 1), node.flag("detect_positive", 1)

    def run(x: Any) -> Any:
        value = strip(x)
        found = np.zeros(value.shape, dtype=np.bool_)
        if positive:
            found |= np.asarray(value == np.inf, dtype=np.bool_)
        if negative:
            found |= np.asarray(value == -np.inf, dtype=np.bool_)
        return found

    return run
