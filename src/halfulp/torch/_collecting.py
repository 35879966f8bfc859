"""Parameter gradients as sums over the batch, handed to someone who knows the other parts of the batch.

While a collector is installed, a layer with parameters runs with them detached, and a node behind its output asks the
collector for their gradients. The collector sees the layer's input and the cotangent of its output, which is all that
the gradient depends on.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from halfulp.errors import PolicyError
from halfulp.records import Conv
from halfulp.torch._bridge import bridge_of
from halfulp.torch._convolution import channel_sum
from halfulp.torch._errors import as_torch_error
from halfulp.torch._generated import matmul
from halfulp.torch._tracing import Bridged
from halfulp.torch.embedding_rows import row_sums

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_INSTANCE_NORMS = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
_NORMS = (nn.LayerNorm, nn.GroupNorm, *_INSTANCE_NORMS, *_BATCH_NORMS)
_KINDS = (*_CONVOLUTIONS, *_TRANSPOSED, nn.Linear, nn.Embedding, *_NORMS)
_Function: Any = torch.autograd.Function


def mixes_batch(layer: nn.Module) -> bool:
    """Whether a row of the layer's output, or a running statistic, depends on other rows of the batch."""
    if isinstance(layer, _INSTANCE_NORMS):
        return layer.training and layer.track_running_stats
    return isinstance(layer, _BATCH_NORMS) and (layer.training or layer.running_mean is None)


class Collector:
    """What gives the parameters' gradients."""

    operator: str

    @abstractmethod
    def gradients(self, name: tuple[str, int], layer: nn.Module, x: Tensor, g: Tensor) -> list[Tensor | None]:
        """The gradients of the layer's own parameters, in their order; None where they come later.

        ``name`` is the layer's, and which of its uses in one forward this is.
        """

    @abstractmethod
    def mixed(self, name: str, layer: nn.Module, forward: Any, x: Tensor) -> Tensor:
        """The output of a layer that mixes the rows of a batch."""

    def check(self, model: nn.Module) -> None:
        """Every parameter must belong to a layer whose gradient is a known sum."""
        for name, layer in model.named_modules():
            own = [key for key, p in layer.named_parameters(recurse=False) if p.requires_grad]
            if not own:
                continue
            shown = f"parameter {'.'.join(filter(None, (name, own[0])))!r} of {type(layer).__name__}"
            if not isinstance(layer, _KINDS):
                refuse(
                    self.operator,
                    shown,
                    "must belong to a convolution, a linear layer, an embedding or a normalisation",
                )
            if not isinstance(layer, Bridged):
                refuse(
                    self.operator, shown, "is PyTorch's own; call halfulp.torch.replace(model, everything=True) first"
                )
            if getattr(layer, "precision", "correct") != "correct":
                refuse(self.operator, shown, "has precision='fast', whose sums depend on their order")

    @contextmanager
    def installed(self, model: nn.Module) -> Iterator[None]:
        """The collector in place of the layers' own gradients, within the block."""
        layers = [(n, m) for n, m in model.named_modules() if isinstance(m, _KINDS) and "forward" not in vars(m)]
        uses: dict[str, int] = {}
        counted: Any = model.register_forward_pre_hook(lambda *_: uses.clear())
        for name, layer in layers:
            vars(layer)["forward"] = _Collected(self, name, layer, uses)
        try:
            yield
        finally:
            counted.remove()
            for _, layer in layers:
                vars(layer).pop("forward", None)


def refuse(operator: str, argument: str, rule: str) -> None:
    """A refusal of this part."""
    raise as_torch_error(PolicyError(operator, argument, rule, "B8"))


class _Collected:
    """The forward of a layer while a collector is installed."""

    def __init__(self, collector: Collector, name: str, layer: nn.Module, uses: dict[str, int]) -> None:
        self.collector, self.name, self.layer, self.uses = collector, name, layer, uses

    def __call__(self, x: Tensor, *more: Any) -> Tensor:
        if mixes_batch(self.layer):
            return self.collector.mixed(self.name, self.layer, self.forward, x)
        wanted = owned(self.layer)
        if not torch.is_grad_enabled() or not wanted:
            return self.forward(x, *more)
        use = self.uses[self.name] = self.uses.get(self.name, -1) + 1
        output: Tensor = _Collect.apply(x, self, (self.name, use), more, *wanted)
        return output

    def forward(self, *arguments: Any) -> Tensor:
        """The layer's own forward."""
        kind: Any = type(self.layer)
        output: Tensor = kind.forward(self.layer, *arguments)
        return output


