"""The PyTorch call for a record, as source: what a reproducer prints is what was run."""

from __future__ import annotations

from typing import Any

from halfulp.conformance.subjects._base import Unsupported
from halfulp.conformance.subjects._elementwise import torch_source
from halfulp.conformance.subjects._layers import is_layer, torch_layer
from halfulp.records import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    Conv,
    ConvTranspose,
    ElementwiseOperator,
    Fold,
    GlobalAvgPool,
    GlobalLpPool,
    GlobalMaxPool,
    GlobalMinPool,
    GlobalOperator,
    LpPool,
    MaxPool,
    MinPool,
    Operator,
    Shape,
    SumPool,
    Unfold,
)

_METHODS = {GlobalAvgPool: "mean", GlobalMaxPool: "amax", GlobalMinPool: "amin"}


def function_source(op: Operator, shape: Shape, indices: bool = False) -> str:
    """``def f(x, …)`` that evaluates the record with ``torch.nn.functional`` on an input of this shape.

    >>> print(function_source(MaxPool((2, 2)), (1, 1, 4, 4)))
    def f(x):
        return F.max_pool2d(x, kernel_size=(2, 2), stride=(2, 2), padding=(0, 0), dilation=(1, 1), ceil_mode=False)
    """
    if isinstance(op, ElementwiseOperator):
        return torch_source(op)
    if is_layer(op):
        return torch_layer(op, shape)
    signature, call = _call(op, indices)
    ndim: int = getattr(op, "ndim", 0)
    if len(shape) > ndim + 2:
        raise Unsupported(f"torch takes inputs of {ndim + 1} or {ndim + 2} axes")
    if len(shape) == ndim and not isinstance(op, GlobalOperator):
        call = call.replace("x, ", "x[None], ", 1) + "[0]"
    return f"def f({signature}):\n    return {call}"


def _call(op: Operator, indices: bool) -> tuple[str, str]:
    if isinstance(op, MaxPool):
        arguments = _window(op) | {"dilation": op.dilation, "ceil_mode": op.ceil_mode}
        return _indexed(op.name, arguments, indices)
    if isinstance(op, AdaptiveMaxPool):
        return _indexed(op.name, {"output_size": op.output_size}, indices)
    if indices:
        raise Unsupported(f"torch gives no indices for {op.name}")
    if isinstance(op, AvgPool):
        return _avg_pool(op)
    if isinstance(op, AdaptiveAvgPool):
        return "x", _written(op.name, {"output_size": op.output_size})
    if isinstance(op, GlobalOperator):
        return "x", _global(op)
    if isinstance(op, (Conv, ConvTranspose)):
        return _convolution(op)
    return "x", _other_pooling(op)


def _global(op: GlobalOperator) -> str:
    where = f"dim={tuple(range(-op.ndim, 0))}, keepdim={op.keepdims}"
    if isinstance(op, GlobalLpPool):
        return f"torch.linalg.vector_norm(x, {float(op.p)!r}, {where})".replace(" inf,", ' float("inf"),')
    return f"x.{_METHODS[type(op)]}({where})"


def _other_pooling(op: Operator) -> str:
    """The rest of the family; torch has minima and sums by way of max_pool and avg_pool, as its users write them."""
    if isinstance(op, MinPool):
        arguments = _window(op) | {"dilation": op.dilation, "ceil_mode": op.ceil_mode}
        return "-" + _written(op.name.replace("min", "max"), arguments, "-x")
    if isinstance(op, SumPool):
        if op.ndim == 1 or any(d != 1 for d in op.dilation):
            raise Unsupported("torch sums windows only by divisor_override, which avg_pool1d and dilation do not have")
        arguments = _window(op) | {"ceil_mode": op.ceil_mode, "divisor_override": 1}
        return _written(op.name.replace("sum", "avg"), arguments)
    if isinstance(op, LpPool):
        if any(d != 1 for d in op.dilation) or any(_symmetric(op.padding, op.ndim, False)):
            raise Unsupported("torch has no padding and no dilation in lp_pool")
        arguments = {"norm_type": float(op.p), "kernel_size": op.kernel_size, "stride": op.stride}
        return _written(op.name, arguments | {"ceil_mode": op.ceil_mode}).replace("=inf,", '=float("inf"),')
    if isinstance(op, (Unfold, Fold)):
        if op.ndim != 2:
            raise Unsupported(f"torch has {op.name} for two spatial axes")
        arguments = {"output_size": op.output_size} if isinstance(op, Fold) else {}
        return _written(op.name, arguments | _window(op) | {"dilation": op.dilation})
    raise Unsupported(f"the subject has no call for {op.name}")


def _indexed(name: str, arguments: dict[str, Any], indices: bool) -> tuple[str, str]:
    written = _written(name, arguments | {"return_indices": True} if indices else arguments)
    return "x", written + "[1]" if indices else written


def _avg_pool(op: AvgPool) -> tuple[str, str]:
    if any(d != 1 for d in op.dilation):
        raise Unsupported("torch has no dilation in average pooling")
    arguments = _window(op) | {"ceil_mode": op.ceil_mode, "count_include_pad": op.count_include_pad}
    if op.divisor_override is not None:
        if op.ndim == 1:
            raise Unsupported("torch has no divisor_override in avg_pool1d")
        arguments["divisor_override"] = op.divisor_override
    return "x", _written(op.name, arguments)


def _convolution(op: Conv | ConvTranspose) -> tuple[str, str]:
    arguments: dict[str, Any] = {"stride": op.stride, "padding": _symmetric(op.padding, op.ndim, isinstance(op, Conv))}
    if isinstance(op, ConvTranspose):
        arguments["output_padding"] = op.output_padding
    arguments |= {"dilation": op.dilation, "groups": op.groups}
    return "x, weight, bias=None", _written(op.name, arguments, "x, weight, bias")


def _window(op: Any) -> dict[str, Any]:
    return {"kernel_size": op.kernel_size, "stride": op.stride, "padding": _symmetric(op.padding, op.ndim, False)}


def _symmetric(padding: Any, ndim: int, modes: bool) -> Any:
    """Padding as torch takes it: the same on both sides, or "same" for convolutions."""
    if padding == "valid":
        return (0,) * ndim
    if isinstance(padding, str):
        if modes and padding == "same":
            return padding
        raise Unsupported(f"torch has no padding={padding!r} here")
    if any(before != after for before, after in padding):
        raise Unsupported("torch pads both sides of an axis equally")
    return tuple(before for before, _ in padding)


def _written(name: str, arguments: dict[str, Any], inputs: str = "x") -> str:
    listed = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    return f"F.{name}({inputs}, {listed})"
