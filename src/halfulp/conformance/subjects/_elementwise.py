"""What frameworks call the elementwise functions: the expression of a record in x, or why there is none."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from halfulp.conformance.subjects._base import Unsupported
from halfulp.records import ElementwiseOperator, declaration_of

_PLAIN_TORCH = ("abs", "erf", "exp", "expm1", "log", "log1p", "pow", "reciprocal", "rsqrt", "sigmoid", "sqrt", "tanh")
_JAX = {
    "abs": "jnp.abs(x)",
    "elu": "jax.nn.elu(x, alpha={alpha!r})",
    "erf": "lax.erf(x)",
    "exp": "jnp.exp(x)",
    "expm1": "jnp.expm1(x)",
    "gelu": "jax.nn.gelu(x, approximate={tanh})",
    "hardsigmoid": "jax.nn.hard_sigmoid(x)",
    "hardswish": "jax.nn.hard_swish(x)",
    "leaky_relu": "jax.nn.leaky_relu(x, negative_slope={negative_slope!r})",
    "log": "jnp.log(x)",
    "log1p": "jnp.log1p(x)",
    "mish": "jax.nn.mish(x)",
    "pow": "jnp.power(x, {exponent!r})",
    "reciprocal": "jnp.reciprocal(x)",
    "relu": "jax.nn.relu(x)",
    "relu6": "jax.nn.relu6(x)",
    "rsqrt": "lax.rsqrt(x)",
    "sigmoid": "jax.nn.sigmoid(x)",
    "silu": "jax.nn.silu(x)",
    "sqrt": "jnp.sqrt(x)",
    "tanh": "jnp.tanh(x)",
}


def _settings(op: ElementwiseOperator) -> dict[str, Any]:
    return {f.name: getattr(op, f.name) for f in fields(op)}


def torch_source(op: ElementwiseOperator) -> str:
    """The function for PyTorch."""
    home = "torch" if op.name in _PLAIN_TORCH else "F"
    settings = [f"{name}={value!r}" for name, value in _settings(op).items()]
    return f"def f(x):\n    return {home}.{op.name}({', '.join(['x', *settings])})"


def jax_source(op: ElementwiseOperator) -> str:
    """The function for JAX, which has no thresholds, and a hard tanh without bounds."""
    if op.name not in _JAX:
        raise Unsupported(f"jax has no {op.name} with these parameters")
    settings = _settings(op) | {"tanh": getattr(op, "approximate", "") == "tanh"}
    return f"def f(x):\n    return {_JAX[op.name].format(**settings)}"


def onnx_node(op: ElementwiseOperator) -> tuple[str, dict[str, Any]]:
    """(ONNX operator, attributes); attributes are float32 numbers."""
    names = declaration_of(op).onnx
    if not names or op.name in ("pow", "softplus"):
        raise Unsupported(f"ONNX has no {op.name} of one input with these parameters")
    attributes = {{"negative_slope": "alpha"}.get(name, name): value for name, value in _settings(op).items()}
    for value in attributes.values():
        if isinstance(value, float) and float(np.float32(value)) != value:
            raise Unsupported("an attribute of ONNX is a float32 number")
    return names[0], attributes
