"""Data-parallel training with the bits of one process: :class:`ExactDataParallel` on ``torch.distributed`` (gloo).

A parameter's gradient is a sum over the batch, rounded once. Each worker computes its part rounded to float64, and
every part of every sum goes to one worker, which adds them in double the precision and knows how far that may be from
the exact sum. Where both ends of that interval round to the same float, that float is the gradient of the whole batch.
Elsewhere (about one element in 2**27, and exact ties) the workers exchange the operands of that layer and compute its
gradient from the whole batch. Rounded sums are all that comes back: 12 bytes per element against the 8 of a float32
all-reduce. Batch norm takes exact sums of all workers for every channel (:mod:`halfulp.torch._batch_moments`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist

from halfulp.errors import HalfulpError
from halfulp.records import BatchNorm
from halfulp.torch._batch_moments import Moments, exact_sums, packed, planes, rounded_totals, united
from halfulp.torch._collecting import Collector, owned, pulled, refuse, replaced
from halfulp.torch._generated import batch_norm
from halfulp.torch._rounding import narrowed

__all__ = ["ExactDataParallel", "WorkerLostError"]

_dist: Any = dist


class WorkerLostError(HalfulpError, RuntimeError):
    """Another worker ended, or did not answer in time."""


class ExactDataParallel(nn.Module, Collector):
    """A model that each of several processes runs on its part of the batch, in the order of their ranks.

    Gradients are those of one process with the whole batch, bit for bit, for any number of processes: the sum, over all
    rows, of the loss that each process calls ``backward`` on. So a mean is taken over the whole batch:
    ``loss(outputs, labels, reduction="sum") / whole_batch``. Statistics of a batch norm in training, and
    running ones of an instance norm, are those of the whole batch. Parameters and buffers are those of rank 0. Every
    process must make the same calls in the same order.

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

    def no_sync(self) -> AbstractContextManager[None]:
        """For scripts written for ``DistributedDataParallel`` that accumulate gradients: changes nothing.

        Each call of ``backward`` adds the gradients of that call's whole batch, rounded once, to ``.grad``. No later
        call sums what the workers hold.

        >>> import torch, halfulp.torch as ht
        >>> torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        >>> model = ht.distributed.ExactDataParallel(ht.Conv2d(1, 1, 2, bias=False))
        >>> with model.no_sync():
        ...     model(torch.ones(1, 1, 2, 2)).sum().backward()
        >>> model(torch.ones(1, 1, 2, 2)).sum().backward()
        >>> model.module.weight.grad.flatten()
        tensor([2., 2., 2., 2.])
        >>> torch.distributed.destroy_process_group()
        """
        return nullcontext()

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
        found: list[Any] = [None]
        if g.dtype is not torch.float64 and not getattr(layer, "scale_grad_by_freq", False):
            found = self._summed(doing, pulled(layer, x, g, double=True), g.dtype)
            if found[-1] is None and None not in found[:-1]:
                found[-1] = self._bias(doing, layer, g)
        if any(each is None for each in found):
            self.exchanged += 1
            found = pulled(layer, self._gathered(doing, x), self._gathered(doing, g))
        return [each.to(p.dtype) for each, p in zip(found, owned(layer), strict=True)]

    def _bias(self, doing: str, layer: Any, g: Tensor) -> Tensor | None:
        """The gradient of a bias from exact sums; it is often close to 0, as in front of a batch norm."""
        rank = len(getattr(layer, "kernel_size", ()))
        if getattr(layer, "bias", None) is None or not layer.bias.requires_grad:
            return None
        if isinstance(layer, nn.Linear):
            g = g.reshape(-1, g.shape[-1])
        elif not rank or g.dim() != rank + 2:
            return None
        cells = planes(g)
        positive = ~((cells == 0) & torch.signbit(cells))  # a sum of negative zeros alone is one
        fine = bool(torch.isfinite(cells).all())
        parts = [exact_sums(cells), exact_sums(positive.double())] if fine else []
        _, fine, sums = united(self._gathered(doing, packed(0, fine, parts)), g.shape[1])
        total, negative = rounded_totals(sums[0], g.dtype), torch.tensor([count == 0 for count in sums[1]])
        return torch.where(negative, -0.0, total) if fine else None

    def _summed(self, doing: str, parts: list[Tensor], dtype: torch.dtype) -> list[Tensor | None]:
        """The sums over all workers, rounded once; None on every worker where one of a part is not certain."""
        flat = torch.cat([part.reshape(-1) for part in parts])
        share = -(-flat.numel() // self._size)
        sent = flat.new_zeros(self._size * share)
        sent[: flat.numel()] = flat
        received = torch.empty_like(sent)
        self._ask(doing, _dist.all_to_all_single, received, sent)
        total, certain = rounded_sum(received.view(self._size, share), dtype)
        ends = torch.tensor([0, *(part.numel() for part in parts)]).cumsum(0) - self._rank * share
        ends = ends.clamp(0, share).tolist()
        unsure = [0.0 if bool(certain[a:b].all()) else 1.0 for a, b in pairwise(ends)]
        mine = torch.cat([total, total.new_tensor(unsure)])
        rows = [torch.empty_like(mine) for _ in range(self._size)]
        self._ask(doing, _dist.all_gather, rows, mine)
        self.sent_bytes += (self._size - 1) * (share * 8 + mine.numel() * mine.element_size())
        whole = torch.cat([row[:share] for row in rows])[: flat.numel()]
        unsure = torch.stack([row[share:] for row in rows]).sum(0).tolist()
        pieces: Any = torch.split(whole, [part.numel() for part in parts])
        triples = zip(pieces, parts, unsure, strict=True)
        return [None if not_sure else piece.view(part.shape) for piece, part, not_sure in triples]

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

    # Layers that mix the rows of a batch: exact sums of all workers, or all rows where these do not tell

    def mixed(self, name: str, layer: nn.Module, forward: Any, x: Tensor) -> Tensor:
        """Batch norm with the statistics of all workers' rows."""
        doing = f"batch of {name or type(layer).__name__!r}"
        if self._size == 1:
            return forward(x)  # type: ignore[no-any-return]
        moments = self._moments(doing, layer, x)
        if moments is not None:
            return self._normed(doing, layer, x, moments)
        output: Tensor = _Mixed.apply(x, self, doing, layer, forward, *owned(layer))
        return output

    def _moments(self, doing: str, layer: Any, x: Tensor) -> Moments | None:
        """The moments of the whole batch from the sums of all workers; None on all if they must exchange rows."""
        plain = getattr(type(layer), "_halfulp_base", type(layer)).forward is nn.BatchNorm2d.forward
        layer._check_input_dim(x)
        given = [t for t in (layer.weight, layer.bias) if t is not None]
        types, finite = {t.dtype for t in given}, all(bool(torch.isfinite(t).all()) for t in given)
        if not plain or not finite or x.dtype is torch.float64 or not types <= {x.dtype, torch.float32}:
            return None
        count, fine, sums = self._united(doing, x, None)
        return Moments.of(count, sums, layer.eps) if fine and count > 1 and layer.eps > 0 else None

    def _united(self, doing: str, x: Tensor, g: Tensor | None) -> Any:
        """The cells of all workers, whether all are finite, and the exact sums: of x and x^2, or of g and g x."""
        cells = planes(x)
        first = cells if g is None else planes(g)
        fine = bool(torch.isfinite(first).all())
        parts = [exact_sums(first), exact_sums(first * cells)] if fine else []
        packets = self._gathered(doing, packed(cells.shape[0] * cells.shape[2], fine, parts))
        return united(packets, x.shape[1])

    def _pulled_rows(self, doing: str, x: Tensor, weight: Any, bias: Any, g: Tensor, eps: float) -> list[Any]:
        """The cotangents where one is not finite: from the rows of all workers."""
        counts = self._gathered(doing, torch.tensor([x.shape[0]]))
        first = int(counts[: self._rank].sum())
        leaves = [self._gathered(doing, x), weight, bias]
        leaves = [None if t is None else t.detach().requires_grad_() for t in leaves]
        with torch.enable_grad():
            y = batch_norm(leaves[0], None, None, leaves[1], leaves[2], True, 0.0, eps)
        given = [t for t in leaves if t is not None]
        found: Any = iter(torch.autograd.grad(y, given, self._gathered(doing, g)))
        dx = next(found)[first : first + x.shape[0]]
        return [dx, *(None if t is None else next(found) for t in leaves[1:])]

    def _normed(self, doing: str, layer: Any, x: Tensor, moments: Moments) -> Tensor:
        """Batch norm of this worker's rows; running statistics move as those of ``torch.nn`` do."""
        momentum, running = layer.momentum, layer.training and layer.track_running_stats
        if running and layer.num_batches_tracked is not None:
            layer.num_batches_tracked.add_(1)
            momentum = 1.0 / float(layer.num_batches_tracked) if momentum is None else momentum
        tensors = [x, layer.weight, layer.bias]
        if any(t is not None and t.dtype is torch.float32 for t in tensors[1:]):  # as under autocast
            tensors = [None if t is None else t.float() for t in tensors]
        op = BatchNorm(True, momentum=0.0 if momentum is None else momentum, eps=layer.eps)
        for squares, old in enumerate((layer.running_mean, layer.running_var) if running else ()):
            if old is not None:
                old.detach().copy_(moments.moved(op, old, bool(squares), tensors[0].dtype))
        output: Tensor = _Normed.apply(*tensors, self, doing, moments)
        return output.to(x.dtype)


_Function: Any = torch.autograd.Function


class _Normed(_Function):  # type: ignore[misc]
    """Batch norm of this worker's rows, from exact sums over the rows of all."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Any, bias: Any, model: Any, doing: str, moments: Moments) -> Tensor:
        ctx.told = (model, doing, moments)
        ctx.save_for_backward(x, weight, bias)
        return moments.value(x, weight, bias)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        (model, doing, moments), (x, weight, bias) = ctx.told, ctx.saved_tensors
        _, fine, sums = model._united(doing, x, g)
        needs = ctx.needs_input_grad
        if not fine:
            return *model._pulled_rows(doing, x, weight, bias, g, moments.eps), None, None, None
        return (
            moments.cotangent(x, g, weight, sums) if needs[0] else None,
            moments.weight_cotangent(sums, x.dtype) if needs[1] else None,
            rounded_totals(sums[0], x.dtype) if needs[2] else None,
            None,
            None,
            None,
        )


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


def rounded_sum(parts: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The sums of the rows' exact values, rounded once, where rows rounded to float64 tell them; where they do."""
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
    certain = (low.view(bits) == high.view(bits)) | exact | special  # also the sign of a zero
    return torch.where(special | exact, total.to(dtype), low), certain
