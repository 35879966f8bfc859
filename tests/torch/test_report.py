"""What the report of ``replace(everything=True)`` names: PyTorch's own operators, and no others."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import halfulp.torch as ht


class Called(nn.Module):
    """Calls one function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ht.dropout(x, 0.5),
        lambda x: ht.embedding(torch.zeros(1, dtype=torch.long), x),
        lambda x: ht.linear(x, x),
        lambda x: ht.batch_norm(x, None, None, training=True),
        lambda x: ht.max_pool1d(x, 2, return_indices=True)[0],
        lambda x: ht.cross_entropy(x, torch.zeros(len(x), dtype=torch.long)),
    ],
)
def test_functions_of_ours_that_a_model_calls_itself_are_not_named(function: Any) -> None:
    assert ht.replace(Called(function), everything=True).run(torch.randn(3, 4)).not_covered == {}


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of the older one
@pytest.mark.parametrize("norm", [nn.utils.weight_norm, nn.utils.parametrizations.weight_norm])
def test_what_weight_norm_calls_is_not_named(norm: Any) -> None:
    model = Called(nn.Sequential(norm(nn.Conv2d(3, 4, 3)), norm(nn.Linear(4, 4))))
    assert ht.replace(model, everything=True).run(torch.randn(2, 3, 4, 6)).not_covered == {}


SHAPES: dict[str, Any] = {
    "product of stacks": lambda x, w: x @ x.transpose(-2, -1),
    "product with a matrix": lambda x, w: x @ w,
    "broadcast": lambda x, w: x * w[0] + w[1],
    "expand": lambda x, w: w[0].expand(x.shape[0], -1),
    "selection": lambda x, w: torch.maximum(x, w[0]),
    "attention": lambda x, w: nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True),
}


class Weighted(nn.Module):
    """Calls one function with a parameter."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function, self.weight = function, nn.Parameter(torch.randn(6, 6))

    def forward(self, x: Tensor) -> Any:
        return self.function(x, self.weight)


@pytest.mark.parametrize("name", SHAPES)
def test_exported_graphs_take_every_size_of_a_batch(name: str) -> None:
    model = Weighted(SHAPES[name])
    ht.replace(model, everything=True)
    sizes = ({0: torch.export.Dim("batch", min=1, max=64)},)
    program = torch.export.export(model, (torch.randn(2, 5, 6),), dynamic_shapes=sizes).module()
    x = torch.randn(7, 5, 6)
    assert torch.equal(program(x), model(x))


@torch.jit.script
def compiled(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


class Gate(torch.autograd.Function):
    """A function with a backward of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return g * torch.sigmoid(x)


def test_operators_in_compiled_functions_are_named_by_run() -> None:
    report = ht.replace(Called(compiled), everything=True).run(torch.ones(3))
    assert report.not_covered == {"sigmoid": "torch.ops.aten.sigmoid: PyTorch's own, in a compiled function"}


def test_the_backward_of_an_autograd_function_is_named() -> None:
    model = Called(lambda x: {"values": [Gate.apply(x) * 2]})
    report = ht.replace(model, everything=True)
    model(torch.ones(3, requires_grad=True))
    assert report.not_covered == {"Gate.backward": "runs with PyTorch's own functions"}


def test_a_checkpoint_of_a_function_is_named_and_of_a_module_is_not() -> None:
    def run(part: Any) -> dict[str, str]:
        model = Called(lambda x: checkpoint(part, x, use_reentrant=True))
        report = ht.replace(model, everything=True)
        model(torch.ones(2, 3, requires_grad=True))
        return report.not_covered

    inner = Called(lambda x: torch.softmax(x, 1))
    ht.replace(inner, everything=True)
    assert run(inner) == {}
    assert run(lambda x: torch.softmax(x, 1)) == {"CheckpointFunction.backward": "runs with PyTorch's own functions"}
