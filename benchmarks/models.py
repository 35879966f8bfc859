"""Whole models with everything replaced beside PyTorch: inference at batch 8 and a training step.

One thread, processor time, contenders in turn, best of several. ``python -m benchmarks models [--only resnet18]``.
``--layers`` measures every layer by itself, on the input that it has in the model.
The networks have the layers and sizes of their namesakes; weights are random.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import halfulp.torch as ht


def conv_norm(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, act: type = nn.ReLU
) -> nn.Module:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), act())


class Residual(nn.Module):
    """ResNet-18's block."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = conv_norm(inputs, outputs, 3, stride)
        self.second = conv_norm(outputs, outputs, 3, act=nn.Identity)
        self.down = conv_norm(inputs, outputs, 1, stride, act=nn.Identity) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(self.first(x)) + self.down(x))


def headed(features: list[nn.Module], channels: int) -> nn.Module:
    return nn.Sequential(*features, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def resnet18() -> nn.Module:
    layers: list[nn.Module] = [conv_norm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for outputs, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        layers.append(Residual(inputs, outputs, stride))
        inputs = outputs
    return headed(layers, 512)


def vgg16() -> nn.Module:
    layers: list[nn.Module] = []
    inputs = 3
    for block in ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512)):
        for outputs in block:
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(inplace=True)]
            inputs = outputs
        layers.append(nn.MaxPool2d(2))
    head = [nn.Linear(25088, 4096), nn.ReLU(True), nn.Linear(4096, 4096), nn.ReLU(True), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(7), nn.Flatten(), *head)


