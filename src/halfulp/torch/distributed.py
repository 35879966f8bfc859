"""Data-parallel training with the bits of one process: :class:`ExactDataParallel` on ``torch.distributed`` (gloo).

A parameter's gradient is a sum over the batch, rounded once. Each worker computes its part rounded to float64, and
every part of every sum goes to one worker, which adds them in double the precision and knows how far that may be from
the exact sum. Where both ends of that interval round to the same float, that float is the gradient of the whole batch.
Elsewhere (about one element in 2**27, and exact ties) the workers exchange the operands of that layer and compute its
gradient from the whole batch. Rounded sums are all that comes back: 12 bytes per element against the 8 of a float32
all-reduce.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist

from halfulp.errors import HalfulpError
from halfulp.torch._collecting import Collector, owned, pulled, refuse, replaced

__all__ = ["ExactDataParallel", "WorkerLostError"]

_dist: Any = dist


class WorkerLostError(HalfulpError, RuntimeError):
    """Another worker ended, or did not answer in time."""


class ExactDataParallel(nn.Module, Collector):
    """A model that each of several processes runs on its part of the batch, in the order of their ranks.

    Gradients are those of one process with the whole batch, bit for bit, for any number of processes: the sum, over all
    rows, of the loss that each process calls ``backward`` on. So a mean is taken over the whole batch:
    ``loss(outputs, labels, reduction="sum") / whole_batch``. Batch norm in training takes its statistics from the whole
    batch. Parameters and buffers are those of rank 0. Every process must make the same calls in the same order.

    ``timeout`` seconds without an answer, or the end of another process, is a :class:`WorkerLostError` on all others.

    >>> import torch, halfulp.torch as ht
    >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    >>> model = ht.distributed.ExactDataParallel(ht.Conv2d(1, 1, 2))
    >>> model(torch.ones(1, 1, 3, 3)).sum().backward()
    >>> model.module.weight.grad.flatten()
    tensor([4., 4., 4., 4.])
    >>> torch.distributed.destroy_process_group()
    """

    operator = "ExactDataParallel"

    def __init__(self, module: nn.Module, process_group: Any = None, timeout: float = 300.0) -> None:
        super().__init__()
        if not dist.is_available() or not dist.is_initialized():
            refuse(self.operator, "torch.distributed", "call torch.distributed.init_process_group('gloo', …) first")
        if not timeout > 0:
            refuse(self.operator, f"timeout={timeout!r}", "must be a number of seconds > 0")
        self.check(module)
        self.module = module
        self._group = process_group if process_group is not None else _dist.group.WORLD
        self._timeout = timedelta(seconds=timeout)
        self._rank, self._size = _dist.get_rank(self._group), _dist.get_world_size(self._group)
        self.sent_bytes = 0
        """Bytes that this worker has sent for gradients."""
        self.exchanged = 0
        """Gradients for which the workers exchanged operands."""
        for tensor in (*module.parameters(), *module.buffers()):
            self._ask("parameters of rank 0", _dist.broadcast, tensor.detach(), group_src=0)

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        """The module on this process's part of the batch."""
        with self.installed(self.module):
            return self.module(*arguments, **keywords)

    def _ask(self, doing: str, function: Any, *arguments: Any, **keywords: Any) -> None:
        """A collective call, waited for."""
        try:
            function(*arguments, **keywords, group=self._group, async_op=True).wait(self._timeout)
        except RuntimeError as error:
            rule = f"another worker ended or did not answer in {self._timeout.total_seconds():g} s ({error})"
            raise WorkerLostError(self.operator, f"rank {self._rank}, {doing}", rule, "B9") from error

    # Gradients of layers that treat rows alone

    def gradients(self, name: tuple[str, int], layer: nn.Module, x: Tensor, g: Tensor) -> list[Tensor | None]:
        """The gradients of the whole batch."""
        if self._size == 1:
            return list(pulled(layer, x, g))
        doing = f"gradient of {name[0] or type(layer).__name__!r}"
        sums = g.dtype is not torch.float64 and not getattr(layer, "scale_grad_by_freq", False)
        found = self._summed(doing, pulled(layer, x, g, double=True), g.dtype) if sums else None
        if found is None:
            self.exchanged += 1
            found = pulled(layer, self._gathered(doing, x), self._gathered(doing, g))
        return [each.to(p.dtype) for each, p in zip(found, owned(layer), strict=True)]

    def _summed(self, doing: str, parts: list[Tensor], dtype: torch.dtype) -> list[Tensor] | None:
        """The sums over all workers, rounded once; None on every worker if one of them is not certain."""
        flat = torch.cat([part.reshape(-1) for part in parts])
        share = -(-flat.numel() // self._size)
        sent = flat.new_zeros(self._size * share)
        sent[: flat.numel()] = flat
        received = torch.empty_like(sent)
        self._ask(doing, _dist.all_to_all_single, received, sent)
        total, certain = rounded_sum(received.view(self._size, share), dtype)
        mine = torch.cat([total, total.new_tensor([0.0 if certain else 1.0])])
        rows = [torch.empty_like(mine) for _ in range(self._size)]
        self._ask(doing, _dist.all_gather, rows, mine)
        self.sent_bytes += (self._size - 1) * (share * 8 + mine.numel() * mine.element_size())
        if any(row[-1] != 0 for row in rows):
            return None
        whole = torch.cat([row[:-1] for row in rows])[: flat.numel()]
        pieces: Any = torch.split(whole, [part.numel() for part in parts])
        return [piece.view(part.shape) for piece, part in zip(pieces, parts, strict=True)]

    def _gathered(self, doing: str, x: Tensor) -> Tensor:
        """The rows of all workers, in the order of their ranks; parts of a batch may differ in size."""
        counts = [torch.zeros(1, dtype=torch.int64) for _ in range(self._size)]
        self._ask(doing, _dist.all_gather, counts, torch.tensor([x.shape[0]]))
        most = int(max(counts))
        padded = x.new_zeros(most, *x.shape[1:])
        padded[: x.shape[0]] = x.detach()
        rows = [torch.empty_like(padded) for _ in counts]
        self._ask(doing, _dist.all_gather, rows, padded)
        self.sent_bytes += (self._size - 1) * padded.numel() * padded.element_size()
        return torch.cat([row[: int(count)] for row, count in zip(rows, counts, strict=True)])

    # Layers that mix the rows of a batch

    def mixed(self, name: str, layer: nn.Module, forward: Any, x: Tensor) -> Tensor:
        """The layer on the rows of all workers."""
        doing = f"batch of {name or type(layer).__name__!r}"
        if self._size == 1:
            return forward(x)  # type: ignore[no-any-return]
        output: Tensor = _Mixed.apply(x, self, doing, layer, forward, *owned(layer))
        return output


_Function: Any = torch.autograd.Function


class _Mixed(_Function):  # type: ignore[misc]
    """A layer on the rows of all workers, of which this worker keeps its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, model: Any, doing: str, layer: Any, forward: Any, *parameters: Tensor) -> Tensor:
        ctx.told = (model, doing)
        whole = model._gathered(doing, x).requires_grad_()
        counts = model._gathered(doing, torch.tensor([x.shape[0]]))
        ctx.first = int(counts[: model._rank].sum())
        ctx.count = x.shape[0]
        leaves = [p.detach().requires_grad_() for p in parameters]
        with replaced(layer, leaves), torch.enable_grad():
            ctx.output = forward(whole)
        ctx.whole, ctx.leaves = whole, leaves
        output: Tensor = ctx.output.detach()[ctx.first : ctx.first + ctx.count].clone()
        return output

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        model, doing = ctx.told
        cotangent = model._gathered(doing, g)
        dx, *rest = torch.autograd.grad(ctx.output, [ctx.whole, *ctx.leaves], cotangent)
        return dx[ctx.first : ctx.first + ctx.count], None, None, None, None, *rest


def rounded_sum(parts: Tensor, dtype: torch.dtype) -> tuple[Tensor, bool]:
    """The sums of the rows' exact values, rounded once, if rows rounded to float64 tell them all; whether they do."""
    total, tail = parts[0], torch.zeros_like(parts[0])
    for part in parts[1:]:
        larger = total + part
        shadow = larger - total
        tail = tail + ((total - (larger - shadow)) + (part - shadow))
        total = larger
    # Each row is off by at most half an ulp of it; the sum of the tails by far less than the half ulp added here.
    radius = parts.abs().sum(0) * (parts.shape[0] + 2) * 2.0**-53
    low, high = narrowed(total + (tail - radius), dtype), narrowed(total + (tail + radius), dtype)
    exact = (parts == 0).all(0)
    special = ~torch.isfinite(total)
    bits = torch.int32 if low.element_size() == 4 else torch.int16
    certain = bool(((low.view(bits) == high.view(bits)) | exact | special).all())  # also the sign of a zero
    return torch.where(special | exact, total.to(dtype), low), certain


def narrowed(values: Tensor, dtype: torch.dtype) -> Tensor:
    """float64 rounded once to ``dtype``: to 16 bits by way of a float32 that keeps the sticky bit."""
    single = values.to(torch.float32)
    if dtype is torch.float32:
        return single
    bits = single.view(torch.int32)
    off = single.double() != values
    above = single.double().abs() > values.abs()
    down = torch.where(off & above, bits - 1, bits)  # towards zero, then odd
    return torch.where(off & torch.isfinite(single), down | 1, bits).view(torch.float32).to(dtype)
