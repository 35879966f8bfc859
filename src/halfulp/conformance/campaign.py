"""A campaign: every unit of a plan, for every subject, in this process or in others; then the failures, shrunk."""

from __future__ import annotations

import datetime
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from halfulp.conformance.journal import Journal
from halfulp.conformance.pool import Crash, Done, Pool
from halfulp.conformance.report.coverage import coverage_of
from halfulp.conformance.report.result import Demand, Reproducer, Result, SubjectResult
from halfulp.conformance.subjects import Subject, SubjectError
from halfulp.conformance.units import Plan, units_of
from halfulp.conformance.worker import ReproduceTask, Task, UnitTask, load_all, perform

__all__ = ["Progress", "check"]

Progress = Callable[[int, int, Journal], None]
"""Called after each unit: units done, units in all, and what is known so far."""

_REPRODUCERS = 40
"""How many failures of a subject are shrunk."""


class _NoBoard:
    """Stands in for a worker's board where there is no worker."""

    def write(self, subject: str, key: str) -> None:
        """Nobody needs to know."""


class _InProcess:
    """Runs tasks right here: no isolation, no start-up."""

    def __init__(self, plan: Plan, subjects: tuple[str | Subject, ...]) -> None:
        self._plan = plan
        self._subjects = load_all(subjects)

    def versions(self) -> dict[str, tuple[str, bool]]:
        return {s.name: (s.version, s.complete) for s in self._subjects}

    def run(self, tasks: Sequence[Task], stop: Callable[[], bool] = lambda: False) -> Iterator[Done | Crash]:
        board: Any = _NoBoard()
        for task in tasks:
            if stop():
                return
            yield Done(task, perform(task, self._plan, self._subjects, board))

    def __enter__(self) -> _InProcess:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was started."""


def check(
    subjects: Sequence[str | Subject] = ("halfulp",),
    plan: Plan | None = None,
    demand: Demand | None = None,
    *,
    jobs: int = 0,
    journal: Path | str | None = None,
    scheduler: str | None = None,
    time_limit: float | None = None,
    case_timeout: float = 60.0,
    memory_limit: int | None = None,
    reproducers: bool = True,
    progress: Progress = lambda done, total, so_far: None,
) -> Result:
    """Compare subjects with the exact results.

    A subject is a name, ``"module:object"``, or, in this process only, a :class:`Subject`. ``jobs=0`` runs in this
    process; more than 0 uses that many processes, in which a crash affects one case.
    ``scheduler`` is the address of a Dask scheduler, whose workers then do the work.

    >>> result = check(["halfulp"], Plan(operators=("max_pool",), dtypes=("float32",), cases=8))
    >>> result.passed
    True
    """
    plan = plan or Plan()
    began = time.monotonic()
    names = tuple(dict.fromkeys(subjects))
    if not names or not units_of(plan):
        raise SubjectError("nothing would be checked: give a subject, and operators, modes and types that go together")
    with _runner(plan, names, jobs, scheduler, case_timeout, memory_limit) as runner:
        versions = runner.versions()
        book = Journal(None if journal is None else Path(journal), plan, versions)
        try:
            finished = _run_units(runner, plan, book, began, time_limit, progress)
            results = [
                SubjectResult(name, version, book.summaries[name], complete)
                for name, (version, complete) in versions.items()
            ]
            if reproducers:
                _reproduce(runner, results)
        finally:
            book.close()
    return Result(
        plan,
        results,
        demand or Demand(),
        seconds=time.monotonic() - began,
        finished=finished,
        date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        machine=_machine(),
        coverage=coverage_of(plan, book.units),
    )


def _runner(
    plan: Plan, names: tuple[str | Subject, ...], jobs: int, scheduler: str | None, timeout: float, memory: int | None
) -> Any:
    if not jobs and scheduler is None:
        return _InProcess(plan, names)
    elsewhere = tuple(name for name in names if isinstance(name, str))
    if len(elsewhere) < len(names):
        raise SubjectError("a subject for other processes must be a name, or module:object, which they can import")
    path = (str(Path.cwd()), *sys.path)
    if scheduler is not None:
        from halfulp.conformance.cluster import Cluster

        return Cluster(scheduler, plan, elsewhere, timeout, memory)
    return Pool(jobs, plan, elsewhere, timeout, memory, path)


def _run_units(
    runner: Any, plan: Plan, book: Journal, began: float, time_limit: float | None, progress: Progress
) -> bool:
    """Run what the journal does not have yet; the result says whether everything was done."""
    units = units_of(plan)
    tasks = [UnitTask(unit, set(book.crashes)) for unit in units if unit.key not in book.units]
    progress(len(book.units), len(units), book)

    def stop() -> bool:
        return time_limit is not None and time.monotonic() - began > time_limit

    for event in runner.run(tasks, stop):
        if isinstance(event, Crash):
            book.crash(event.subject, event.case, event.reason)
        elif isinstance(event.task, UnitTask):
            book.unit(event.task.unit.key, event.value)
            progress(len(book.units), len(units), book)
    return len(book.units) == len(units)


def _reproduce(runner: Any, results: list[SubjectResult]) -> None:
    """Shrink one case of every kind of failure, in the order of the findings."""
    tasks = [
        ReproduceTask(subject.name, finding.case, finding.aspect, finding.name)
        for subject in results
        for _, finding in subject.findings()[:_REPRODUCERS]
    ]
    order = {(t.subject, t.case, t.aspect, t.name): number for number, t in enumerate(tasks)}
    found: list[tuple[int, str, Reproducer]] = []
    for event in runner.run(tasks):
        if isinstance(event, Done) and event.value is not None and isinstance(event.task, ReproduceTask):
            task = event.task
            found.append((order[task.subject, task.case, task.aspect, task.name], task.subject, event.value))
    for _, name, reproducer in sorted(found, key=lambda item: item[0]):
        next(s for s in results if s.name == name).reproducers.append(reproducer)


def _machine() -> dict[str, str]:
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "cores": str(os.cpu_count()),
    }
