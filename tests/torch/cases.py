"""One small call of every operator family, for the tests of PyTorch's transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

import halfulp.torch as ht


class Case(NamedTuple):
    name: str
    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]

    def inputs(self, *, leading: tuple[int, ...] = (), requires_grad: bool = False) -> tuple[torch.Tensor, ...]:
        """Fixed pseudo-random tensors without ties."""
        generator = torch.Generator().manual_seed(len(self.name))
        tensors = [torch.randn(*leading, *s, generator=generator, dtype=torch.float64) for s in self.shapes]
        return tuple(t.requires_grad_(requires_grad) for t in tensors)


CASES = [
    Case("max_pool2d", lambda x: ht.max_pool2d(x, 2, 1, 1), ((1, 1, 3, 3),)),
    Case("max_pool1d_split", lambda x: ht.max_pool1d(x, 3, 2, 1, ties="split"), ((1, 2, 5),)),
    Case("max_pool2d_indices", lambda x: ht.max_pool2d(x, 2, 1, return_indices=True)[0], ((1, 3, 3),)),
    Case("avg_pool2d", lambda x: ht.avg_pool2d(x, 2, 1, 1, count_include_pad=False), ((1, 1, 3, 3),)),
    Case("smooth_max_pool1d", lambda x: ht.smooth_max_pool1d(x, 2, 1.5, 1), ((1, 1, 4),)),
    Case("adaptive_max_pool1d", lambda x: ht.adaptive_max_pool1d(x, 2), ((1, 2, 3),)),
    Case("adaptive_avg_pool1d", lambda x: ht.adaptive_avg_pool1d(x, 2), ((1, 2, 3),)),
    Case("global_max_pool1d", lambda x: ht.global_max_pool1d(x, keepdims=False), ((1, 2, 3),)),
    Case("global_avg_pool2d", lambda x: ht.global_avg_pool2d(x), ((1, 2, 2, 2),)),
    Case(
        "conv1d",
        lambda x, w, b: ht.conv1d(x, w, b, stride=2, padding=1, groups=2),
        ((1, 2, 4), (2, 1, 2), (2,)),
    ),
    Case("conv2d_same", lambda x, w: ht.conv2d(x, w, padding="same"), ((1, 3, 3), (1, 1, 2, 2))),
    Case(
        "conv_transpose1d",
        lambda x, w, b: ht.conv_transpose1d(x, w, b, stride=2, padding=1, output_padding=1, dilation=2),
        ((1, 2, 2), (2, 1, 3), (1,)),
    ),
]
IDS = [case.name for case in CASES]
