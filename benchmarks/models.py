"""Whole models beside PyTorch: inference at batch 8 and a training step.

python -m benchmarks models [--only resnet18] [--threads N] [--isa avx2] [--convolutions] [--layers]

Everything is replaced, or only the convolutions and pooling layers (``--convolutions``). Contenders take turns, the
best of several rounds counts: processor time on one thread, the clock on more. ``--layers`` measures every layer by
itself, on the input that it has in the model.
"""

from __future__ import annotations

import argparse
import copy
import time

import torch
from torch import Tensor, nn

import halfulp as hu
import halfulp.torch as ht
from benchmarks.networks import NETWORKS
from halfulp import _core


def clock() -> float:
    """Processor time on one thread, which a busy machine disturbs least; else the time of the clock."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def inference(model: nn.Module, x: Tensor) -> float:
    model.eval()
    began = clock()
    with torch.no_grad():
        model(x)
    return clock() - began


def training(model: nn.Module, x: Tensor) -> float:
    model.train()
    began = clock()
    y = model(x)
    y.backward(torch.full_like(y, 1e-3))
    model.zero_grad()
    return clock() - began


def pair(name: str, everything: bool) -> tuple[nn.Module, nn.Module]:
    """PyTorch's model, and ours with the same weights."""
    torch.manual_seed(0)
    theirs = NETWORKS[name]()
    ours = copy.deepcopy(theirs)
    ht.replace(ours, **({"everything": True} if everything else {"convolutions": True}))
    return theirs, ours


def measure(name: str, options: argparse.Namespace) -> None:
    theirs, ours = pair(name, not options.convolutions)
    x = torch.randn(options.batch, 3, options.size, options.size)
    for label, task in (("inference", inference), ("training", training)):
        best = {"halfulp": float("inf"), "PyTorch": float("inf")}
        for _ in range(options.rounds):
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
    """The time of a forward pass and of its backward pass, in milliseconds."""
    points = [value.clone().requires_grad_() for value in inputs]
    given = [value * 1 for value in points]  # a layer may work in place
    began = clock()
    output = layer(*given)
    between = clock()
    cotangent = torch.randn_like(output)
    again = clock()
    output.backward(cotangent)
    return 1e3 * (between - began), 1e3 * (clock() - again)


def measure_layers(name: str, options: argparse.Namespace) -> None:
    theirs, ours = (model.train() for model in pair(name, not options.convolutions))
    inputs = captured(theirs, torch.randn(options.batch, 3, options.size, options.size))
    rows: dict[str, list[float]] = {}  # layers that are alike: how many, ours and PyTorch's forward and backward
    for path, values in inputs.items():
        best = [float("inf")] * 4
        for _ in range(options.rounds):
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
    parser.add_argument("--only", choices=list(NETWORKS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--convolutions", action="store_true", help="replace only convolutions and pooling layers")
    parser.add_argument("--layers", action="store_true", help="every layer by itself")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    hu.set_num_threads(options.threads)
    print(f"{_core.get_isa()}, {options.threads} threads, {'processor time' if options.threads == 1 else 'wall time'}")
    for name in [options.only] if options.only else NETWORKS:
        (measure_layers if options.layers else measure)(name, options)
