"""Elementwise functions: the records of halfulp, each correctly rounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from halfulp.autograd import apply, ops
from halfulp.autograd.traced import strip
from halfulp.onnx._node import Node
from halfulp.onnx.operators._plain import direct
from halfulp.onnx.operators.movement import where
from halfulp.records import ElementwiseOperator, Elu, Gelu, Pow, Sigmoid, Softplus


def of(record: type[ElementwiseOperator]) -> Callable[[Node], Callable[..., Any]]:
    """The builder of a function without attributes."""
    function = direct(record())
    return lambda node: function


SIGMOID = direct(Sigmoid())
"""Sigmoid of any value."""


def elu(node: Node) -> Callable[..., Any]:
    """Elu with its alpha."""
    return direct(Elu(node.number("alpha", 1.0)))


def softplus(node: Node) -> Callable[..., Any]:
    """Softplus, which has no threshold in ONNX: for every float beyond the one here it is x."""
    return direct(Softplus(1.0, 1e6))


def gelu(node: Node) -> Callable[..., Any]:
    """Gelu in either form."""
    approximate = node.text("approximate", "none")
    if approximate not in ("none", "tanh"):
        raise node.refusal(f"approximate={approximate!r}", "must be 'none' or 'tanh'")
    return direct(Gelu(approximate))


def power(node: Node) -> Callable[..., Any]:
    """Pow: one record for every exponent that occurs; the result has the type of the base."""

    def run(x: Any, exponent: Any) -> Any:
        base, exponents = strip(x), strip(exponent)
        try:
            shape = np.broadcast_shapes(base.shape, exponents.shape)
        except ValueError as error:
            rule = "must broadcast together"
            raise node.refusal(f"input shapes={base.shape} and {exponents.shape}", rule, "O9") from error
        node.fits(shape, x)
        if base.dtype.kind in "iu":
            return _whole_powers(base, exponents)
        if type(x) is np.ndarray and exponents.size > 1:
            node.fits(shape, x, 32)
            return _powers(np.broadcast_to(x, shape), np.broadcast_to(exponents, shape))
        spread, found = np.broadcast_to(exponents, shape), None
        x = x if base.shape == shape else ops.broadcast_to(x, shape)
        for e in dict.fromkeys(exponents.ravel().tolist()):
            value = apply(Pow(e), x)
            found = value if found is None else where(np.asarray(spread == e, dtype=np.bool_), value, found)
        return x if found is None else found

    return run


def _powers(base: Any, exponents: Any) -> Any:
    """Powers with many exponents: the elements of each together, so that each is computed once."""
    flat, found = np.ascontiguousarray(base).reshape(-1), np.empty(base.size, base.dtype)
    different, places = np.unique(exponents, return_inverse=True)  # NaN is one number here
    order = np.argsort(places.reshape(-1), kind="stable")
    ends = np.cumsum(np.bincount(places.reshape(-1), minlength=len(different)))
    for e, start, end in zip(different.tolist(), [0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        found[order[start:end]] = Pow(e)(flat[order[start:end]])
    return found.reshape(base.shape)


def _whole_powers(base: Any, exponents: Any) -> Any:
    """Powers of integers: exact for integers, by float64 for others."""
    if exponents.dtype.kind in "iu":
        return np.power(base, exponents.astype(base.dtype))
    wide, spread = np.broadcast_arrays(base.astype(np.float64), exponents.astype(np.float64))
    return _powers(wide, spread).astype(base.dtype)