class Inverted(nn.Module):
    """MobileNetV3's block."""

    def __init__(self, inputs: int, kernel: int, wide: int, outputs: int, excite: bool, act: type, stride: int) -> None:
        super().__init__()
        self.expand = conv_norm(inputs, wide, 1, act=act) if wide != inputs else nn.Identity()
        self.depth = conv_norm(wide, wide, kernel, stride, wide, act=act)
        squeezed = max(8, wide // 4 // 8 * 8)
        self.squeeze = nn.ModuleList([nn.Conv2d(wide, squeezed, 1), nn.Conv2d(squeezed, wide, 1)]) if excite else None
        self.project = conv_norm(wide, outputs, 1, act=nn.Identity)
        self.same = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y = self.depth(self.expand(x))
        if self.squeeze is not None:
            y = y * F.hardsigmoid(self.squeeze[1](F.relu(self.squeeze[0](F.adaptive_avg_pool2d(y, 1)))))
        y = self.project(y)
        return x + y if self.same else y


def mobilenet_v3_small() -> nn.Module:
    swish, relu = nn.Hardswish, nn.ReLU
    rows = [
        (16, 3, 16, 16, True, relu, 2),
        (16, 3, 72, 24, False, relu, 2),
        (24, 3, 88, 24, False, relu, 1),
        (24, 5, 96, 40, True, swish, 2),
        (40, 5, 240, 40, True, swish, 1),
        (40, 5, 240, 40, True, swish, 1),
        (40, 5, 120, 48, True, swish, 1),
        (48, 5, 144, 48, True, swish, 1),
        (48, 5, 288, 96, True, swish, 2),
        (96, 5, 576, 96, True, swish, 1),
        (96, 5, 576, 96, True, swish, 1),
    ]
    return headed([conv_norm(3, 16, 3, 2, act=swish), *(Inverted(*row) for row in rows), conv_norm(96, 576, 1)], 576)


class Shuffled(nn.Module):
    """ShuffleNetV2's block."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        half = outputs // 2
        taken = inputs if stride > 1 else half
        self.stride = stride
        depth = conv_norm(half, half, 3, stride, half, act=nn.Identity)
        self.main = nn.Sequential(conv_norm(taken, half, 1), depth, conv_norm(half, half, 1))
        beside = conv_norm(inputs, inputs, 3, stride, inputs, act=nn.Identity)
        self.side = nn.Sequential(beside, conv_norm(inputs, half, 1)) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        first, second = (x, x) if self.stride > 1 else x.chunk(2, 1)
        y = torch.cat([self.side(first), self.main(second)], 1)
        n, c, h, w = y.shape
        return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


def shufflenet_v2() -> nn.Module:
    layers: list[nn.Module] = [conv_norm(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)]
    inputs = 24
    for outputs, count in ((116, 4), (232, 8), (464, 4)):
        for i in range(count):
            layers.append(Shuffled(inputs, outputs, 2 if i == 0 else 1))
            inputs = outputs
    return headed([*layers, conv_norm(464, 1024, 1)], 1024)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "resnet18": resnet18,
    "vgg16": vgg16,
    "mobilenet_v3_small": mobilenet_v3_small,
    "shufflenet_v2": shufflenet_v2,
}


def inference(model: nn.Module, x: Tensor) -> float:
    model.eval()
    began = time.process_time()
    with torch.no_grad():
        model(x)
    return time.process_time() - began


def training(model: nn.Module, x: Tensor) -> float:
    model.train()
    began = time.process_time()
    y = model(x)
    y.backward(torch.full_like(y, 1e-3))
    model.zero_grad()
    return time.process_time() - began


def measure(name: str, batch: int, size: int, rounds: int) -> None:
    torch.manual_seed(0)
    theirs = MODELS[name]()
    ours = copy.deepcopy(theirs)
    ht.replace(ours, everything=True)
    x = torch.randn(batch, 3, size, size)
    for label, task in (("inference", inference), ("training", training)):
        best = {"halfulp": float("inf"), "PyTorch": float("inf")}
        for _ in range(rounds):
            for key, model in (("halfulp", ours), ("PyTorch", theirs)):
                best[key] = min(best[key], task(model, x))
        ratio = best["halfulp"] / best["PyTorch"]
        shown = ", ".join(f"{key} {value * 1e3:.0f} ms" for key, value in best.items())
        print(f"{name:<20} {label:<10} {shown}, ratio {ratio:.2f}", flush=True)


def captured(model: nn.Module, x: Tensor) -> dict[str, list[Tensor]]:
    """The name of every layer without layers of its own -> its inputs in a forward pass."""
    found: dict[str, list[Tensor]] = {}
    handles = []
    for name, layer in model.named_modules():
        if not list(layer.children()):

            def note(_: nn.Module, inputs: tuple[Tensor, ...], name: str = name) -> None:
                found[name] = [value.detach().clone() for value in inputs]

            handles.append(layer.register_forward_pre_hook(note))
    with torch.no_grad():
        model(x)
    for handle in handles:
        handle.remove()
    return found


def layer_times(layer: nn.Module, inputs: list[Tensor]) -> tuple[float, float]:
    """Processor time of a forward pass and of its backward pass, in milliseconds."""
    points = [value.clone().requires_grad_() for value in inputs]
    given = [value * 1 for value in points]  # a layer may work in place
    began = time.process_time()
    output = layer(*given)
    between = time.process_time()
    cotangent = torch.randn_like(output)
    again = time.process_time()
    output.backward(cotangent)
    return 1e3 * (between - began), 1e3 * (time.process_time() - again)


def measure_layers(name: str, batch: int, size: int, rounds: int) -> None:
    torch.manual_seed(0)
    theirs = MODELS[name]().train()
    inputs = captured(theirs, torch.randn(batch, 3, size, size))
    ours = copy.deepcopy(theirs)
    ht.replace(ours, everything=True)
    rows: dict[str, list[float]] = {}  # layers that are alike: how many, ours and PyTorch's forward and backward
    for path, values in inputs.items():
        best = [float("inf")] * 4
        for _ in range(rounds):
            for at, model in ((0, ours), (2, theirs)):
                forward, backward = layer_times(model.get_submodule(path), values)
                best[at], best[at + 1] = min(best[at], forward), min(best[at + 1], backward)
        label = f"{theirs.get_submodule(path)} {'x'.join(map(str, values[0].shape))}"
        total = rows.setdefault(label, [0.0] * 5)
        rows[label] = [a + b for a, b in zip(total, [1, *best], strict=True)]
    print(f"{name}: milliseconds forward and backward, halfulp / PyTorch; largest difference first")
    for label, (count, *t) in sorted(rows.items(), key=lambda row: row[1][3] + row[1][4] - row[1][1] - row[1][2]):
        print(f"{t[0]:8.2f} /{t[2]:8.2f} {t[1]:8.2f} /{t[3]:8.2f}  {int(count)} x {label}")
    t = [sum(row[i] for row in rows.values()) for i in range(5)]
    print(f"{t[1]:8.2f} /{t[3]:8.2f} {t[2]:8.2f} /{t[4]:8.2f}  all layers", flush=True)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks models", description=__doc__)
    parser.add_argument("--only", choices=list(MODELS))
    parser.add_argument("--layers", action="store_true", help="every layer by itself")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    for name in [options.only] if options.only else MODELS:
        (measure_layers if options.layers else measure)(name, options.batch, options.size, options.rounds)
