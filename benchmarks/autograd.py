"""The tape: recording overhead, a LeNet training step beside PyTorch's, and the memory that backward holds.

python -m benchmarks autograd
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import halfulp as hu
from halfulp import ops

BATCH = 64
SHAPES: dict[str, tuple[int, ...]] = {
    "conv1.weight": (6, 1, 5, 5),
    "conv1.bias": (6,),
    "conv2.weight": (16, 6, 5, 5),
    "conv2.bias": (16,),
    "full1.weight": (120, 400),
    "full1.bias": (120,),
    "full2.weight": (84, 120),
    "full2.bias": (84,),
    "full3.weight": (10, 84),
    "full3.bias": (10,),
}


class Identity:
    """The cheapest operator there is, so that what a node of it costs is what recording costs."""

    name = "identity"

    def __call__(self, x: Any) -> Any:
        return x

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        return primals[0], tangents[0]

    def vjp(self, x: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
        return x, _pass


def _pass(g: Any) -> tuple[Any, ...]:
    return (g,)


def recording_overhead(nodes: int = 10_000, rounds: int = 7) -> float:
    """Microseconds per node, beyond the operator's own call: the best round, by this thread's own clock."""
    op, x = Identity(), np.array([1.0])
    best = float("inf")
    for _ in range(rounds):
        tape, last = hu.Tape().leaf(x)
        start = time.thread_time()
        for _ in range(nodes):
            tape, last = tape.apply(op, last)
        recorded = time.thread_time() - start
        start = time.thread_time()
        for _ in range(nodes):
            op.vjp(x)
        best = min(best, recorded - (time.thread_time() - start))
    return best / nodes * 1e6


def parameters() -> tuple[dict[str, Any], Any, Any]:
    generator = np.random.default_rng(0)
    p = {name: (generator.standard_normal(shape) / 10).astype(np.float32) for name, shape in SHAPES.items()}
    return p, generator.standard_normal((BATCH, 1, 28, 28)).astype(np.float32), generator.integers(0, 10, BATCH)


def loss(p: dict[str, Any], x: Any, labels: Any, precision: str) -> Any:
    x = ops.relu(hu.conv2d(x, p["conv1.weight"], p["conv1.bias"], padding=2, precision=precision))
    x = hu.max_pool2d(x, 2)
    x = ops.relu(hu.conv2d(x, p["conv2.weight"], p["conv2.bias"], precision=precision))
    x = ops.flatten(hu.max_pool2d(x, 2))
    x = ops.relu(ops.linear(x, p["full1.weight"], p["full1.bias"], precision))
    x = ops.relu(ops.linear(x, p["full2.weight"], p["full2.bias"], precision))
    return ops.cross_entropy(ops.linear(x, p["full3.weight"], p["full3.bias"], precision), labels)


def our_step(precision: str) -> Callable[[], Any]:
    """One step of gradient descent with halfulp."""
    p, x, labels = parameters()
    evaluate = hu.value_and_grad(lambda p: loss(p, x, labels, precision))
    rate = np.float32(0.01)

    def step() -> Any:
        nonlocal p
        value, gradient = evaluate(p)
        p = {name: p[name] - rate * gradient[name] for name in p}
        return value

    return step


def torch_step() -> Callable[[], Any]:
    """The same step with PyTorch."""
    import torch
    import torch.nn.functional as F

    arrays, images, classes = parameters()
    p = {name: torch.tensor(value, requires_grad=True) for name, value in arrays.items()}
    x, labels = torch.tensor(images), torch.tensor(classes)
    optimizer = torch.optim.SGD(p.values(), lr=0.01)

    def step() -> Any:
        optimizer.zero_grad()
        h = F.max_pool2d(F.relu(F.conv2d(x, p["conv1.weight"], p["conv1.bias"], padding=2)), 2)
        h = F.max_pool2d(F.relu(F.conv2d(h, p["conv2.weight"], p["conv2.bias"])), 2).flatten(1)
        h = F.relu(F.linear(h, p["full1.weight"], p["full1.bias"]))
        h = F.relu(F.linear(h, p["full2.weight"], p["full2.bias"]))
        value = F.cross_entropy(F.linear(h, p["full3.weight"], p["full3.bias"]), labels)
        value.backward()
        optimizer.step()
        return value.detach()

    return step


def alternate(steps: dict[str, Callable[[], Any]], rounds: int = 15) -> dict[str, float]:
    """The best time of each contender in milliseconds, measured in turns so that all see the same machine."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step()
    for _ in range(rounds):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - start)
    return {name: min(found) * 1e3 for name, found in times.items()}


