"""PyTorch modules as networks: the graph of ``torch.export``, run with halfulp's functions on a traced value."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import halfulp as hu
from halfulp.autograd import ops
from halfulp.autograd.traced import Traced
from halfulp.bounds import _curves
from halfulp.bounds._network import Network
from halfulp.bounds._tracing import trace
from halfulp.errors import HalfulpError, ModelError


def from_torch(module: Any, example: Any) -> Network:
    """The network of a module; see :func:`halfulp.bounds.from_torch`."""
    training = module.training
    module.eval()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about its own use of what it deprecates
            exported = torch.export.export(module, (example,)).run_decompositions()
    finally:
        module.train(training)
    constants = {**exported.state_dict, **exported.constants}
    signature = exported.graph_signature
    named = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    named |= signature.inputs_to_lifted_tensor_constants
    dtype = np.dtype(str(example.dtype).removeprefix("torch."))

    def run(x: Any) -> Any:
        values: dict[str, Any] = {}
        for node in exported.graph.nodes:
            if node.op == "placeholder":
                known = named.get(node.name)
                values[node.name] = x if known is None else constants[known].detach().numpy()
            elif node.op == "output":
                return values[node.args[0][0].name]
            else:
                x.builder.label = repr(node.name)
                values[node.name] = _call(node, values)
                x.builder.label = ""
        raise AssertionError("a graph ends with its output")

    return trace(run, tuple(example.shape), dtype, "from_torch")


def _call(node: Any, values: dict[str, Any]) -> Any:
    name = str(node.target).removeprefix("aten.").split(".")[0]
    function = _FUNCTIONS.get(name)
    if function is None:
        known = ", ".join(sorted(_FUNCTIONS))
        raise ModelError(
            "from_torch", f"node {node.name!r} ({node.target})", f"is not bounded; these are: {known}", "V3"
        )

    def value(argument: Any) -> Any:
        if isinstance(argument, (list, tuple)):
            return [value(a) for a in argument]
        return values[argument.name] if hasattr(argument, "op") and hasattr(argument, "graph") else argument

    try:
        return function(*(value(a) for a in node.args), **{k: value(v) for k, v in node.kwargs.items()})
    except HalfulpError:
        raise
    except (TypeError, ValueError) as error:
        raise ModelError("from_torch", f"node {node.name!r} ({node.target})", str(error), "V3") from error


def _convolution(
    x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: Any, extra: Any, groups: Any
) -> Any:
    if transposed:
        return hu.ConvTranspose(weight.ndim - 2, stride, tuple(padding), tuple(extra), dilation, groups)(
            x, weight, bias
        )
    return hu.conv(x, weight, bias, stride, tuple(padding), dilation, groups)


def _max_pool(x: Any, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False) -> Any:
    return hu.max_pool(x, tuple(kernel), tuple(stride) if stride else None, padding, dilation, ceil)


def _avg_pool(
    x: Any,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil: bool = False,
    include: bool = True,
    divisor: Any = None,
) -> Any:
    record = hu.AvgPool(tuple(kernel), tuple(stride) if stride else None, padding, ceil, include, divisor)
    return record(x)


def _batch_norm(x: Any, weight: Any, bias: Any, mean: Any, variance: Any, *rest: Any) -> Any:
    scale = np.ones_like(mean) if weight is None else weight
    shift = np.zeros_like(mean) if bias is None else bias
    return [hu.BatchNorm(eps=float(rest[-1]))(x, scale, shift, mean, variance)]


def _slice(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return ops.index(x, (slice(None),) * (dim % len(x.shape)) + (slice(start, end, step),))


def _scalar(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def run(x: Any, y: Any, alpha: Any = 1) -> Any:
        if alpha != 1:
            raise ValueError(f"alpha={alpha} must be 1")
        if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
            return np.asarray(function(x, y))
        return function(x, y)

    return run


def _pad(x: Any, pads: Any, value: float = 0.0) -> Any:
    for axis, (before, after) in enumerate(zip(pads[::2], pads[1::2], strict=True)):
        place = len(x.shape) - 1 - axis
        if before < 0 or after < 0:
            raise ValueError(f"pads={list(pads)} must be >= 0")
        sizes = [tuple(n if k == place else m for k, m in enumerate(x.shape)) for n in (before, after)]
        first, last = (np.full(size, value, dtype=x.dtype) for size in sizes)
        x = ops.concatenate((first, x, last), place) if before or after else x
    return x


def _shaped(x: Any, sizes: Any) -> Any:
    return np.reshape(x, sizes) if not isinstance(x, Traced) else ops.reshape(x, tuple(sizes))


def _permuted(x: Any, order: Any) -> Any:
    return np.transpose(x, order) if not isinstance(x, Traced) else ops.transpose(x, tuple(order))


def _transposed(x: Any, first: int, second: int) -> Any:
    order = list(range(len(x.shape)))
    order[first], order[second] = order[second], order[first]
    return _permuted(x, order)


def _linear(x: Any, weight: Any, bias: Any = None) -> Any:
    return ops.linear(x, weight, bias)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_native_batch_norm_legit_no_training": _batch_norm,
    "_adaptive_avg_pool2d": lambda x, size: hu.adaptive_avg_pool(x, tuple(size)),
    "adaptive_avg_pool2d": lambda x, size: hu.adaptive_avg_pool(x, tuple(size)),
    "adaptive_max_pool2d": lambda x, size: [hu.adaptive_max_pool(x, tuple(size))],
    "add": _scalar(ops.add),
    "addmm": lambda bias, x, weight: ops.linear(x, np.ascontiguousarray(weight.T), bias),
    "alias": lambda x: x,
    "avg_pool1d": _avg_pool,
    "avg_pool2d": _avg_pool,
    "avg_pool3d": _avg_pool,
    "cat": lambda xs, dim=0: ops.concatenate(xs, dim),
    "clamp": lambda x, min=None, max=None: _curves.clip(x, min, max),
    "clone": lambda x, memory_format=None: x,
    "constant_pad_nd": _pad,
    "convolution": _convolution,
    "div": _scalar(ops.div),
    "expand": lambda x, sizes: ops.broadcast_to(
        x, tuple(n if s == -1 else s for s, n in zip(sizes, x.shape, strict=True))
    ),
    "flatten": lambda x, start=0, end=-1: ops.flatten(x, start),
    "getitem": lambda x, key: x[key],
    "<built-in function getitem>": lambda x, key: x[key],
    "hardtanh": lambda x, low=-1.0, high=1.0: _curves.clip(x, low, high),
    "leaky_relu": lambda x, slope=0.01: _curves.leaky_relu(x, np.float32(slope)),
    "linear": _linear,
    "max_pool2d_with_indices": lambda *a: [_max_pool(*a)],
    "max_pool3d_with_indices": lambda *a: [_max_pool(*a)],
    "max_pool1d": _max_pool,
    "max_pool2d": _max_pool,
    "mean": lambda x, dim=None, keepdim=False: ops.mean(x, None if dim is None else tuple(dim), keepdim),
    "mm": lambda a, b: ops.matmul(a, b),
    "mul": _scalar(ops.mul),
    "neg": lambda x: ops.neg(x),
    "permute": _permuted,
    "relu": ops.relu,
    "reshape": _shaped,
    "select": lambda x, dim, at: ops.index(x, (slice(None),) * (dim % len(x.shape)) + (at,)),
    "sigmoid": ops.sigmoid,
    "slice": _slice,
    "softplus": lambda x: _curves.softplus(x),
    "squeeze": lambda x, dim: _shaped(
        x, [n for k, n in enumerate(x.shape) if n != 1 or k not in [d % len(x.shape) for d in np.atleast_1d(dim)]]
    ),
    "sub": _scalar(ops.sub),
    "sum": lambda x, dim=None, keepdim=False: ops.sum(x, None if dim is None else tuple(dim), keepdim),
    "tanh": ops.tanh,
    "transpose": _transposed,
    "t": lambda x: _permuted(x, (1, 0)),
    "unsqueeze": lambda x, dim: _shaped(
        x, [*x.shape[: dim % (len(x.shape) + 1)], 1, *x.shape[dim % (len(x.shape) + 1) :]]
    ),
    "view": _shaped,
}
"""Name of an ATen operator -> the function of halfulp that computes it."""
