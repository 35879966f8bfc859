"""Fair timing: contenders take turns, and the best of several rounds counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

Clock = Callable[[], float]


def best_times(
    contenders: Mapping[str, Callable[[], Any]],
    rounds: int = 7,
    budget: float = 6.0,
    clock: Clock = time.perf_counter,
) -> dict[str, float]:
    """The best time of every contender, in seconds of ``clock``: ``time.process_time`` on a machine that is not idle.

    Contenders alternate, so that whatever else the machine does falls on all of them. Short calls are timed by the
    thousand. ``budget`` ends the rounds early, but never before the third.
    """
    repeats = {}
    for name, run in contenders.items():
        run()  # first calls compile, allocate and fill caches
        repeats[name] = max(1, min(10_000, int(0.004 / max(once(run, 1, clock), 1e-7))))
    best = dict.fromkeys(contenders, float("inf"))
    started = time.perf_counter()
    for number in range(rounds):
        for name, run in contenders.items():
            best[name] = min(best[name], turn(run, repeats[name], clock))
        if number >= 2 and time.perf_counter() - started > budget:
            break
    return best


def turn(run: Callable[[], Any], repeats: int = 1, clock: Clock = time.perf_counter) -> float:
    """The best of at least two measurements over at least 0.12 seconds.

    Nobody pays for what the contender before has left running (JAX keeps a core busy for some 70 ms after a large
    call), or for their own threads that have gone to sleep.
    """
    best, number, began = float("inf"), 0, time.perf_counter()
    while number < 2 or time.perf_counter() - began < 0.12:
        best = min(best, once(run, repeats, clock))
        number += 1
    return best


def once(run: Callable[[], Any], repeats: int, clock: Clock = time.perf_counter) -> float:
    """Seconds per call over ``repeats`` calls."""
    started = clock()
    for _ in range(repeats):
        run()
    return (clock() - started) / repeats