def owned(layer: nn.Module) -> list[Tensor]:
    """The layer's own parameters that want a gradient."""
    return [p for p in layer.parameters(recurse=False) if p.requires_grad]


@contextmanager
def replaced(layer: nn.Module, tensors: list[Tensor], dtype: torch.dtype | None = None) -> Iterator[None]:
    """The layer with these tensors in place of its own parameters that want a gradient; the rest in this type."""
    stores: Any = (layer._parameters, layer._buffers)
    kept = [dict(store) for store in stores]
    names = [name for name, p in kept[0].items() if p is not None and p.requires_grad]
    if dtype is not None:
        for store in stores:
            store.update({k: v.detach().to(dtype) for k, v in store.items() if v is not None and v.is_floating_point()})
    stores[0].update(zip(names, tensors, strict=True))
    try:
        yield
    finally:
        for store, before in zip(stores, kept, strict=True):
            store.update(before)


class _Collect(_Function):  # type: ignore[misc]
    """The layer's output, with the collector's gradients for its parameters."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: Any, name: Any, more: Any, *parameters: Tensor) -> Tensor:
        # The layer has a graph of its own; what is returned is no view of an operand, so it may be changed in place.
        ctx.told, ctx.input = (layer, name), x.detach().requires_grad_(x.requires_grad)
        with replaced(layer.layer, [p.detach() for p in parameters]), torch.enable_grad():
            ctx.output = layer.forward(ctx.input, *more)
        output: Tensor = ctx.output.detach()
        return output

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, g: Tensor) -> Any:
        layer, name = ctx.told
        dx = torch.autograd.grad(ctx.output, ctx.input, g)[0] if ctx.input.requires_grad else None
        found = layer.collector.gradients(name, layer.layer, ctx.input.detach(), g)
        return dx, None, None, None, *found


def pulled(layer: Any, x: Tensor, g: Tensor, double: bool = False) -> list[Tensor]:
    """The gradients of a layer's parameters for one part of the batch, correctly rounded; to float64 if asked."""
    if double:
        x, g = x.double() if x.is_floating_point() else x, g.double()
    if isinstance(layer, nn.Embedding):
        padding = -1 if layer.padding_idx is None else layer.padding_idx
        return [row_sums(g, x, layer.num_embeddings, padding, layer.scale_grad_by_freq)]
    if isinstance(layer, nn.Linear):
        rows = g.reshape(-1, g.shape[-1])
        found = [matmul(rows.t(), x.reshape(-1, x.shape[-1]))]
        return _wanted(layer, [*found, *([] if layer.bias is None else [channel_sum(rows.unsqueeze(-1))])])
    if isinstance(layer, _CONVOLUTIONS):
        return _wanted(layer, _pulled_convolution(layer, x, g))
    leaves = [p.detach().to(g.dtype).requires_grad_() for p in owned(layer)]
    with replaced(layer, leaves, g.dtype), torch.enable_grad():
        y = type(layer).forward(layer, x.detach())
        return list(torch.autograd.grad(y, leaves, g))


def _wanted(layer: nn.Module, found: list[Tensor]) -> list[Tensor]:
    needs = [p.requires_grad for p in layer.parameters(recurse=False)]
    return [each for each, need in zip(found, needs, strict=True) if need]


def _pulled_convolution(layer: Any, x: Tensor, g: Tensor) -> list[Tensor]:
    padding, rank = layer.padding, len(layer.kernel_size)
    if layer.padding_mode != "zeros":
        x, padding = F.pad(x, layer._reversed_padding_repeated_twice, mode=layer.padding_mode), 0
    if x.dim() == rank + 1:
        x, g = x.unsqueeze(0), g.unsqueeze(0)
    precision = getattr(layer, "precision", "correct")
    kernel = tuple(layer.kernel_size)
    conv = bridge_of(Conv)
    parameters = conv.parameters(rank, kernel, layer.stride, padding, layer.dilation, layer.groups, precision)
    found = [conv.weight_cotangent(g, x, layer.weight.shape, *parameters)]
    return found if layer.bias is None else [*found, channel_sum(g)]
