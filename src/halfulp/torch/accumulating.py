"""A batch in pieces with the gradients of the whole: :class:`pieces`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from halfulp.torch._collecting import Collector, owned, pulled, refuse

__all__ = ["pieces"]


class pieces(Collector):  # a context manager, named as a function is
    """Within the block, ``backward`` calls belong to pieces of one batch; its end gives the gradients of the whole.

    A parameter's gradient is a sum over the batch, rounded once. Adding the rounded gradients of pieces would round
    once more per piece, so the layers' inputs and the cotangents of their outputs are kept until the end of the block,
    and each gradient is computed from all of them: the bits of one batch. That is the memory of these tensors for
    the whole batch; all other intermediate values are those of a piece. The loss of a piece is its share of the whole:
    ``loss(outputs, labels, reduction="sum") / whole_batch``. Batch norm in training mixes the rows of a piece and is
    refused.

    >>> import torch, halfulp.torch as ht
    >>> model, x = ht.Conv1d(1, 1, 1), torch.tensor([[[1e8]], [[1.0]], [[-1e8]]])
    >>> with ht.pieces(model):
    ...     for row in x:
    ...         model(row[None]).sum().backward()
    >>> model.weight.grad.item()
    1.0
    """

    operator = "pieces"

    def __init__(self, model: nn.Module) -> None:
        self.check(model)
        self._model = model
        self._kept: dict[tuple[str, int], tuple[nn.Module, list[Tensor], list[Tensor]]] = {}
        self._open = ExitStack()

    def gradients(self, name: tuple[str, int], layer: nn.Module, x: Tensor, g: Tensor) -> list[Tensor | None]:
        """Keep what the gradients depend on."""
        _, inputs, cotangents = self._kept.setdefault(name, (layer, [], []))
        inputs.append(x)
        cotangents.append(g)
        return [None] * len(owned(layer))

    def mixed(self, name: str, layer: nn.Module, forward: Any, x: Tensor) -> Tensor:
        """Refuse: statistics of a piece are not those of the whole."""
        refuse(
            self.operator, f"{type(layer).__name__} {name!r} in training", "mixes the rows of a piece; call its eval()"
        )
        return x

    def __enter__(self) -> pieces:
        self._kept.clear()
        self._open.enter_context(self.installed(self._model))
        return self

    def __exit__(self, kind: Any, *error: Any) -> None:
        self._open.close()
        if kind is None:
            totals: dict[Tensor, Tensor] = {}
            for name in sorted(self._kept, key=lambda key: -key[1]):  # autograd adds the last use first
                layer, inputs, cotangents = self._kept[name]
                found = pulled(layer, torch.cat(inputs), torch.cat(cotangents))
                for parameter, gradient in zip(owned(layer), found, strict=True):
                    gradient = gradient.to(parameter.dtype)
                    totals[parameter] = totals[parameter] + gradient if parameter in totals else gradient
            for parameter, gradient in totals.items():
                parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        self._kept.clear()
