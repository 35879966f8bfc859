"""What a registered operator is in PyTorch's own operators: how ``torch.onnx.export`` gives standard nodes.

ONNX says nothing of rounding, so an exported convolution is a ``Conv`` like any other. ``halfulp.onnx`` runs it with
one rounding per node again. The exporter looks here for operators that it does not know.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from halfulp.torch._library import on_trace


def _windows(
    x: Tensor,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil: bool,
    padded: float = 0.0,
    beyond: float = 0.0,
) -> Tensor:
    """The cells of every window along a new first axis; ``beyond`` stands behind the padding in a last window."""
    sizes, sides = x.shape[-len(kernel) :], _sides(padding, kernel)
    counts = _counts(sizes, kernel, stride, sides, dilation, ceil)
    steps = tuple(zip(kernel, stride, dilation, counts, strict=True))
    more = [
        (n - 1) * s + (k - 1) * d + 1 - size - before - after
        for (k, s, d, n), size, (before, after) in zip(steps, sizes, sides, strict=True)
    ]
    cells = F.pad(x, [p for pair in reversed(sides) for p in pair], value=padded)
    cells = F.pad(cells, [side for end in reversed(more) for side in (0, end)], value=beyond)
    taps = []
    for tap in product(*map(range, kernel)):
        part = cells
        for axis, (t, (_, s, d, n)) in enumerate(zip(tap, steps, strict=True), -len(kernel)):
            part = torch.ops.aten.slice(part, axis, t * d, t * d + (n - 1) * s + 1, s)
        taps.append(part)
    return torch.stack(taps)


def _sides(padding: Any, kernel: Any) -> list[tuple[int, int]]:
    """The padding before and after each axis."""
    if len(padding) == 2 * len(kernel):
        return list(zip(padding[::2], padding[1::2], strict=True))
    return [(p, p) for p in padding]


def _counts(sizes: Any, kernel: Any, stride: Any, sides: Any, dilation: Any, ceil: bool) -> list[int]:
    """The number of windows on each axis; with ``ceil`` a last one that starts in the input or before it."""
    counts = []
    for size, k, s, (before, after), d in zip(sizes, kernel, stride, sides, dilation, strict=True):
        room = size + before + after - d * (k - 1) - 1
        more = 1 if ceil and room % s and (room // s + 1) * s < size + before else 0
        counts.append(room // s + 1 + more)
    return counts


def _max_pool(
    x: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, *_: str, indices: bool = False
) -> Any:
    geometry = (kernel, stride, padding, dilation, ceil)
    if len(padding) == len(kernel):
        return getattr(F, f"max_pool{len(kernel)}d")(x, *geometry, return_indices=indices)
    least = torch.finfo(x.dtype).min
    if not indices:
        return _windows(x, *geometry, least, least).amax(0)
    value, tap = _windows(x, *geometry, least, least).max(0)
    sizes = x.shape[-len(kernel) :]
    places = _windows(torch.arange(prod(sizes)).view(sizes).expand(x.shape), *geometry)
    return value, places.gather(0, tap[None])[0]


def _lp_pool(x: Tensor, kernel: Any, p: float, stride: Any, padding: Any, dilation: Any, ceil: bool) -> Tensor:
    rank = len(kernel)
    if p == float("inf"):
        output: Tensor = _max_pool(x.abs(), kernel, stride, padding, dilation, ceil)
    elif ceil or any(padding) or any(step != 1 for step in dilation):
        output = torch.linalg.vector_norm(_windows(x, kernel, stride, padding, dilation, ceil), p, 0)
    else:
        sizes = (kernel, stride) if rank > 1 else (kernel[0], stride[0])
        output = getattr(F, f"lp_pool{rank}d")(x.abs(), p, *sizes)
    return output


def _sum_pool(x: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool) -> Tensor:
    return _windows(x, kernel, stride, padding, dilation, ceil).sum(0)


def _avg_pool(
    x: Tensor, kernel: Any, stride: Any, padding: Any, ceil: bool, include: bool, divisor: int | None, dilation: Any
) -> Tensor:
    rank = len(kernel)
    if all(step == 1 for step in dilation) and (rank > 1 or divisor is None) and len(padding) == rank:
        more = (divisor,) if rank > 1 else ()
        output: Tensor = getattr(F, f"avg_pool{rank}d")(x, kernel, stride, padding, ceil, include, *more)
        return output
    total = _windows(x, kernel, stride, padding, dilation, ceil).sum(0)
    if divisor is not None:
        return total / divisor
    ones = x.new_ones(x.shape[-rank:])
    counted = _windows(ones, kernel, stride, padding, dilation, ceil, float(include)).sum(0)
    return total / counted.clamp(min=1)


def _smooth_max_pool(
    x: Tensor, kernel: Any, beta: float, stride: Any, padding: Any, dilation: Any, ceil: bool
) -> Tensor:
    least = torch.finfo(x.dtype).min  # runtimes differ in what they make of an infinity
    return torch.logsumexp(_windows(x * beta, kernel, stride, padding, dilation, ceil, 0.0, least), 0) / beta


def _min_pool(x: Tensor, *geometry: Any) -> Tensor:
    output: Tensor = -_max_pool(-x, *geometry)
    return output


def _min_pool_with_indices(x: Tensor, *geometry: Any) -> tuple[Tensor, Tensor]:
    value, places = _max_pool(-x, *geometry, indices=True)
    return -value, places


def _max_unpool(x: Tensor, places: Tensor, kernel: Any, stride: Any, padding: Any, size: Any) -> Tensor:
    rank = len(kernel)
    axes = zip(x.shape[-rank:], kernel, stride, _sides(padding, kernel), strict=True)
    shape = list(size) if size is not None else [(n - 1) * s + k - sum(p) for n, k, s, p in axes]
    plane = x.new_zeros(*x.shape[:-rank], prod(shape))
    return plane.scatter(-1, places.flatten(-rank), x.flatten(-rank)).view(*x.shape[:-rank], *shape)


def _conv(x: Tensor, w: Tensor, b: Any, stride: Any, padding: Any, dilation: Any, groups: int, _: str) -> Tensor:
    before, after = list(padding[::2]), list(padding[1::2])
    if before != after:
        x = F.pad(x, [side for pair in zip(reversed(before), reversed(after), strict=True) for side in pair])
        before = [0] * len(before)
    output: Tensor = torch.ops.aten.convolution(x, w, b, stride, before, dilation, False, [0] * len(stride), groups)
    return output


def _conv_transpose(
    x: Tensor, w: Tensor, b: Any, stride: Any, padding: Any, extra: Any, dilation: Any, groups: int, _: str
) -> Tensor:
    sides = list(padding[::2]) if len(padding) == 2 * len(stride) else list(padding)
    output: Tensor = torch.ops.aten.convolution(x, w, b, stride, sides, dilation, True, extra, groups)
    return output


def _adaptive(name: str, x: Tensor, output_size: Any, indices: bool = False) -> Any:
    function = getattr(F, f"{name}{len(output_size)}d")
    return function(x, output_size, return_indices=True) if indices else function(x, output_size)


def _global_avg(x: Tensor, ndim: int, keepdims: bool) -> Tensor:
    return x.mean(tuple(range(-ndim, 0)), keepdim=keepdims)


def _global_min(x: Tensor, ndim: int, keepdims: bool, *_: str) -> Tensor:
    return x.amin(tuple(range(-ndim, 0)), keepdim=keepdims)


def _global_max(x: Tensor, ndim: int, keepdims: bool, *_: str) -> Tensor:
    return x.amax(tuple(range(-ndim, 0)), keepdim=keepdims)


def _sum(x: Tensor) -> Tensor:
    return x.sum([i for i in range(x.dim()) if i != 1])


def _batch_norm(
    x: Tensor, w: Any, b: Any, mean: Any, variance: Any, training: bool, momentum: float, eps: float
) -> Tensor:
    return F.batch_norm(x, mean, variance, w, b, training, momentum, eps)


def _reduced(function: Any) -> Callable[..., Tensor]:
    def call(x: Tensor, dim: Any, keepdim: bool) -> Tensor:
        axes = list(range(x.dim())) if dim is None else dim
        output: Tensor = function(x, axes, keepdim=keepdim)
        return output

    return call


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of PyTorch as one of Python, which is what the exporter takes."""
    return lambda *arguments: function(*arguments)


