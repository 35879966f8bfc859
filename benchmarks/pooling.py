"""Pooling side by side: ours, the peers that are installed, and a copy of as many bytes, all with the same threads.

python -m benchmarks pooling [--isa baseline|avx2|avx512|neon] [--threads N] [--rows TEXT] [--rounds N] [--no-peers]
                             [--json FILE]

--isa forces an instruction set, on ours and on the peers that can be told; without it the best one of the machine
runs. Ratios come first: how many times the copy's time ours takes, how many times faster ours is than each peer, and
how many times faster it is than itself on one thread. --json also writes the seconds of every contender.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from rich.console import Console
from rich.table import Table

import halfulp as hu
from benchmarks import peers
from benchmarks.older import ISA_NAMES
from benchmarks.timing import best_times
from halfulp import _core

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
ONE_THREAD = "halfulp, 1 thread"
BIG, MEDIUM, VOLUME = (32, 64, 112, 112), (8, 64, 56, 56), (1, 32, 64, 128, 128)


@dataclass(frozen=True)
class Row:
    """One line of the table; mode is forward, vjp (forward and pullback), jvp or pullback."""

    name: str
    op: Any
    shape: tuple[int, ...]
    mode: str = "forward"
    dtype: Any = np.float32
    goal: str = ""
    channels_last: bool = False


def rows() -> list[Row]:
    resnet = hu.MaxPool((3, 3), stride=2, padding=1)
    same = hu.MaxPool((3, 3), stride=1, padding=1)
    average = hu.AvgPool((3, 3), stride=2, padding=1)
    volume = hu.MaxPool((3, 3, 3), stride=2, padding=1)
    smooth = hu.SmoothMaxPool((3, 3), beta=1.0, stride=2, padding=1)
    return [
        Row("max 3x3 s2 p1", resnet, BIG, goal="<= 1.2 copy, >= 2.5 best peer"),
        Row("max 2x2 s2", hu.MaxPool((2, 2)), BIG, goal="<= 1.2 copy, >= 2.5 best peer"),
        Row("max 3x3 s2 p1, channels-last", resnet, BIG, channels_last=True),
        Row("max 3x3 s1 p1", same, MEDIUM, goal="<= 1.5 copy"),
        Row("max 3x3 s2 p1 + VJP", resnet, BIG, "vjp", goal=">= 12 PyTorch"),
        Row("max 3x3 s2 p1, JVP", resnet, BIG, "jvp", goal="<= 2 forward"),
        Row("avg 3x3 s2 p1", average, BIG, goal="<= 1.5 copy, >= 2 best peer"),
        Row("avg 3x3 s2 p1 + VJP", average, BIG, "vjp", goal=">= 10 PyTorch"),
        Row("avg 3x3 s2 p1, JVP", average, BIG, "jvp"),
        Row("avg 3x3 s2 p1, channels-last", average, BIG, channels_last=True),
        Row("avg 3x3 s2 p1, float64", average, BIG, dtype=np.float64, goal="<= 2.2 of float32"),
        Row("avg 3x3 s2 p1, float16", average, BIG, dtype=np.float16),
        Row("avg 3x3 s2 p1, bfloat16", average, BIG, dtype=BFLOAT16),
        Row("avg 3x3 s1 p1", hu.AvgPool((3, 3), stride=1, padding=1), MEDIUM),
        Row("avg 31x31 s1 p15", hu.AvgPool((31, 31), stride=1, padding=15), MEDIUM, goal="<= 2 of 3x3 s1"),
        Row("avg 1-D k3 s2 p1", hu.AvgPool((3,), stride=2, padding=1), (32, 64, 4096)),
        Row("avg 3-D k3 s2 p1", hu.AvgPool((3, 3, 3), stride=2, padding=1), VOLUME),
        Row("max 13x13 s1 p6", hu.MaxPool((13, 13), stride=1, padding=6), (1, 256, 20, 20), goal="> every peer"),
        Row("max 31x31 s1 p15", hu.MaxPool((31, 31), stride=1, padding=15), MEDIUM, goal="<= 2 of 3x3 s1"),
        Row("max 3-D k2", hu.MaxPool((2, 2, 2)), VOLUME, goal=">= 10 PyTorch"),
        Row("max 3-D k3 s2 p1", volume, VOLUME, goal=">= 10 PyTorch"),
        Row("max 3-D k3 s2 p1 + VJP", volume, VOLUME, "vjp"),
        Row("max 1-D k3 s2 p1", hu.MaxPool((3,), stride=2, padding=1), (32, 64, 4096)),
        Row("max 3x3 s1 p1, dilation 2", hu.MaxPool((3, 3), stride=1, padding=1, dilation=2), MEDIUM),
        Row("max 3x3 s2 p1, float64", resnet, BIG, dtype=np.float64, goal="<= 2.2 of float32"),
        Row("max 3x3 s2 p1, float16", resnet, BIG, dtype=np.float16),
        Row("max 3x3 s2 p1, bfloat16", resnet, BIG, dtype=BFLOAT16),
        Row("max 3x3 s2 p1, int8", resnet, BIG, dtype=np.int8),
        Row("adaptive max 7x7", hu.AdaptiveMaxPool((7, 7)), BIG, goal=">= 2.5 PyTorch"),
        Row("adaptive avg 7x7", hu.AdaptiveAvgPool((7, 7)), BIG, goal=">= 2.5 PyTorch"),
        Row("global max", hu.GlobalMaxPool(2), BIG, goal=">= 1 PyTorch"),
        Row("global avg", hu.GlobalAvgPool(2), BIG, goal=">= 1 PyTorch"),
        Row("adaptive avg 7x7 + VJP", hu.AdaptiveAvgPool((7, 7)), BIG, "vjp"),
        Row("global avg + VJP", hu.GlobalAvgPool(2), BIG, "vjp"),
        Row("smooth max 3x3 s2 p1", smooth, (1, 64, 56, 56)),
        Row("smooth max 3x3 s2 p1, JVP", smooth, (1, 64, 56, 56), "jvp"),
        Row("smooth max 3x3 s2 p1 + VJP", smooth, (1, 64, 56, 56), "vjp"),
        Row("smooth max 3x3 s2 p1, float64", smooth, (1, 64, 56, 56), dtype=np.float64),
        Row("min 3x3 s2 p1", hu.MinPool((3, 3), stride=2, padding=1), BIG, goal="<= 1.5 of max"),
        Row("min 2x2 s2", hu.MinPool((2, 2)), BIG, goal="<= 1.5 of max"),
        Row("sum 3x3 s2 p1", hu.SumPool((3, 3), stride=2, padding=1), BIG, goal="<= 1.5 of avg"),
        Row("lp, p = 1, 3x3 s2 p1", hu.LpPool((3, 3), 1, stride=2, padding=1), BIG, goal="<= 1.5 of avg"),
        Row("lp, p = 2, 3x3 s2 p1", hu.LpPool((3, 3), 2, stride=2, padding=1), BIG, goal="<= 2 of avg"),
        Row("lp, p = 2, 2x2 s2", hu.LpPool((2, 2), 2), BIG),
        Row("lp, p = inf, 3x3 s2 p1", hu.LpPool((3, 3), math.inf, stride=2, padding=1), BIG, goal="<= 1.5 of max"),
        Row("unfold 3x3 s1 p1", hu.Unfold((3, 3), padding=1), MEDIUM),
        Row("fold 3x3 s1 p1", hu.Fold((56, 56), (3, 3), padding=1), (8, 576, 3136)),
        Row("tiny max 3x3 s2 p1", resnet, (1, 4, 8, 8), goal=">= 1 PyTorch"),
    ]


def data(row: Row) -> Any:
    rng = np.random.default_rng(0)
    if row.dtype is np.int8:
        x = rng.integers(-128, 128, row.shape, dtype=np.int8)
    else:
        x = rng.standard_normal(row.shape, dtype=np.float32).astype(row.dtype)
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1) if row.channels_last else x


def our_call(row: Row, x: Any) -> Callable[[], Any]:
    op = row.op
    if row.mode == "forward":
        return lambda: op(x)
    if row.mode == "jvp":
        return lambda: op.jvp((x,), (x,))
    cotangent = np.ones_like(op(x))
    return lambda: op.vjp(x)[1](cotangent)


def copy_call(row: Row, x: Any, threads: int) -> Callable[[], Any]:
    """A copy that moves as many bytes as the row must read and write."""
    output = math.prod(row.op.output_shape(row.shape)) * x.itemsize
    moved = {"forward": x.nbytes + output, "jvp": 2 * (x.nbytes + output), "vjp": 2 * (x.nbytes + output)}[row.mode]
    source, target = np.ones(moved // 2, np.uint8), np.ones(moved // 2, np.uint8)
    if peers.available()["PyTorch"]:
        import torch

        torch.set_num_threads(threads)
        a, b = torch.from_numpy(target), torch.from_numpy(source)
        return lambda: a.copy_(b)
    return lambda: np.copyto(target, source)


def on_one_thread(call: Callable[[], Any], threads: int) -> Callable[[], Any]:
    def run() -> Any:
        hu.set_num_threads(1)
        try:
            return call()
        finally:
            hu.set_num_threads(threads)

    return run


def measure(row: Row, threads: int, rounds: int, with_peers: bool) -> dict[str, float]:
    """The best time of every contender."""
    x = data(row)
    ours = our_call(row, x)
    contenders: dict[str, Callable[[], Any]] = {
        "halfulp": ours,
        ONE_THREAD: on_one_thread(ours, threads),
        "copy": copy_call(row, x, threads),
    }
    for peer, installed in peers.available().items():
        call = peers.peer_call(peer, row.op, x, row.mode, threads) if installed and with_peers else None
        if call is not None:
            contenders[peer] = call
    return best_times(contenders, rounds)


def table_of(results: list[tuple[Row, dict[str, float]]], threads: int) -> Table:
    chosen = ISA_NAMES[_core.get_isa()]
    table = Table(title=f"Pooling, {chosen}, {threads} threads: times as fast as each peer; milliseconds of ours")
    for column in ("work", "ours / copy", *peers.NEEDS, "1 thread", "ours, ms", "goal"):
        table.add_column(column, justify="left" if column in ("work", "goal") else "right")
    for row, times in results:
        ours = times["halfulp"]
        ratios = [f"{times[peer] / ours:.1f}" if peer in times else "-" for peer in peers.NEEDS]
        table.add_row(
            row.name,
            f"{ours / times['copy']:.2f}",
            *ratios,
            f"{times[ONE_THREAD] / ours:.1f}",
            f"{ours * 1e3:.3f}",
            row.goal,
        )
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks pooling", description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", default="", help="only rows whose name has this text")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--json", type=Path, help="write the seconds of every contender to this file")
    options = parser.parse_args(arguments)
    console = Console(width=200)
    hu.set_num_threads(options.threads)
    missing = [name for name, installed in peers.available().items() if not installed]
    if missing:
        console.print(f"not installed, so not measured: {', '.join(missing)}")
    results = []
    for row in rows():
        if options.rows in row.name:
            results.append((row, measure(row, options.threads, options.rounds, not options.no_peers)))
            console.print(f"{row.name}: {results[-1][1]['halfulp'] * 1e3:.3f} ms", style="dim")
    console.print(table_of(results, options.threads))
    if options.json is not None:
        found = [
            {"name": row.name, "seconds": {k: float(f"{v:.4g}") for k, v in times.items()}} for row, times in results
        ]
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
