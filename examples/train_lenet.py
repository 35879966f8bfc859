"""Train LeNet on scikit-learn's handwritten digits: the same bits on every run, for any number of threads.

    pip install "halfulp[examples]"
    python examples/train_lenet.py                   # 98.9 % on the test digits
    python examples/train_lenet.py --threads 1       # the same digest
    python examples/train_lenet.py --exact-check     # and how many ulps the first batch's gradient is off

The digest printed at the end is the SHA-256 of all trained parameters.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import Any

import flint
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.datasets import load_digits

import halfulp as hu
from halfulp import ops

Parameters = dict[str, Any]


def load(seed: int) -> tuple[Any, Any, Any, Any]:
    """(training images, labels, test images, labels): images (n, 1, 8, 8) in [0, 1], a fifth of them for the test."""
    digits = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.target))
    images = (digits.images[order, None] / 16).astype(np.float32)
    labels = digits.target[order]
    cut = len(order) * 4 // 5
    return images[:cut], labels[:cut], images[cut:], labels[cut:]


def initial(seed: int) -> Parameters:
    """Weights drawn uniformly, scaled by their number of inputs; biases zero."""
    generator = np.random.default_rng(seed)
    shapes = {"conv1": (16, 1, 5, 5), "conv2": (32, 16, 3, 3), "full1": (64, 128), "full2": (10, 64)}
    parameters: Parameters = {}
    for name, shape in shapes.items():
        limit = (6 / np.prod(shape[1:])) ** 0.5
        parameters[f"{name}.weight"] = generator.uniform(-limit, limit, shape).astype(np.float32)
        parameters[f"{name}.bias"] = np.zeros(shape[0], dtype=np.float32)
    return parameters


def lenet(p: Parameters, images: Any, precision: str = "correct") -> Any:
    """The logits of a batch of images."""
    x = ops.relu(hu.conv2d(images, p["conv1.weight"], p["conv1.bias"], padding=2, precision=precision))
    x = hu.max_pool2d(x, 2)
    x = ops.relu(hu.conv2d(x, p["conv2.weight"], p["conv2.bias"], padding=1, precision=precision))
    x = hu.max_pool2d(x, 2)
    x = ops.relu(ops.linear(ops.flatten(x), p["full1.weight"], p["full1.bias"], precision))
    return ops.linear(x, p["full2.weight"], p["full2.bias"], precision)


def loss_of(p: Parameters, images: Any, labels: Any, precision: str = "correct") -> Any:
    """The mean cross entropy of a batch."""
    return ops.cross_entropy(lenet(p, images, precision), labels)


class Adam:
    """Adam in a few lines; every step is elementwise float32 arithmetic, so its bits are fixed."""

    def __init__(self, parameters: Parameters, rate: float = 2e-3, decay: tuple[float, float] = (0.9, 0.999)) -> None:
        self.rate, self.decay, self.steps = np.float32(rate), decay, 0
        self.mean = {name: np.zeros_like(value) for name, value in parameters.items()}
        self.square = {name: np.zeros_like(value) for name, value in parameters.items()}

    def step(self, parameters: Parameters, gradient: Parameters) -> Parameters:
        """The parameters after one step against the gradient."""
        self.steps += 1
        first, second = (np.float32(d) for d in self.decay)
        corrected = np.float32((1 - self.decay[1] ** self.steps) ** 0.5 / (1 - self.decay[0] ** self.steps))
        moved: Parameters = {}
        for name, value in parameters.items():
            g = gradient[name]
            self.mean[name] = first * self.mean[name] + (1 - first) * g
            self.square[name] = second * self.square[name] + (1 - second) * (g * g)
            step = self.rate * corrected * self.mean[name] / (np.sqrt(self.square[name]) + np.float32(1e-8))
            moved[name] = value - step
        return moved


def train(
    parameters: Parameters,
    images: Any,
    labels: Any,
    epochs: int,
    batch: int,
    seed: int,
    precision: str,
    console: Console,
) -> tuple[Parameters, list[float]]:
    """(trained parameters, the loss of every step)."""
    evaluate = hu.value_and_grad(lambda p, x, y: loss_of(p, x, y, precision))
    optimizer = Adam(parameters)
    generator = np.random.default_rng(seed + 1)
    losses: list[float] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("training", total=epochs * -(-len(labels) // batch))
        for _ in range(epochs):
            order = generator.permutation(len(labels))
            for start in range(0, len(order), batch):
                chosen = order[start : start + batch]
                value, gradient = evaluate(parameters, images[chosen], labels[chosen])
                parameters = optimizer.step(parameters, gradient)
                losses.append(float(value))
                progress.update(task, advance=1, description=f"loss {losses[-1]:.4f}")
    return parameters, losses


def accuracy(parameters: Parameters, images: Any, labels: Any, precision: str) -> float:
    """The share of images whose largest logit is the right one."""
    return float((lenet(parameters, images, precision).argmax(axis=1) == labels).mean())


def digest(parameters: Parameters) -> str:
    """One number for every bit of the parameters."""
    sha = hashlib.sha256()
    for name in sorted(parameters):
        sha.update(name.encode() + parameters[name].tobytes())
    return sha.hexdigest()


def loss_curve(losses: list[float], width: int = 640, height: int = 260) -> str:
    """The losses as an SVG picture, on a logarithmic scale."""
    logs = np.log10(np.maximum(losses, 1e-6))
    low, high = np.floor(logs.min()), np.ceil(logs.max())
    xs = 50 + (width - 70) * np.arange(len(losses)) / max(1, len(losses) - 1)
    ys = 15 + (height - 50) * (high - logs) / max(1.0, high - low)
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        "<style>text{font:12px sans-serif;fill:#444}line{stroke:#ddd}polyline{fill:none;stroke:#2f6db3}</style>",
    ]
    for exponent in range(int(low), int(high) + 1):
        y = 15 + (height - 50) * (high - exponent) / max(1.0, high - low)
        parts.append(f'<line x1="50" x2="{width - 20}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="8" y="{y + 4:.1f}">1e{exponent}</text>')
    parts.append(f'<polyline points="{path}"/>')
    parts.append(f'<text x="{width // 2 - 60}" y="{height - 8}">step (of {len(losses)}): loss</text></svg>')
    return "\n".join(parts)


def balls(array: Any) -> Any:
    """Floats as exact balls."""
    return np.frompyfunc(flint.arb, 1, 1)(hu.exact(array))


def ulps_off(given: Any, truth: Any) -> Any:
    """How far floats are from the exact numbers, in units of the last place at the exact number."""
    middle = np.array([float(ball.mid()) for ball in truth.flat])
    distance = np.array(
        [abs(float((flint.arb(float(g)) - t).mid())) for g, t in zip(given.flat, truth.flat, strict=True)]
    )
    return distance / np.spacing(np.abs(middle).astype(given.dtype)).astype(np.float64)


def exact_check(parameters: Parameters, images: Any, labels: Any, precision: str, console: Console) -> None:
    """Compare a batch's gradient with the exact one: every float lifted, 256 bits of ball arithmetic all the way."""
    gradient = hu.grad(lambda p: loss_of(p, images, labels, precision))(parameters)
    flint.ctx.prec = 256
    with console.status(f"the exact gradient of {len(labels)} images …"):
        truth = hu.grad(lambda p: loss_of(p, balls(images), labels))(hu.tree_map(balls, parameters))
    table = Table(
        "parameter", "shape", "median ulps", "largest ulps", title="the training gradient against the exact one"
    )
    everything = []
    for name, array in gradient.items():
        off = ulps_off(array, truth[name])
        everything.append(off)
        table.add_row(name, str(array.shape), f"{np.median(off):.2f}", f"{off.max():.1f}")
    console.print(table)
    every = np.concatenate(everything)
    nearest = np.mean(every <= 0.5)
    console.print(
        f"{every.size} numbers: median {np.median(every):.2f} ulps off, 99 % within {np.quantile(every, 0.99):.1f}, "
        f"{nearest:.1%} correctly rounded although every node rounds"
    )


def main() -> None:
    """Train, report, and check if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0, help="0 uses all")
    parser.add_argument("--precision", choices=("correct", "fast"), default="correct")
    parser.add_argument("--curve", type=Path, default=Path("loss.svg"), help="where the loss curve goes")
    parser.add_argument("--exact-check", action="store_true", help="compare one batch's gradient with the exact one")
    arguments = parser.parse_args()

    console = Console()
    hu.set_num_threads(arguments.threads)
    train_x, train_y, test_x, test_y = load(arguments.seed)
    start = initial(arguments.seed)
    if arguments.exact_check:
        exact_check(start, train_x[: arguments.batch], train_y[: arguments.batch], arguments.precision, console)
    trained, losses = train(
        start, train_x, train_y, arguments.epochs, arguments.batch, arguments.seed, arguments.precision, console
    )
    arguments.curve.write_text(loss_curve(losses))
    console.print(f"last loss      {losses[-1]:.6f}   (curve: {arguments.curve})")
    console.print(f"test accuracy  {accuracy(trained, test_x, test_y, arguments.precision):.2%}")
    console.print(f"digest         {digest(trained)}")


if __name__ == "__main__":
    main()
