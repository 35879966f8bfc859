"""A campaign: every unit of a plan, for every subject."""

from __future__ import annotations

import datetime
import platform
import time
from collections.abc import Callable, Sequence

from halfulp.conformance.report.result import Demand, Result, SubjectResult
from halfulp.conformance.subjects import load_subject
from halfulp.conformance.summary import Summary
from halfulp.conformance.units import Plan, run_unit, units_of

__all__ = ["check"]


def check(
    subjects: Sequence[str] = ("halfulp",),
    plan: Plan | None = None,
    demand: Demand | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Result:
    """Check subjects against the exact answers.

    >>> result = check(["halfulp"], Plan(operators=("max_pool",), dtypes=("float32",), cases=8))
    >>> result.passed
    True
    """
    plan = plan or Plan()
    began = time.monotonic()
    loaded = [load_subject(name) for name in subjects]
    summaries = {subject.name: Summary() for subject in loaded}
    units = units_of(plan)
    for number, unit in enumerate(units):
        for name, part in run_unit(unit, plan, loaded).items():
            summaries[name].merge(part)
        progress(number + 1, len(units))
    return Result(
        plan,
        [SubjectResult(s.name, s.version, summaries[s.name], s.complete) for s in loaded],
        demand or Demand(),
        seconds=time.monotonic() - began,
        date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        machine={"system": platform.system(), "machine": platform.machine(), "python": platform.python_version()},
    )
