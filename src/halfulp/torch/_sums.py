"""Broadcasting whose gradient is an exact sum, rounded once.

PyTorch adds up the gradient of a broadcast operand in an order of its own, which changes with threads and layout. The
sum here is :func:`channel_sum`, the one of a convolution's bias.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._C import _get_tracing_state

from halfulp.torch._convolution import channel_sum

_Function: Any = torch.autograd.Function


def summed_to(tensor: Tensor, shape: Any) -> Tensor:
    """The sum over the axes along which a tensor of this shape was repeated, in its shape."""
    shape = tuple(shape)
    lead = tensor.dim() - len(shape)
    if lead == 0 and shape == tuple(tensor.shape):
        return tensor
    repeated = [i for i in range(tensor.dim()) if i < lead or (shape[i - lead] == 1 and tensor.shape[i] != 1)]
    kept = [i for i in range(tensor.dim()) if i not in repeated]
    if tensor.numel() == 0:  # a sum of nothing
        return tensor.new_zeros(shape)
    cells = tensor.permute(*kept, *repeated).reshape(1, _count(shape), -1)
    total: Tensor = channel_sum(cells)
    return total.reshape(shape)


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


class _Plain(_Function):  # type: ignore[misc]
    """What ``torch.compile`` can trace."""

    @staticmethod
    def forward(x: Tensor, shape: tuple[int, ...]) -> Tensor:
        return x.expand(shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.shape, ctx.wanted = inputs[0].shape, inputs[1]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return summed_to(g, ctx.shape), None


class _Broadcast(_Plain):
    """With forward mode and batching."""

    generate_vmap_rule = True

    @staticmethod
    def jvp(ctx: Any, t: Tensor, _: Any) -> Tensor:
        return t.expand(ctx.wanted)


def same_shape(x: Tensor, shape: Any) -> bool:
    """Whether a tensor has this shape; for ``torch.export``, whose sizes may be symbols, the number of axes first."""
    return x.dim() == len(shape) and all(n == m for n, m in zip(x.shape, shape, strict=True))


def broadcast(x: Tensor, shape: Any) -> Tensor:
    """``x.expand(shape)`` with an exact gradient."""
    shape = tuple(shape)
    if same_shape(x, shape):
        return x
    if not (torch.is_grad_enabled() and x.requires_grad) or _get_tracing_state() is not None:  # no gradient is wanted
        return x.expand(shape)
    result: Tensor = (_Plain if torch.compiler.is_compiling() else _Broadcast).apply(x, shape)
    return result
