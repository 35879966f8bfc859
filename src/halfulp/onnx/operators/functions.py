"""Elementwise functions: the records of halfulp, each correctly rounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from halfulp.autograd import apply
from halfulp.autograd.traced import strip
from halfulp.onnx._node import Node
from halfulp.records import ElementwiseOperator, Elu, Gelu, Pow, Softplus


def of(record: type[ElementwiseOperator]) -> Callable[[Node], Callable[..., Any]]:
    """The builder of a function without attributes."""
    op = record()
    return lambda node: lambda x: apply(op, x)


def elu(node: Node) -> Callable[..., Any]:
    """Elu with its alpha."""
    op = Elu(node.number("alpha", 1.0))
    return lambda x: apply(op, x)


def softplus(node: Node) -> Callable[..., Any]:
    """Softplus, which has no threshold in ONNX: for every float beyond the one here it is x."""
    op = Softplus(1.0, 1e6)
    return lambda x: apply(op, x)


def gelu(node: Node) -> Callable[..., Any]:
    """Gelu in either form."""
    approximate = node.text("approximate", "none")
    if approximate not in ("none", "tanh"):
        raise node.refusal(f"approximate={approximate!r}", "must be 'none' or 'tanh'")
    op = Gelu(approximate)
    return lambda x: apply(op, x)


def power(node: Node) -> Callable[..., Any]:
    """Pow with one exponent for all elements."""

    def run(x: Any, exponent: Any) -> Any:
        numbers = strip(exponent)
        if numbers.size != 1:
            raise node.refusal(f"exponent shape={numbers.shape}", "must be one number", "O9")
        value = numbers.reshape(-1)[0]
        return apply(Pow(value if numbers.dtype == object else float(value)), x)

    return run
