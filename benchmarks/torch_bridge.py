"""The PyTorch bridge beside PyTorch: max pooling, the overhead of a call, and a network before and after `replace`.

python -m benchmarks torch_bridge
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import nn

import halfulp as hu
import halfulp.torch as ht
from benchmarks.timing import best_times


def forward_and_backward(pool: Callable[..., torch.Tensor], x: torch.Tensor, g: torch.Tensor) -> Callable[[], Any]:
    def step() -> Any:
        return torch.autograd.grad(pool(x, 3, 2, 1), x, g)

    return step


def pooling(rounds: int, shape: tuple[int, int, int, int] = (32, 64, 112, 112)) -> dict[str, dict[str, float]]:
    """max_pool2d 3x3 stride 2 padding 1: forward, and forward with backward."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    g = torch.randn_like(F.max_pool2d(x, 3, 2, 1))
    functions = {"halfulp": ht.max_pool2d, "torch": F.max_pool2d}
    forward = best_times({name: lambda f=f: f(x, 3, 2, 1) for name, f in functions.items()}, rounds)
    x.requires_grad_()
    both = best_times({name: forward_and_backward(f, x, g) for name, f in functions.items()}, rounds)
    return {"max_pool2d forward": forward, "max_pool2d forward + backward": both}


def overhead(rounds: int = 9, calls: int = 2000) -> dict[str, float]:
    """Microseconds of one small call by this thread's own clock, and what the bridge adds to the NumPy call."""
    x = torch.randn(1, 4, 8, 8)
    array, op = x.numpy(), hu.MaxPool((2, 2))
    contenders: dict[str, Callable[[], Any]] = {
        "halfulp on NumPy": lambda: op(array),
        "halfulp.torch": lambda: ht.max_pool2d(x, 2),
        "torch": lambda: F.max_pool2d(x, 2),
    }
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, call in contenders.items():
            start = time.thread_time()
            for _ in range(calls):
                call()
            best[name] = min(best[name], 1e6 * (time.thread_time() - start) / calls)
    best["overhead of the bridge"] = best["halfulp.torch"] - best["halfulp on NumPy"]
    return best


def vgg(width: int = 64, classes: int = 10) -> nn.Sequential:
    """Five blocks of two convolutions and a max pooling, as VGG-13."""
    layers: list[nn.Module] = []
    channels = 3
    for block in range(5):
        out = width * min(2**block, 8)
        for _ in range(2):
            layers += [nn.Conv2d(channels, out, 3, padding=1), nn.ReLU(inplace=True)]
            channels = out
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def pooled(model: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """The outputs of the max poolings of a model."""
    outputs: list[torch.Tensor] = []
    hooks = [
        layer.register_forward_hook(lambda _m, _i, output: outputs.append(output))
        for layer in model.modules()
        if isinstance(layer, nn.MaxPool2d)
    ]
    with torch.no_grad():
        model(x)
    for hook in hooks:
        hook.remove()
    return outputs


def network(rounds: int, width: int = 64, batch: int = 8, size: int = 224) -> dict[str, dict[str, float]]:
    """A VGG-like network with and without `replace`: inference, and a training step."""
    torch.manual_seed(0)
    theirs = vgg(width)
    ours = ht.replace(theirs, inplace=False).model
    x, target = torch.randn(batch, 3, size, size), torch.randint(0, 10, (batch,))
    for mine, other in zip(pooled(ours, x), pooled(theirs, x), strict=True):
        assert torch.equal(mine, other), "a max pooling changed its output"
    models = {"halfulp": ours, "torch": theirs}

    def inference(model: nn.Module) -> None:
        with torch.inference_mode():
            model(x)

    def training(model: nn.Module) -> None:
        model.zero_grad()
        F.cross_entropy(model(x), target).backward()

    return {
        "network inference": best_times({n: lambda m=m: inference(m) for n, m in models.items()}, rounds),
        "network training step": best_times({n: lambda m=m: training(m) for n, m in models.items()}, rounds),
    }


def main(arguments: list[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks torch_bridge", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--width", type=int, default=64, help="channels of the network's first block")
    parser.add_argument("--no-network", action="store_true")
    options = parser.parse_args(arguments)
    rows = pooling(options.rounds)
    if not options.no_network:
        rows |= network(max(2, options.rounds // 2), options.width)
    table = Table("work", "halfulp ms", "torch ms", "times faster", title=f"{torch.get_num_threads()} threads, float32")
    for work, times in rows.items():
        ratio = times["torch"] / times["halfulp"]
        table.add_row(work, f"{1e3 * times['halfulp']:.1f}", f"{1e3 * times['torch']:.1f}", f"{ratio:.2f}")
    small = Table("one small call, 1x4x8x8", "µs")
    for name, microseconds in overhead().items():
        small.add_row(name, f"{microseconds:.1f}")
    console = Console()
    console.print(table)
    console.print(small)


if __name__ == "__main__":
    main()
