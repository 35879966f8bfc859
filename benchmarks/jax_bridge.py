"""The JAX bridge beside JAX's own operators, both under jit: max and average pooling, values and VJPs.

python -m benchmarks jax_bridge
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import halfulp as hu
import halfulp.jax as hj
from benchmarks.timing import best_times

SHAPE = (32, 64, 112, 112)
PADS = ((0, 0), (0, 0), (1, 1), (1, 1))


def max_theirs(x: Any) -> Any:
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2), PADS)


def max_ours(x: Any) -> Any:
    return hj.max_pool2d(x, 3, 2, 1)


def avg_theirs(x: Any) -> Any:
    return jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 1, 3, 3), (1, 1, 2, 2), PADS) / 9


def avg_ours(x: Any) -> Any:
    return hj.avg_pool2d(x, 3, 2, 1)


class Row(NamedTuple):
    """One comparison: milliseconds, the best of several rounds."""

    name: str
    ours: float
    theirs: float


def alternate(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """The best time of each, in milliseconds."""
    calls = {"ours": lambda: ours().block_until_ready(), "theirs": lambda: theirs().block_until_ready()}
    best = best_times(calls, rounds)
    return best["ours"] * 1e3, best["theirs"] * 1e3


def measure(shape: tuple[int, ...], rounds: int) -> list[Row]:
    """Values and VJPs of both poolings."""
    x = jnp.asarray(np.random.default_rng(0).standard_normal(shape), jnp.float32)
    rows = []
    for name, ours, theirs in (("max", max_ours, max_theirs), ("avg", avg_ours, avg_theirs)):
        a, b = jax.jit(ours), jax.jit(theirs)
        rows.append(Row(f"{name} 3×3 s2 p1", *alternate(lambda a=a: a(x), lambda b=b: b(x), rounds)))
        g = jnp.ones_like(a(x))
        p, q = (jax.jit(lambda x, g, f=f: jax.vjp(f, x)[1](g)[0]) for f in (ours, theirs))
        rows.append(Row(f"{name} VJP", *alternate(lambda p=p, g=g: p(x, g), lambda q=q, g=g: q(x, g), rounds)))
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both sides of every comparison and their ratio."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks jax_bridge", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of every measurement; the best counts")
    parser.add_argument("--batch", type=int, default=SHAPE[0], help="images in the batch")
    chosen = parser.parse_args(arguments)
    shape = (chosen.batch, *SHAPE[1:])
    table = Table(title=f"{'×'.join(map(str, shape))} float32, {hu.get_num_threads()} threads, under jax.jit")
    for column in ("work", "halfulp, ms", "JAX, ms", "ratio"):
        table.add_column(column, justify="left" if column == "work" else "right")
    for row in measure(shape, chosen.rounds):
        table.add_row(row.name, f"{row.ours:.2f}", f"{row.theirs:.2f}", f"{row.theirs / row.ours:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
