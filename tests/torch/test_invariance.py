"""Six architectures with everything replaced: the same bits for any threads, batch split and layout."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

import halfulp.torch as ht
from tests.torch.architectures import ALL


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def made(name: str) -> tuple[nn.Module, ht.Replacement]:
    torch.manual_seed(0)
    model = ALL[name]()
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.weight, 0.5, 1.5)
            nn.init.normal_(layer.bias)
            nn.init.normal_(layer.running_mean)
            nn.init.uniform_(layer.running_var, 0.5, 2)
    return model, ht.replace(model, everything=True)


def images(size: int = 32) -> Tensor:
    torch.manual_seed(1)
    return torch.randn(8, 3, size, size)


def same(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.contiguous().view(torch.int32), b.contiguous().view(torch.int32))


@pytest.mark.parametrize("name", ALL)
def test_evaluation_does_not_depend_on_threads_batch_or_layout(name: str) -> None:
    model, report = made(name)
    model.eval()
    x = images()
    with torch.no_grad():
        torch.set_num_threads(1)
        expected = model(x)
        assert report.not_covered == {}
        torch.set_num_threads(2)
        assert same(model(x), expected)
        assert same(torch.cat([model(row[None]) for row in x]), expected)
        assert same(model.to(memory_format=torch.channels_last)(x.to(memory_format=torch.channels_last)), expected)


def step(name: str, threads: int, layout: torch.memory_format) -> list[Tensor]:
    """Gradients, and the running statistics, of one training step."""
    torch.set_num_threads(threads)
    model, _ = made(name)
    model = model.to(memory_format=layout)
    labels = torch.arange(8) % 5
    with ht.patched(everything=True), ht.dropout_step(seed=0, step=0):
        losses = torch.log_softmax(model(images().to(memory_format=layout)), 1)[torch.arange(8), labels]
    losses.backward(torch.full_like(losses, -0.125))
    return [p.grad for p in model.parameters()] + [b for b in model.buffers() if b.is_floating_point()]


@pytest.mark.parametrize("name", ALL)
def test_a_training_step_does_not_depend_on_threads_or_layout(name: str) -> None:
    expected = step(name, 1, torch.contiguous_format)
    for threads, layout in ((2, torch.contiguous_format), (1, torch.channels_last), (2, torch.channels_last)):
        assert all(same(a, b) for a, b in zip(step(name, threads, layout), expected, strict=True))


@pytest.mark.parametrize("name", ALL)
def test_gradients_of_pieces_are_those_of_the_batch(name: str) -> None:
    grads = []
    for cuts in ([8], [1] * 8, [3, 5]):
        model, _ = made(name)
        model.eval()  # batch norm with fixed statistics: each row for itself
        x, weights = images(), torch.linspace(-1, 1, 40).reshape(8, 5)
        with ht.pieces(model):
            for piece, share in zip(x.split(cuts), weights.split(cuts), strict=True):
                model(piece).backward(share)
        grads.append([p.grad for p in model.parameters()])
    for found in grads[1:]:
        assert all(same(a, b) for a, b in zip(found, grads[0], strict=True))
