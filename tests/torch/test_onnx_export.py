"""Poolings that ONNX has no node for, or not with these settings, are exported as standard nodes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import onnxruntime
import pytest
import torch
from torch import nn

import halfulp.torch as ht

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
infinity = float("inf")
CALLS: dict[str, Callable[[Any], Any]] = {
    "average with a divisor, 1-D": lambda x: ht.avg_pool1d(x[0], 3, divisor_override=2),
    "average with a divisor and dilation": lambda x: ht.avg_pool2d(x, 3, 2, 1, divisor_override=5, dilation=2),
    "average with dilation": lambda x: ht.avg_pool2d(x, 2, dilation=2),
    "average with dilation, without padding's cells": lambda x: ht.avg_pool2d(x, 2, 2, 1, True, False, dilation=3),
    "average with dilation and padding's cells": lambda x: ht.avg_pool2d(x, 2, 2, 1, True, True, dilation=3),
    "average with a last, partial window": lambda x: ht.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
    "sum": lambda x: ht.sum_pool2d(x, 3, 2, 1),
    "sum, partial windows": lambda x: ht.sum_pool2d(x, 3, 2, 1, 2, True),
    "minimum": lambda x: ht.min_pool2d(x, 3, 2, 1, 2, True),
    "global minimum": lambda x: ht.global_min_pool2d(x),
    "smooth maximum": lambda x: ht.smooth_max_pool2d(x, 3, 2.0),
    "smooth minimum with padding": lambda x: ht.smooth_max_pool2d(x, 3, -2.0, 2, 1, 1, True),
    "l2": lambda x: ht.lp_pool2d(x, 2, 2),
    "l2 with padding": lambda x: ht.lp_pool2d(x, 2, 3, 2, padding=1),
    "l2, partial windows": lambda x: ht.lp_pool2d(x, 2, 3, 2, True),
    "l3 with dilation": lambda x: ht.lp_pool2d(x, 3, 2, 2, dilation=2),
    "l1, 1-D": lambda x: ht.lp_pool1d(x[0], 1.0, 3, 2, True, padding=1, dilation=2),
    "largest magnitude": lambda x: ht.lp_pool2d(x, infinity, 3, 2, padding=1),
    "maximum with padding on one side": lambda x: ht.max_pool2d(x, 2, 1, ((1, 0), (0, 1))),
    "its places": lambda x: ht.max_pool2d(x, 2, 1, ((1, 0), (0, 1)), return_indices=True)[1].float(),
    "places of minima": lambda x: ht.min_pool2d(x, 2, return_indices=True)[1].float(),
    "average with padding on one side": lambda x: ht.avg_pool2d(x, 2, 1, ((1, 0), (0, 1)), count_include_pad=False),
    "adaptive maximum": lambda x: ht.adaptive_max_pool2d(x, (3, 5)),
    "unpool": lambda x: ht.max_unpool2d(*ht.max_pool2d(x, 2, return_indices=True), 2),
    "unpool to a size": lambda x: ht.max_unpool2d(*ht.max_pool2d(x, 2, return_indices=True), 2, output_size=(9, 11)),
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


class Call(nn.Module):
    def __init__(self, call: Any) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: torch.Tensor) -> Any:
        return self.call(x)


@pytest.mark.parametrize("name", CALLS)
def test_exported_pooling_has_the_same_values(name: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 9, 10)
    program: Any = torch.onnx.export(Call(CALLS[name]), (x,), dynamo=True, verbose=False)
    assert {node.domain for node in program.model_proto.graph.node} == {""}
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    found = session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]
    torch.testing.assert_close(torch.from_numpy(found), CALLS[name](x), rtol=1e-5, atol=1e-6)  # ONNX Runtime rounds


@pytest.mark.parametrize("layer", [nn.LPPool1d(2, 2), nn.LPPool1d(infinity, 2), nn.LPPool1d(3, 3, 1, True)])
def test_replaced_norm_pools_are_exported(layer: nn.Module) -> None:
    model = ht.replace(nn.Sequential(layer).eval(), everything=True).model
    program: Any = torch.onnx.export(model, (torch.ones(1, 2, 8),), dynamo=True, verbose=False)
    assert {node.domain for node in program.model_proto.graph.node} == {""}
