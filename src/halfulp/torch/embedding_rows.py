"""Rows of a table whose gradient is an exact sum, rounded once.

A row that a batch asks for several times gets the sum of their cotangents. PyTorch adds them in an order of its own.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from halfulp.errors import PolicyError
from halfulp.torch._errors import as_torch_error
from halfulp.torch._generated import mean, sum
from halfulp.torch._library import Context, define

__all__ = ["embedding"]


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """``torch.nn.functional.embedding``; the gradient of a row is the sum of its cotangents, rounded once.

    ``scale_grad_by_freq`` gives their mean, rounded once. ``max_norm`` and ``sparse`` are PyTorch's alone: refused.

    >>> import torch
    >>> weight = torch.zeros(2, 1, requires_grad=True)
    >>> embedding(torch.tensor([1, 1, 1]), weight).backward(torch.tensor([[1e8], [1.0], [-1e8]]))
    >>> weight.grad
    tensor([[0.],
            [1.]])
    """
    check_known(max_norm, sparse)
    if padding_idx is not None and not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise AssertionError("Padding_idx must be within num_embeddings")  # as in PyTorch
    padding = -1 if padding_idx is None else padding_idx % weight.shape[0]
    output: Tensor = _rows(weight, input, padding, scale_grad_by_freq)
    return output


def check_known(max_norm: float | None, sparse: bool) -> None:
    """Refuse what PyTorch alone has."""
    if max_norm is not None or sparse:
        given = f"max_norm={max_norm!r}" if max_norm is not None else "sparse=True"
        raise as_torch_error(PolicyError("embedding", given, "must be left out: PyTorch alone has it", "Z4"))


def row_sums(g: Tensor, indices: Tensor, count: int, padding: int = -1, by_count: bool = False) -> Tensor:
    """The cotangent of a table with ``count`` rows; ``by_count`` divides a row's by how often it was asked for."""
    flat, cells = indices.reshape(-1).long(), g.reshape(indices.numel(), g.shape[-1])
    total = cells.new_zeros(count, cells.shape[1])
    order = torch.argsort(flat, stable=True)
    rows, counts = torch.unique_consecutive(flat[order], return_counts=True)
    starts = counts.cumsum(0) - counts
    keep = rows != padding
    rows, counts, starts = rows[keep], counts[keep], starts[keep]
    for width in torch.unique(counts).tolist():  # rows asked for equally often are summed in one call
        chosen = counts == width
        terms = cells[order[starts[chosen] + torch.arange(width)[:, None]]]
        sums = terms[0] if width == 1 else (mean if by_count else sum)(terms, 0)
        total[rows[chosen]] = sums + 0.0  # a sum with the zeros of the table
    return total


def _pull_backward(context: Context, u: Tensor) -> tuple[Any, Any]:
    _, indices = context.tensors
    _, padding, by_count = context.parameters
    found = _rows(u, indices, -1, False)
    if by_count:
        times = torch.bincount(indices.reshape(-1), minlength=u.shape[0])[indices]
        found = found / times.unsqueeze(-1)
    return found if padding < 0 else found.masked_fill((indices == padding).unsqueeze(-1), 0), None


def _each(function: Any) -> Any:
    """The batching rule: one call for each element, so that every one has the bits of a call of its own."""

    def rule(info: Any, axes: Any, *arguments: Any) -> tuple[Any, Any]:
        results = []
        for i in range(info.batch_size):
            pairs = zip(arguments[:2], axes[:2], strict=True)
            own = [t if axis is None else t.select(axis, i) for t, axis in pairs]
            results.append(function()(*own, *arguments[2:]))
        return torch.stack(results), 0

    return rule


_pull: Any = define(
    "embedding_pull",
    "(Tensor cotangent, Tensor indices, SymInt count, int padding, bool by_count) -> Tensor",
    cpu=row_sums,
    fake=lambda g, indices, count, *_: g.new_empty(count, g.shape[-1]),
    backward=_pull_backward,
    jvp=lambda context, dg, *_: _pull(dg, context.tensors[1], *context.parameters),
    vmap=_each(lambda: _pull),
    tensors=2,
)
_rows: Any = define(
    "embedding",
    "(Tensor weight, Tensor indices, int padding, bool by_count) -> Tensor",
    cpu=lambda weight, indices, *_: F.embedding(indices, weight.detach()),
    fake=lambda weight, indices, *_: weight.new_empty(*indices.shape, weight.shape[1]),
    backward=lambda context, g: (
        _pull(g, context.tensors[1], context.tensors[0].shape[0], *context.parameters),
        None,
    ),
    jvp=lambda context, t, *_: _rows(t, context.tensors[1], *context.parameters),
    vmap=_each(lambda: _rows),
    tensors=2,
)
torch.fx.wrap("embedding")
