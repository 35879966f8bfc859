"""Worker processes, one thread each to talk to them; crashes and hangs are reported, and the campaign continues."""

from __future__ import annotations

import contextlib
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfulp.conformance.subjects import SubjectError
from halfulp.conformance.units import Plan
from halfulp.conformance.worker import Board, ReproduceTask, Setup, Task, UnitTask

__all__ = ["Crash", "Done", "Pool", "WorkerBroken"]


class WorkerBroken(RuntimeError):
    """A defect of the check itself, not of a subject."""


@dataclass(frozen=True)
class Done:
    """A finished task and what came of it."""

    task: Task
    value: Any


@dataclass(frozen=True)
class Crash:
    """A process that was lost, and the case it was at."""

    subject: str
    case: str
    reason: str


class _Died(Exception):
    """A worker has gone; why, and what it was doing."""

    def __init__(self, reason: str, at: tuple[str, str] | None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at


class Worker:
    """One process, started when first needed and again after a crash."""

    def __init__(self, setup: Callable[[str], Setup], folder: Path, number: int) -> None:
        self._setup = setup
        self._board_path = str(folder / f"board{number}")
        self.board = Board(self._board_path, create=True)
        self.process: subprocess.Popen[bytes] | None = None
        self.hung = False
        self.versions: dict[str, tuple[str, bool]] = {}

    def start(self) -> None:
        """Start the process and wait until its subjects are loaded."""
        self.board.clear()
        self.hung = False
        command = [sys.executable, "-c", "from halfulp.conformance.worker import main; raise SystemExit(main())"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        word, value = self._exchange(self._setup(self._board_path))
        if word == "refused":
            raise SubjectError(value)
        self.versions = value

    def call(self, task: Task) -> Any:
        """Do a task in the process."""
        if self.process is None:
            self.start()
        word, value = self._exchange(task)
        if word == "broken":
            raise WorkerBroken(value)
        return value

    def _exchange(self, message: Any) -> tuple[str, Any]:
        process = self.process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump(message, process.stdin)
            process.stdin.flush()
            return pickle.load(process.stdout)  # type: ignore[no-any-return]
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            code = process.wait()
            at = self.board.read()[1]
            self._forget()
            raise _Died("hangs" if self.hung else _reason(code), at) from error

    def kill_if_hung(self, limit: float) -> None:
        """End a process whose case has run for too long."""
        began, at = self.board.read()
        if at is not None and self.process is not None and time.monotonic() - began > limit:
            self.hung = True
            self.process.kill()

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            with contextlib.suppress(OSError):
                self.process.kill()
            self.process.wait()
            self._forget()
        self.board.close()

    def _forget(self) -> None:
        """Close what led to a process that has ended."""
        process, self.process = self.process, None
        for stream in (process.stdin, process.stdout) if process is not None else ():
            if stream is not None:
                with contextlib.suppress(OSError):  # the other end is gone
                    stream.close()


def _reason(code: int) -> str:
    """Why a process ended, in words."""
    if code == -signal.SIGKILL if hasattr(signal, "SIGKILL") else False:
        return "is killed, as a system without memory does"
    if code < 0:
        with contextlib.suppress(ValueError):
            return f"crashes ({signal.Signals(-code).name})"
    return f"ends the process with exit code {code}"


class Pool:
    """Some workers. Use as a context manager; :meth:`run` yields events until all tasks are done."""

    def __init__(
        self,
        jobs: int,
        plan: Plan,
        subjects: tuple[str, ...],
        case_timeout: float = 60.0,
        memory_limit: int | None = None,
        path: tuple[str, ...] = (),
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="halfulp-")
        self._timeout = case_timeout

        def setup(board: str) -> Setup:
            return Setup(plan, subjects, board, memory_limit, path)

        self.workers = [Worker(setup, Path(self._folder.name), number) for number in range(max(1, jobs))]

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.stop()
        self._folder.cleanup()

    def versions(self) -> dict[str, tuple[str, bool]]:
        """Subject -> (version, complete), from a worker that has loaded them."""
        if not self.workers[0].versions:
            try:
                self.workers[0].start()
            except _Died as death:
                raise SubjectError(f"loading the subjects {death.reason}") from death
        return self.workers[0].versions

    def run(self, tasks: Iterable[Task], stop: Callable[[], bool] = lambda: False) -> Iterator[Done | Crash]:
        """Do the tasks, in any order. ``stop`` ends the run after the tasks that have begun."""
        waiting: queue.SimpleQueue[Task] = queue.SimpleQueue()
        for task in tasks:
            waiting.put(task)
        events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threads = [
            threading.Thread(target=_serve, args=(worker, waiting, events, stop), daemon=True)
            for worker in self.workers
        ]
        for thread in threads:
            thread.start()
        running = len(threads)
        while running:
            try:
                event = events.get(timeout=0.25)
            except queue.Empty:
                for worker in self.workers:
                    worker.kill_if_hung(self._timeout)
                continue
            if event is None:
                running -= 1
            elif isinstance(event, BaseException):
                raise event
            else:
                yield event
            # events may come so fast that the queue is never empty
            for worker in self.workers:
                worker.kill_if_hung(self._timeout)


def _serve(
    worker: Worker, waiting: queue.SimpleQueue[Task], events: queue.SimpleQueue[Any], stop: Callable[[], bool]
) -> None:
    """Give a worker one task after the other."""
    try:
        while not stop():
            try:
                task = waiting.get_nowait()
            except queue.Empty:
                break
            events.put(Done(task, _persist(worker, task, events)))
    except Exception as error:
        events.put(error)
    finally:
        events.put(None)


def _persist(worker: Worker, task: Task, events: queue.SimpleQueue[Any]) -> Any:
    """Do a task however often it brings the worker down; each time, the case at fault is left out."""
    idle_deaths = 0
    while True:
        try:
            return worker.call(task)
        except _Died as death:
            if isinstance(task, ReproduceTask):
                return None
            if death.at is None:
                idle_deaths += 1
                if idle_deaths > 2:
                    raise WorkerBroken(f"a worker {death.reason} before it began a case") from death
                continue
            assert isinstance(task, UnitTask)
            task.crashed.add(death.at)
            events.put(Crash(*death.at, death.reason))
