"""A verifier's answer for one network, judged."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from halfulp.conformance.bounds.network import Array, Network
from halfulp.conformance.bounds.search import Evidence

__all__ = ["STATUSES", "Answer", "Verdict", "judge"]

STATUSES = ("sound", "unsound", "rounding", "malformed", "refused", "crashed", "hung")
"""`unsound`: an exactly evaluated output lies outside; `rounding`: it does by no more than 2**-20 of its size."""

_ROUNDING = Fraction(1, 2**20)


@dataclass(frozen=True, eq=False)
class Answer:
    """What a verifier said: bounds, or why there are none."""

    lower: Any = None
    upper: Any = None
    status: str = ""
    text: str = ""


@dataclass(frozen=True, eq=False)
class Verdict:
    """The judgement; for an unsound bound also the output, the side, the bound, the exact value and the input."""

    status: str
    text: str = ""
    output: int = -1
    side: str = ""
    bound: float = math.nan
    value: Fraction = Fraction(0)
    point: Array | None = None
    tightness: float | None = None
    """Mean width of the bounds over mean width of the range that was found, where that is not 0."""
    whole: bool = False
    """Whether the range that was found is the exact one; otherwise `tightness` is too large."""

    @property
    def excess(self) -> Fraction:
        """How far the exact value lies outside."""
        if not math.isfinite(self.bound):
            return Fraction(0)
        return abs(self.value - Fraction(self.bound))


def judge(network: Network, found: Evidence, answer: Answer) -> Verdict:
    """Compare bounds with the evidence, in rationals."""
    if answer.status:
        return Verdict(answer.status, answer.text)
    outputs = len(found.least)
    try:
        lower, upper = (np.asarray(side, dtype=np.float64).reshape(-1) for side in (answer.lower, answer.upper))
    except (TypeError, ValueError) as error:
        return Verdict("malformed", f"the bounds are not arrays of numbers: {error}")
    if lower.shape != (outputs,) or upper.shape != (outputs,):
        return Verdict("malformed", f"{lower.size} lower and {upper.size} upper bounds for {outputs} outputs")
    if np.isnan(lower).any() or np.isnan(upper).any():
        return Verdict("malformed", "a bound is NaN")
    worst: Verdict | None = None
    for output in range(outputs):
        for side, bound, value, point in (
            ("lower", lower[output], found.least[output], found.least_at[output]),
            ("upper", upper[output], found.greatest[output], found.greatest_at[output]),
        ):
            if _outside(side, float(bound), value):
                verdict = _finding(output, side, float(bound), value, point)
                if worst is None or _badness(verdict) > _badness(worst):
                    worst = verdict
    return worst or Verdict("sound", tightness=_tightness(found, lower, upper), whole=found.whole)


def _outside(side: str, bound: float, value: Fraction) -> bool:
    if math.isinf(bound):
        return (bound > 0) == (side == "lower")
    return value < Fraction(bound) if side == "lower" else value > Fraction(bound)


def _finding(output: int, side: str, bound: float, value: Fraction, point: Array) -> Verdict:
    small = math.isfinite(bound) and abs(value - Fraction(bound)) <= _ROUNDING * max(Fraction(1), abs(value))
    status = "rounding" if small else "unsound"
    relation = "below the lower" if side == "lower" else "above the upper"
    text = f"output {output} reaches {float(value)!r}, {relation} bound {bound!r}"
    return Verdict(status, text, output, side, bound, value, point)


def _badness(verdict: Verdict) -> tuple[bool, bool, Fraction]:
    return verdict.status == "unsound", math.isinf(verdict.bound), verdict.excess


def _tightness(found: Evidence, lower: Array, upper: Array) -> float | None:
    width = float(sum(high - low for low, high in zip(found.least, found.greatest, strict=True)))
    if width == 0:
        return None
    return float(np.sum(upper - lower)) / width