def backward_memory() -> tuple[int, int]:
    """(ours, PyTorch's): bytes kept between forward and backward of three layers of conv, relu, max pooling."""
    import torch
    import torch.nn.functional as F
    from tests.autograd.memory import held_bytes, torch_bytes

    generator = np.random.default_rng(0)
    channels = ((3, 32), (32, 32), (32, 32))
    weights = [generator.standard_normal((n, m, 3, 3)).astype(np.float32) for m, n in channels]
    x = generator.standard_normal((4, 3, 64, 64)).astype(np.float32)

    def ours(weights: list[Any]) -> Any:
        h: Any = x
        for w in weights:
            h = hu.max_pool2d(ops.relu(hu.conv2d(h, w, padding=1)), 2)
        return h

    output, pullback = hu.vjp(ours, weights)
    tensors, image = [torch.tensor(w, requires_grad=True) for w in weights], torch.tensor(x)

    def theirs() -> Any:
        h = image
        for w in tensors:
            h = F.max_pool2d(F.relu(F.conv2d(h, w, padding=1)), 2)
        return h

    return held_bytes(pullback, [output]), torch_bytes(theirs, [image, *tensors])


def chain(nodes: int = 10_000) -> float:
    """Milliseconds for a chain of additions, forward and backward."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        tape, x = hu.Tape().leaf(np.array([1.0]))
        last = x
        for _ in range(nodes):
            tape, last = tape.add(last, x)
        tape.backward(last, np.array([1.0]))
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tape's figures, each beside its goal."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks autograd", description=__doc__)
    parser.add_argument("--threads", type=int, default=0, help="for both; 0 uses all")
    parser.add_argument("--rounds", type=int, default=15)
    chosen = parser.parse_args(arguments)
    import torch

    threads = chosen.threads or hu.get_num_threads()
    hu.set_num_threads(threads)
    torch.set_num_threads(threads)
    steps = {"PyTorch": torch_step(), "fast": our_step("fast"), "correct": our_step("correct")}
    times = alternate(steps, chosen.rounds)
    ours, theirs = backward_memory()
    table = Table("figure", "measured", "goal", title=f"the autograd tape, {threads} threads, best of {chosen.rounds}")
    table.add_row("recording, per node", f"{recording_overhead():.1f} µs", "at most 5 µs")
    table.add_row("chain of 10,000 nodes, forward and backward", f"{chain():.0f} ms", "no recursion")
    table.add_row(f"LeNet step, batch {BATCH}: PyTorch", f"{times['PyTorch']:.2f} ms", "")
    for precision, goal in (("fast", "at most 1.5 ×"), ("correct", "reported")):
        ratio = times[precision] / times["PyTorch"]
        table.add_row(f'LeNet step: ours, precision="{precision}"', f"{times[precision]:.2f} ms, {ratio:.2f} ×", goal)
    table.add_row(
        "kept for backward, conv-relu-maxpool × 3",
        f"{ours / 2**20:.2f} MiB of PyTorch's {theirs / 2**20:.2f}, {ours / theirs:.2f} ×",
        "at most 0.5 ×",
    )
    Console().print(table)


if __name__ == "__main__":
    main()
