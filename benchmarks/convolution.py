"""Convolution beside PyTorch, ONNX Runtime, OpenVINO and JAX: time, and how many outputs are correctly rounded.

python -m benchmarks convolution [--modes forward vjp jvp] [--cases NAME …] [--rounds N] [--threads N]

Contenders take turns within one run, all with the same number of threads; a time is the best of the rounds. Beside it
stand the share of the outputs that are correctly rounded and the largest distance from the correctly rounded value in
ulps. That value is our own correct result, which the tests prove equal to the specification.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import halfulp as hu
from benchmarks import convolution_peers as peers
from benchmarks.timing import turn

Array = np.ndarray[Any, Any]
Run = Callable[[], Sequence[Any]]
"""One measured call; it returns what it computed, converted to NumPy by the peer's own function outside the clock."""


class Workload(NamedTuple):
    """One layer: an operator and the shapes that it works on, the batch axis left out."""

    op: hu.Conv | hu.ConvTranspose
    x: tuple[int, ...]
    weight: tuple[int, ...]
    resnet: bool = False


WORKLOADS = {
    "7x7 s2, 3 to 64, 224": Workload(hu.Conv(2, 2, 3), (3, 224, 224), (64, 3, 7, 7), True),
    "3x3, 64 to 64, 56": Workload(hu.Conv(2, 1, 1), (64, 56, 56), (64, 64, 3, 3), True),
    "3x3, 256 to 256, 14": Workload(hu.Conv(2, 1, 1), (256, 14, 14), (256, 256, 3, 3), True),
    "1x1, 256 to 64, 56": Workload(hu.Conv(2), (256, 56, 56), (64, 256, 1, 1), True),
    "depthwise 3x3, 64, 112": Workload(hu.Conv(2, 1, 1, groups=64), (64, 112, 112), (64, 1, 3, 3)),
    "audio, 1 to 64, 400 s160": Workload(hu.Conv(1, 160), (1, 160000), (64, 1, 400)),
    "3-D 3x3x3, 16 to 32, 32": Workload(hu.Conv(3, 1, 1), (16, 32, 32, 32), (32, 16, 3, 3, 3)),
    "transposed 4x4 s2, 64 to 32, 28": Workload(hu.ConvTranspose(2, 2, 1), (64, 28, 28), (64, 32, 4, 4)),
}
BATCHES = (1, 8)


class Measured(NamedTuple):
    """The best time, the share of correctly rounded outputs and the largest distance from them."""

    milliseconds: float
    correct: float
    ulps: float


def inputs_of(workload: Workload, batch: int) -> tuple[Array, Array, Array, Array, Array]:
    """x, weight, their tangents and a cotangent."""
    rng = np.random.default_rng(0)
    x, weight = (batch, *workload.x), workload.weight
    shapes = (x, weight, x, weight, workload.op.output_shape(x, weight))
    first, second, third, fourth, fifth = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    return first, second, third, fourth, fifth


def our_run(workload: Workload, mode: str, arrays: Sequence[Array], precision: str) -> Run:
    fields = {name: getattr(workload.op, name) for name in ("ndim", "stride", "padding", "dilation", "groups")}
    op = type(workload.op)(**fields, precision=precision)
    x, weight, dx, dweight, cotangent = arrays
    if mode == "forward":
        return lambda: [op(x, weight)]
    if mode == "jvp":
        return lambda: list(op.jvp((x, weight), (dx, dweight)))
    pullback = op.vjp(x, weight)[1]
    return lambda: list(pullback(cotangent)[:2])


def distance(found: Sequence[Array], correct: Sequence[Array]) -> tuple[float, float]:
    """The share of elements with the correct bits, and the largest distance in ulps of the correct value."""
    equal = total = 0
    most = 0.0
    for a, b in zip(found, correct, strict=True):
        a = np.asarray(a)
        equal += int((a.astype(np.float32) == b).sum())
        total += b.size
        most = max(most, float((np.abs(a.astype(np.float64) - b) / np.spacing(np.abs(b))).max()))
    return equal / total, most


