"""Gemm and MatMul, through the convolution engine: each product is one exact sum, rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from halfulp.autograd import ops
from halfulp.onnx._node import Node
from halfulp.onnx.operators._gates import are_few, few_rows


def matmul(node: Node) -> Callable[..., Any]:
    """MatMul with NumPy's rules; of integers it wraps around, as ONNX's integers do."""

    def run(a: Any, b: Any) -> Any:
        node.same_types(a, b)
        _check_inner(node, a, b)
        return _product(node, a, b)

    return run


def gemm(node: Node) -> Callable[..., Any]:
    """Gemm. With alpha = beta = 1 and a bias per column it is one sum, rounded once.

    Otherwise the product, the two scalings and the addition are each rounded once, in this order.
    """
    alpha, beta = node.number("alpha", 1.0), node.number("beta", 1.0)
    flip_a, flip_b = node.flag("transA"), node.flag("transB")
    if node.opset < 7:
        node.flag("broadcast")

    def run(a: Any, b: Any, c: Any = None) -> Any:
        node.same_types(a, b, c)
        if len(a.shape) != 2 or len(b.shape) != 2:
            raise node.refusal(f"input shapes={a.shape} and {b.shape}", "must be matrices", "O9")
        a = ops.transpose(a) if flip_a else a
        b = ops.transpose(b) if flip_b else b
        _check_inner(node, a, b)
        shape = (a.shape[0], b.shape[1])
        if c is not None and np.broadcast_shapes(c.shape, shape) != shape:
            raise node.refusal(f"C shape={c.shape}", f"must broadcast to {shape}", "O9")
        simple = alpha == 1.0 and beta == 1.0 and a.dtype.kind not in "iu"
        if simple and (c is None or c.shape in ((shape[1],), (1, shape[1]))):
            node.fits(shape, a)
            if are_few(a, b, c):
                return few_rows(a, b.T, None if c is None else c.reshape(-1))
            return ops.linear(a, ops.transpose(b), None if c is None else ops.reshape(c, (shape[1],)))
        out = _scaled(node, "alpha", alpha, _product(node, a, b))
        return out if c is None else ops.add(out, _scaled(node, "beta", beta, c))

    return run


def _check_inner(node: Node, a: Any, b: Any) -> None:
    if len(a.shape) == 0 or len(b.shape) == 0 or a.shape[-1] != b.shape[max(0, len(b.shape) - 2)]:
        raise node.refusal(f"input shapes={a.shape} and {b.shape}", "the inner sizes must be equal", "O9")


def _product(node: Node, a: Any, b: Any) -> Any:
    rows = a.shape[-2:-1] if len(a.shape) > 1 else ()
    columns = b.shape[-1:] if len(b.shape) > 1 else ()
    leading = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    node.fits((*leading, *rows, *columns), a)
    if a.dtype.kind in "iu":
        return np.matmul(a, b)
    if are_few(a, b):
        return few_rows(a.reshape(-1, a.shape[-1]), b.T, None).reshape(*a.shape[:-1], b.shape[1])
    return ops.matmul(a, b)


def _scaled(node: Node, name: str, factor: float, x: Any) -> Any:
    """factor * x, if the input's type holds the factor exactly."""
    if factor == 1.0:
        return x
    if x.dtype == object:
        from halfulp.numbers import exact

        return ops.mul(x, exact(np.array(factor)))
    scalar = np.array(factor).astype(x.dtype)
    if float(scalar) != factor:
        raise node.refusal(f"{name}={factor}", f"is not exact in {x.dtype}")
    return ops.mul(x, scalar)
