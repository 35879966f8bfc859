"""The process that runs subjects. If one brings it down, the campaign loses one case.

It takes pickled tasks on its standard input and answers on its
standard output. Before each case it writes the case's name on a *board*, a small file mapped into memory, which the
parent reads when the process dies or hangs.
"""

from __future__ import annotations

import mmap
import os
import pickle
import struct
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from halfulp.conformance.report.result import Reproducer
from halfulp.conformance.subjects import Subject, SubjectError, Unsupported, load_subjects
from halfulp.conformance.summary import Summary
from halfulp.conformance.units import Plan, Unit, run_unit

BOARD_SIZE = 1024
_HEADER = struct.Struct("<dI")  # when the case began, length of its name


@dataclass(frozen=True)
class Setup:
    """What a worker must know before its first task."""

    plan: Plan
    subjects: tuple[str, ...]
    board: str
    memory_limit: int | None = None
    path: tuple[str, ...] = ()


@dataclass
class UnitTask:
    """Run a unit, without the cases that have crashed before."""

    unit: Unit
    crashed: set[tuple[str, str]] = field(default_factory=set)


@dataclass(frozen=True)
class ReproduceTask:
    """Shrink one failure and write a script for it."""

    subject: str
    case: str
    aspect: str
    name: str
    crashed: frozenset[tuple[str, str]] = frozenset()


Task = UnitTask | ReproduceTask


class Board:
    """Where a worker writes what it is about to do."""

    def __init__(self, path: str, create: bool = False) -> None:
        if create:
            Path(path).write_bytes(bytes(BOARD_SIZE))
        self._file = Path(path).open("r+b")  # noqa: SIM115  # stays open as long as the map
        self._map = mmap.mmap(self._file.fileno(), BOARD_SIZE)

    def write(self, subject: str, key: str) -> None:
        """Say which case begins; without a subject, that none does."""
        if not subject:
            self.clear()
            return
        text = f"{subject}\t{key}".encode()[: BOARD_SIZE - _HEADER.size]
        self._map[_HEADER.size : _HEADER.size + len(text)] = text
        self._map[: _HEADER.size] = _HEADER.pack(time.monotonic(), len(text))

    def clear(self) -> None:
        """Nothing is running."""
        self._map[: _HEADER.size] = _HEADER.pack(0.0, 0)

    def read(self) -> tuple[float, tuple[str, str] | None]:
        """(when it began, (subject, case)), or (0, None)."""
        began, length = _HEADER.unpack(self._map[: _HEADER.size])
        if not length:
            return 0.0, None
        subject, _, key = self._map[_HEADER.size : _HEADER.size + length].decode().partition("\t")
        return began, (subject, key)

    def close(self) -> None:
        """Let go of the file."""
        self._map.close()
        self._file.close()


def perform(task: Task, plan: Plan, subjects: list[Subject], board: Board) -> Any:
    """Do a task: summaries as plain data, or a reproducer."""
    if isinstance(task, UnitTask):
        found = run_unit(task.unit, plan, subjects, board.write, task.crashed)
        return {name: summary.to_json() for name, summary in found.items()}
    from halfulp.conformance.reproduce import reproduce

    (subject,) = (s for s in subjects if s.name == task.subject)
    board.write(task.subject, task.case)
    return reproduce(subject, task.case, task.aspect, task.name, plan.seed)


def load_all(names: Sequence[str | Subject]) -> list[Subject]:
    """The subjects, each on one thread; what is a subject already stays as it is."""
    loaded = iter(load_subjects([name for name in names if isinstance(name, str)]))
    subjects = [next(loaded) if isinstance(name, str) else name for name in names]
    for subject in subjects:
        try:
            subject.set_num_threads(1)
        except Unsupported:
            continue
    return subjects


def _limit_memory(limit: int | None) -> None:
    if limit is None:
        return
    import resource  # not on Windows, where there is no such limit

    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main() -> int:
    """Serve tasks until the input ends."""
    replies = os.fdopen(os.dup(1), "wb")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)  # what a framework prints must not mix with the replies
    if "HALFULP_WORKER_STDERR" not in os.environ:
        os.dup2(silence, 2)
    warnings.simplefilter("ignore")
    setup: Setup = pickle.load(sys.stdin.buffer)
    sys.path[:0] = [entry for entry in setup.path if entry not in sys.path]
    board = Board(setup.board)
    try:
        subjects = load_all(setup.subjects)
    except SubjectError as error:
        _send(replies, ("refused", str(error)))
        return 2
    _send(replies, ("ready", {s.name: (s.version, s.complete) for s in subjects}))
    _limit_memory(setup.memory_limit)
    while True:
        try:
            task: Task = pickle.load(sys.stdin.buffer)
        except EOFError:
            return 0
        try:
            reply = ("done", perform(task, setup.plan, subjects, board))
        except Exception:  # a defect of this package, not of a subject: the parent must see it
            reply = ("broken", traceback.format_exc())
        board.clear()
        _send(replies, reply)


def _send(stream: Any, reply: tuple[str, Any]) -> None:
    pickle.dump(reply, stream)
    stream.flush()


__all__ = [
    "Board",
    "ReproduceTask",
    "Reproducer",
    "Setup",
    "Summary",
    "Task",
    "UnitTask",
    "load_all",
    "main",
    "perform",
]
