"""What a pullback keeps: small, and at most half of what PyTorch keeps for a stack of conv, relu and max pooling."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import halfulp as hu
from halfulp import ops

from .memory import held_bytes, torch_bytes


def stack(x: Any, weights: list[Any]) -> Any:
    for w in weights:
        x = hu.max_pool2d(ops.relu(hu.conv2d(x, w, padding=1)), 2)
    return x


def parameters() -> tuple[Any, list[Any]]:
    generator = np.random.default_rng(0)
    weights = [generator.standard_normal((n, m, 3, 3)).astype(np.float32) for m, n in ((1, 8), (8, 8), (8, 8))]
    return generator.standard_normal((2, 1, 32, 32)).astype(np.float32), weights


def test_backward_memory_is_at_most_half_of_pytorchs() -> None:
    x, weights = parameters()
    output, pullback = hu.vjp(lambda w: stack(x, w), weights)
    ours = held_bytes(pullback, [output])
    tensors = [torch.tensor(w, requires_grad=True) for w in weights]
    image = torch.tensor(x)
    F = torch.nn.functional

    def theirs() -> Any:
        h = image
        for w in tensors:
            h = F.max_pool2d(F.relu(F.conv2d(h, w, padding=1)), 2)
        return h

    # Theirs without the input and the weights, which the caller holds; ours with its copies of both.
    reference = torch_bytes(theirs, [image, *tensors])
    assert reference > 0
    assert ours <= reference / 2, (ours, reference)


def test_relu_keeps_one_bit_and_max_pooling_one_byte_per_element() -> None:
    x = np.random.default_rng(0).standard_normal((8, 32, 32)).astype(np.float32)
    _, pullback = hu.vjp(lambda x: ops.relu(x), x)
    assert held_bytes(pullback, [x]) <= x.size / 8 + 64
    _, pullback = hu.vjp(lambda x: hu.max_pool2d(x, 2), x)
    assert held_bytes(pullback, [x]) <= x.size / 4 + 64


def test_values_that_no_pullback_needs_are_freed() -> None:
    x = np.ones((64, 64))
    output, pullback = hu.vjp(lambda x: ops.sum(x + x - x * 2.0 + (-x)), x)
    assert held_bytes(pullback, [x, output]) <= 256