def _var(x: Tensor, dim: Any, correction: int, keepdim: bool) -> Tensor:
    axes = list(range(x.dim())) if dim is None else dim
    return torch.var(x, axes, correction=correction, keepdim=keepdim)


def _interpolate(x: Tensor, size: Any, factors: Any, mode: str, corners: Any) -> Tensor:
    rank = x.dim() - 2
    wanted = list(size) * rank if size is not None and len(size) == 1 else size
    scales = list(factors) * rank if factors is not None and len(factors) == 1 else factors
    return F.interpolate(x, wanted, scales, mode, corners)


_SEVERAL: dict[str, Callable[..., Any]] = {
    "var": _var,
    "mse_loss": lambda x, y, reduction: F.mse_loss(x, y, reduction=reduction),
    "cross_entropy": lambda x, y, w, ignored, reduction, smoothing: F.cross_entropy(
        x, y, w, ignore_index=ignored, reduction=reduction, label_smoothing=smoothing
    ),
    "interpolate": _interpolate,
    "embedding": lambda w, i, padding, by_count: F.embedding(i, w),
    "linear": lambda x, w, b, _: F.linear(x, w, b),
    "matmul": lambda x, y, _: torch.matmul(x, y),
    "batch_norm": _batch_norm,
    "layer_norm": lambda x, w, b, shape, eps: F.layer_norm(x, shape, w, b, eps),
    "group_norm": lambda x, w, b, groups, eps: F.group_norm(x, groups, w, b, eps),
    "instance_norm": lambda x, w, b, eps: F.instance_norm(x, None, None, w, b, True, 0.1, eps),
    "softmax": torch.softmax,
    "log_softmax": torch.log_softmax,
    "sum": _reduced(torch.sum),
    "mean": _reduced(torch.mean),
    "gelu": lambda x, approximate: F.gelu(x, approximate=approximate),
    "softplus": F.softplus,
    "elu": F.elu,
    "leaky_relu": F.leaky_relu,
    "pow": torch.pow,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "silu": F.silu,
    "mish": F.mish,
    "hardswish": F.hardswish,
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "erf": torch.erf,
    "hardsigmoid": F.hardsigmoid,
    "hardtanh": F.hardtanh,
    "relu6": F.relu6,
    "abs": torch.abs,
    "expm1": lambda x: torch.exp(x) - 1,
    "log1p": lambda x: torch.log(1 + x),
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "adaptive_avg_pool": lambda x, size: _adaptive("adaptive_avg_pool", x, size),
    "adaptive_max_pool": lambda x, size, *_: _adaptive("adaptive_max_pool", x, size),
    "adaptive_max_pool_with_indices": lambda x, size, *_: _adaptive("adaptive_max_pool", x, size, indices=True),
    "avg_pool": _avg_pool,
    "sum_pool": _sum_pool,
    "smooth_max_pool": _smooth_max_pool,
    "max_pool": _max_pool,
    "max_pool_with_indices": partial(_max_pool, indices=True),
    "min_pool": _min_pool,
    "min_pool_with_indices": _min_pool_with_indices,
    "max_unpool": _max_unpool,
    "global_min_pool": _global_min,
    "lp_pool": _lp_pool,
    "global_lp_pool": lambda x, ndim, p, keepdims: torch.linalg.vector_norm(x, p, list(range(-ndim, 0)), keepdims),
    "unfold": lambda x, kernel, dilation, padding, stride: F.unfold(x, kernel, dilation, padding, stride),
    "fold": lambda x, size, kernel, dilation, padding, stride: F.fold(x, size, kernel, dilation, padding, stride),
}


def register() -> None:
    """Tell PyTorch's exporter; called once, when every operator is there."""
    ours: Any = torch.ops.halfulp
    table: dict[Any, Callable[..., Any]] = {
        ours.conv.default: _conv,
        ours.conv_transpose.default: _conv_transpose,
        ours.global_avg_pool.default: _global_avg,
        ours.global_max_pool.default: _global_max,
        ours.channel_sum.default: _sum,
    }
    for each, written in _SEVERAL.items():
        table[getattr(ours, each).default] = _plain(written)

    def tell_exporter() -> None:
        """The exporter to ONNX alone may take operators apart; compilers must call the kernels.

        Its table is made anew for every export, after the model has been traced.
        """
        exporter: Any = sys.modules.get("torch.onnx._internal.exporter._decomp")
        if exporter is None or hasattr(exporter, "_before_halfulp"):
            return
        original = exporter._before_halfulp = exporter.create_onnx_friendly_decomposition_table
        exporter.create_onnx_friendly_decomposition_table = lambda *arguments: {**original(*arguments), **table}

    on_trace.append(tell_exporter)
