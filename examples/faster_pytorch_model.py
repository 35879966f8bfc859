"""Replace the pooling layers of a PyTorch model with one line: same max pooling bits, less time.

python examples/faster_pytorch_model.py [--batch 4] [--size 112] [--rounds 5]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from torch import nn

import halfulp.torch


def vgg_like() -> nn.Sequential:
    """Convolutions, ReLU and max pooling, as in VGG, but narrow enough for a quick look."""
    layers: list[nn.Module] = []
    channels = 3
    for width in (32, 64, 128):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1)]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


def inference(model: nn.Module, x: torch.Tensor) -> None:
    """One forward pass without gradients."""
    with torch.no_grad():
        model(x)


def training_step(model: nn.Module, x: torch.Tensor) -> None:
    """One forward and backward pass."""
    model(x).square().sum().backward()


def max_pooling_outputs(model: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """What every max pooling layer returns."""
    outputs: list[torch.Tensor] = []
    hooks = [
        layer.register_forward_hook(lambda module, inputs, output: outputs.append(output.clone()))
        for layer in model.modules()
        if isinstance(layer, nn.MaxPool2d)
    ]
    inference(model, x)
    for hook in hooks:
        hook.remove()
    return outputs


def milliseconds(work: Callable[[nn.Module, torch.Tensor], None], model: nn.Module, x: torch.Tensor) -> float:
    """The processor time of one call on one thread: other programs on the machine do not count."""
    start = time.process_time()
    work(model, x)
    return 1e3 * (time.process_time() - start)


def compare(batch: int, size: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Best time of PyTorch's layers and of halfulp's, which take turns, for inference and a training step."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = vgg_like().eval()
    x = torch.randn(batch, 3, size, size)
    replaced = halfulp.torch.replace(model, inplace=False).model
    pairs = zip(max_pooling_outputs(model, x), max_pooling_outputs(replaced, x), strict=True)
    assert all(torch.equal(before, after) for before, after in pairs), "a max pooling output changed"
    best = {}
    for work in (inference, training_step):
        times = [(milliseconds(work, model, x), milliseconds(work, replaced, x)) for _ in range(rounds)]
        before, after = zip(*times, strict=True)
        best[work.__name__.replace("_", " ")] = min(before), min(after)
    return best


def main() -> None:
    """Print what was replaced, and both times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--size", type=int, default=112)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    print(halfulp.torch.replace(vgg_like()))
    for name, (before, after) in compare(arguments.batch, arguments.size, arguments.rounds).items():
        print(f"{name:14} {before:8.2f} ms -> {after:8.2f} ms   ({before / after:.2f} x)")
    print("every max pooling output is the same, bit for bit")


if __name__ == "__main__":
    main()
