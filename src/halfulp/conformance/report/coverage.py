"""Which pairs of options the drawn cases of a campaign have met."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from halfulp.conformance.corpus import corpus
from halfulp.conformance.draws import RANKS
from halfulp.conformance.pairwise import pairs_of, possible_pairs
from halfulp.conformance.units import Plan, place_of, setting_at, units_of

__all__ = ["Coverage", "coverage_of"]


@dataclass(frozen=True)
class Coverage:
    """How many pairs of option values met in the cases of an operator and spatial rank, and how many there are."""

    operator: str
    rank: int
    covered: int
    possible: int

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return dict(vars(self))


def coverage_of(plan: Plan, finished: Collection[str] | None = None) -> list[Coverage]:
    """The pairs met in the finished units (all, unless said) of a plan, over its element types together.

    >>> coverage_of(Plan(operators=("global_avg_pool",), cases=8))[0].covered  # the curated cases come first
    0
    """
    met: dict[tuple[str, int], set[Any]] = {(o, rank): set() for o in plan.operators for rank in RANKS}
    for unit in units_of(plan):
        if unit.probes or (finished is not None and unit.key not in finished):
            continue
        curated = len(corpus(unit.operator))
        for number in range(unit.start, unit.stop):
            index, _ = place_of(unit.operator, number)
            if index >= curated:
                setting = setting_at(unit.operator, plan.seed, unit.dtype, index)
                met[unit.operator, setting.rank].update(pairs_of(setting.choice))
    return [Coverage(o, rank, len(pairs), possible_pairs(o, rank)) for (o, rank), pairs in met.items()]