def measure(runs: dict[str, tuple[Run, Callable[[Any], Array]]], rounds: int) -> dict[str, Measured]:
    """Every contender in turn, round by round."""
    results = {name: [convert(value) for value in run()] for name, (run, convert) in runs.items()}
    best = dict.fromkeys(runs, math.inf)
    for _ in range(rounds):
        for name, (run, _) in runs.items():
            best[name] = min(best[name], turn(run))
    return {name: Measured(1e3 * best[name], *distance(results[name], results["correct"])) for name in runs}


def contenders(
    workload: Workload, mode: str, batch: int, threads: int
) -> dict[str, tuple[Run, Callable[[Any], Array]]]:
    arrays = inputs_of(workload, batch)
    runs: dict[str, tuple[Run, Callable[[Any], Array]]] = {
        precision: (our_run(workload, mode, arrays, precision), np.asarray) for precision in ("correct", "fast")
    }
    runs |= peers.contenders(workload.op, mode, arrays, threads)
    return runs


def cell(measured: Measured | None) -> str:
    if measured is None:
        return "–"
    return f"{measured.milliseconds:.2f} ms\n{100 * measured.correct:.1f} %, {measured.ulps:.3g} ulp"


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def goals(results: dict[tuple[str, str, int], dict[str, Measured]]) -> Table:
    """Our figures as ratios of times: the peer's over ours."""
    table = Table(
        "figure", "measured", "goal", title="ratios (peer's time / ours); a geometric mean over batches and layers"
    )

    def row(text: str, mode: str, names: Sequence[str], ours: str, peer: str, goal: str) -> None:
        ratios = [
            found[peer].milliseconds / found[ours].milliseconds
            for (kind, name, _), found in results.items()
            if kind == mode and name in names and peer in found
        ]
        if ratios:
            table.add_row(text, f"{geometric_mean(ratios):.2f} (from {min(ratios):.2f} to {max(ratios):.2f})", goal)

    resnet = [name for name, workload in WORKLOADS.items() if workload.resnet]
    row("ResNet layers, correct, forward / PyTorch float32", "forward", resnet, "correct", "torch f32", "0.45")
    row("ResNet layers, correct, forward / PyTorch float64", "forward", resnet, "correct", "torch f64", "2")
    row("ResNet layers, correct, VJP / PyTorch float32", "vjp", resnet, "correct", "torch f32", "0.4")
    row("ResNet layers, fast, forward / PyTorch float32", "forward", resnet, "fast", "torch f32", "1")
    row("ResNet layers, fast, VJP / PyTorch float32", "vjp", resnet, "fast", "torch f32", "0.9")
    transposed, depthwise, audio = (
        [name for name in WORKLOADS if name.startswith(word)] for word in ("transposed", "depthwise", "audio")
    )
    row("transposed, correct, forward / JAX", "forward", transposed, "correct", "jax", "5")
    row("depthwise, correct, forward / PyTorch float32", "forward", depthwise, "correct", "torch f32", "0.7")
    row("audio, correct, forward / PyTorch float32", "forward", audio, "correct", "torch f32", "1")
    row("audio, fast, forward / PyTorch float32", "forward", audio, "fast", "torch f32", "1")
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks convolution", description=__doc__)
    parser.add_argument("--modes", nargs="+", default=["forward", "vjp", "jvp"], choices=["forward", "vjp", "jvp"])
    parser.add_argument("--cases", nargs="+", default=[], help="parts of the workloads' names")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    chosen = parser.parse_args(arguments)
    hu.set_num_threads(chosen.threads)
    names = [name for name in WORKLOADS if not chosen.cases or any(part in name for part in chosen.cases)]
    keys = [(mode, name, batch) for mode in chosen.modes for name in names for batch in BATCHES]
    results = {}
    for mode, name, batch in track(keys, description="convolution", transient=True):
        runs = contenders(WORKLOADS[name], mode, batch, chosen.threads)
        results[mode, name, batch] = measure(runs, chosen.rounds)
    console = Console(width=180)
    for mode in chosen.modes:
        columns = ["correct", "fast", *peers.NAMES]
        title = f"{mode}, {chosen.threads} threads, best of {chosen.rounds}: time, correctly rounded, largest error"
        table = Table("layer", "batch", *columns, title=title)
        for (kind, name, batch), found in results.items():
            if kind == mode:
                table.add_row(name, str(batch), *(cell(found.get(column)) for column in columns))
        console.print(table)
    console.print(goals(results))


if __name__ == "__main__":
    main()
