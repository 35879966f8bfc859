"""How long the exact oracle takes, beside the goals that it was given, and how long ``import halfulp`` takes.

The oracle runs on one thread, so its own processor time is its time on a machine that does nothing else.

python -m benchmarks spec
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import halfulp as hu


class Work(NamedTuple):
    """One thing to time; ``goal`` is in seconds, None where there is none."""

    name: str
    run: Callable[[], Any]
    goal: float | None = None


def normal(*shape: int) -> Any:
    """float32 data, the same in every run."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def works() -> list[Work]:
    """The rows: float32 data, lifted exactly before the clock starts."""
    x, weight, g = (hu.exact(normal(*shape)) for shape in ((1, 64, 14, 14), (64, 64, 3, 3), (1, 64, 14, 14)))
    plane, image = hu.exact(normal(64, 56, 56)), normal(1, 28, 28)
    conv = hu.Conv(2, padding=1)
    maximum, average = (record((3, 3), stride=1, padding=1) for record in (hu.MaxPool, hu.AvgPool))
    smooth = hu.SmoothMaxPool((3, 3), beta=1.0, stride=1, padding=1)
    return [
        Work("exact conv2d 3×3 p1, 1×64×14×14 → 64", lambda: hu.spec.forward(conv, x, weight), 0.5),
        Work("… its VJP", lambda: hu.spec.vjp(conv, (x, weight), g)),
        Work("exact max 3×3 s1 p1, 64×56×56", lambda: hu.spec.forward(maximum, plane), 2.0),
        Work("… its VJP", lambda: hu.spec.vjp(maximum, (plane,), plane)),
        Work("exact average 3×3 s1 p1, 64×56×56", lambda: hu.spec.forward(average, plane), 3.0),
        Work("… its VJP", lambda: hu.spec.vjp(average, (plane,), plane)),
        Work("float32 smooth max 3×3 s1 p1, 28×28", lambda: hu.spec.forward(smooth, image)),
        Work("… its VJP", lambda: hu.spec.vjp(smooth, (image,), image)),
        Work("import halfulp, beyond a bare interpreter", import_halfulp, 0.15),
    ]


def import_halfulp() -> float:
    """Seconds inside a fresh interpreter, the second of two: modules are compiled then, as in an installed package."""
    code = "import time; start = time.process_time(); import halfulp; print(time.process_time() - start)"
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
        for _ in range(2):
            run = subprocess.run(
                [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
            )
    return float(run.stdout)


def best_of(work: Work, rounds: int) -> float:
    """The fewest seconds of several rounds; a work that returns a float has measured itself."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        result = work.run()
        seconds = result if isinstance(result, float) else time.process_time() - start
        best = min(best, seconds)
    return best


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks spec", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds per row; the best counts")
    rounds = parser.parse_args(arguments).rounds
    table = Table("work", "processor seconds", "goal", title="The exact specification")
    for work in works():
        goal = "" if work.goal is None else f"≤ {work.goal}"
        table.add_row(work.name, f"{best_of(work, rounds):.3f}", goal)
    Console().print(table)


if __name__ == "__main__":
    main()
