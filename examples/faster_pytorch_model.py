"""Make the pooling layers of a PyTorch model faster by one line, and keep every bit of its output.

python examples/faster_pytorch_model.py [--batch 4] [--size 112]
"""

from __future__ import annotations

import argparse
import time

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


def best(function: object, repetitions: int = 5) -> float:
    """The best time of several, in milliseconds."""
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        function()  # type: ignore[operator]
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def main() -> None:
    """Time the model before and after, and compare the outputs of every max pooling."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--size", type=int, default=112)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    model = vgg_like().eval()
    x = torch.randn(arguments.batch, 3, arguments.size, arguments.size)

    outputs: list[torch.Tensor] = []
    for layer in model:
        if isinstance(layer, nn.MaxPool2d):
            layer.register_forward_hook(lambda module, inputs, output: outputs.append(output.clone()))

    def inference() -> None:
        with torch.no_grad():
            model(x)

    def training_step() -> None:
        model(x).square().sum().backward()

    inference()
    before_bits = list(outputs)
    before = best(inference), best(training_step)
    print(halfulp.torch.replace(model))
    outputs.clear()
    inference()
    assert all(torch.equal(a, b) for a, b in zip(before_bits, outputs, strict=True)), "max pooling has one right answer"
    after = best(inference), best(training_step)
    for name, old, new in zip(("inference", "training step"), before, after, strict=True):
        print(f"{name:14} {old:8.2f} ms -> {new:8.2f} ms   ({old / new:.2f} x)")
    print("every max pooling output is the same, bit for bit")


if __name__ == "__main__":
    main()
