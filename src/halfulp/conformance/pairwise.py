"""Choices of options in which every two values of two options meet, and how many of these pairs a campaign has met."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any

from halfulp.conformance.draws import RANKS, Options, options_of

__all__ = ["Choice", "choices", "pairs_of", "possible_pairs"]

Choice = tuple[tuple[str, Any], ...]
"""One value for every option."""

Pair = tuple[tuple[str, Any], tuple[str, Any]]

_CANDIDATES = 12
"""How many choices are tried for each that is taken."""


def pairs_of(choice: Choice) -> Iterator[Pair]:
    """The pairs that meet in a choice."""
    return combinations(choice, 2)


def possible_pairs(operator: str, rank: int) -> int:
    """How many pairs of values there are.

    >>> possible_pairs("global_avg_pool", 1)
    32
    """
    sizes = [len(values) for values in options_of(operator, rank).values()]
    return sum(a * b for a, b in combinations(sizes, 2))


def choices(operator: str, seed: int) -> Iterator[tuple[int, Choice]]:
    """(rank, choice) without end: each is the one of several random choices that brings the most new pairs.

    Once every pair was met, counting begins again.
    """
    rng = random.Random(seed)
    missing = {rank: _all_pairs(options_of(operator, rank)) for rank in RANKS}
    while True:
        for rank in RANKS:
            options = options_of(operator, rank)
            best = max(_candidates(rng, options, missing[rank]), key=lambda c: _news(c, missing[rank]))
            missing[rank] -= set(pairs_of(best))
            if not missing[rank]:
                missing[rank] = _all_pairs(options)
            yield rank, best


def _all_pairs(options: Options) -> set[Pair]:
    return {((a, x), (b, y)) for (a, xs), (b, ys) in combinations(options.items(), 2) for x in xs for y in ys}


def _news(choice: Choice, missing: set[Pair]) -> int:
    return sum(pair in missing for pair in pairs_of(choice))


def _candidates(rng: random.Random, options: Options, missing: set[Pair]) -> Iterable[Choice]:
    """Random choices, each built around a pair that is still missing."""
    wanted = sorted(missing, key=repr)
    for _ in range(_CANDIDATES):
        fixed = dict(rng.choice(wanted))
        yield tuple((name, fixed[name] if name in fixed else rng.choice(values)) for name, values in options.items())
