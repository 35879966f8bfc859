"""Run a verifier on many networks, each in a child process that may crash or hang."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from halfulp.conformance.bounds.drawing import draw
from halfulp.conformance.bounds.judge import Answer, Verdict, judge
from halfulp.conformance.bounds.network import Network, features, onnx_model
from halfulp.conformance.bounds.search import Evidence, evidence
from halfulp.conformance.bounds.shrinking import smaller
from halfulp.conformance.bounds.verifiers import Verifier, verifier

__all__ = ["Finding", "Grade", "check_bounds"]

_START = 300.0
"""Seconds that a child process may take to import a verifier."""

FINDINGS = ("unsound", "rounding", "malformed", "crashed", "hung")


@dataclass(frozen=True, eq=False)
class Finding:
    """A network on which a verifier is wrong, and how."""

    number: int
    network: Network
    verdict: Verdict


@dataclass(eq=False)
class Grade:
    """What was found about one verifier."""

    name: str
    seed: int
    networks: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    by_feature: dict[str, Counter[str]] = field(default_factory=dict)
    refusals: Counter[str] = field(default_factory=Counter)
    tightness: list[float] = field(default_factory=list)
    """Width of the bounds over width of the exact range, where that is known."""
    looseness: list[float] = field(default_factory=list)
    """The same over the range that the search found, for the other networks: at least the true ratio."""
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether no answer was wrong, and there was one. A refusal is not wrong."""
        return self.statuses["sound"] > 0 and not any(self.statuses[status] for status in FINDINGS)

    @property
    def mean_tightness(self) -> float | None:
        """The geometric mean of `tightness`."""
        return _mean(self.tightness)

    @property
    def mean_looseness(self) -> float | None:
        """The geometric mean of `looseness`."""
        return _mean(self.looseness)

    def add(self, number: int, network: Network, verdict: Verdict) -> None:
        """Count one verdict."""
        self.networks += 1
        self.statuses[verdict.status] += 1
        for feature in features(network):
            self.by_feature.setdefault(feature, Counter())[verdict.status] += 1
        if verdict.status == "refused":
            self.refusals[verdict.text] += 1
        if verdict.tightness is not None:
            (self.tightness if verdict.whole else self.looseness).append(verdict.tightness)
        if verdict.status in FINDINGS:
            self.findings.append(Finding(number, network, verdict))


def _mean(ratios: list[float]) -> float | None:
    finite = [ratio for ratio in ratios if 0 < ratio < math.inf]
    return math.exp(sum(map(math.log, finite)) / len(finite)) if finite else None


def _ask(function: Verifier, path: str, lower: Any, upper: Any) -> Answer:
    try:
        low, high = function(path, lower, upper)
        return Answer(np.array(low, dtype=np.float64), np.array(high, dtype=np.float64))
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        return Answer(status="refused", text=f"{type(error).__name__}: {first[:200]}")


def _serve(name: str, connection: Any) -> None:
    """The child process: answer questions until there are no more. Its output is dropped."""
    with contextlib.suppress(OSError):
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
    function = verifier(name)
    connection.send("ready")
    while (question := connection.recv()) is not None:
        connection.send(_ask(function, *question))


class _Child:
    """A verifier in a process of its own, started again after a crash."""

    def __init__(self, name: str, timeout: float) -> None:
        self.name, self.timeout = name, timeout
        self.process: Any = None
        self.connection: Any = None

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(self.name, other), daemon=True)
        self.process.start()
        other.close()
        if not self.connection.poll(_START):
            raise TimeoutError
        self.connection.recv()

    def ask(self, path: str, lower: Any, upper: Any) -> Answer:
        try:
            if self.process is None:
                self.start()
            self.connection.send((path, lower, upper))
            if not self.connection.poll(self.timeout):
                self.stop()
                return Answer(status="hung", text=f"no answer within {self.timeout:g} s")
            answer: Answer = self.connection.recv()
            return answer
        except TimeoutError:
            self.stop()
            return Answer(status="hung", text=f"not imported within {_START:g} s")
        except (EOFError, OSError):
            self.process.join(5)
            code = self.process.exitcode
            self.stop()
            return Answer(status="crashed", text=f"the process ended with exit code {code}")

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.connection.close()
            self.process = None


@contextlib.contextmanager
def _asker(name: str, isolated: bool, timeout: float) -> Iterator[Callable[[Network], Answer]]:
    """A function that puts a network to the verifier."""
    function = verifier(name)  # in this process too, so that a wrong name is an error at once
    child = _Child(name, timeout)
    with tempfile.TemporaryDirectory(prefix="halfulp-bounds-") as folder:
        path = str(Path(folder) / "network.onnx")

        def ask(network: Network) -> Answer:
            Path(path).write_bytes(onnx_model(network).SerializeToString())
            lower, upper = network.lower[None], network.upper[None]
            return child.ask(path, lower, upper) if isolated else _ask(function, path, lower, upper)

        try:
            yield ask
        finally:
            child.stop()


@lru_cache(maxsize=1024)
def _case(seed: int, number: int, records: bool) -> tuple[Network, Evidence]:
    """A network and what is known about it: kept, since every verifier gets the same ones."""
    network = draw(seed, number, records)
    return network, evidence(network, number)


def check_bounds(
    name: str,
    networks: int = 100,
    seed: int = 0,
    *,
    records: bool = False,
    isolated: bool = True,
    time_limit: float | None = None,
    case_timeout: float = 60.0,
    progress: Callable[[int, int], None] | None = None,
) -> Grade:
    """Grade one verifier on drawn networks. The first finding of each kind is made smaller.

    With ``records`` every fourth network is a record of the registry, most of which only halfulp reads.
    """
    grade = Grade(name, seed)
    start = time.monotonic()
    with _asker(name, isolated, case_timeout) as ask:
        for number in range(networks):
            if time_limit is not None and time.monotonic() - start > time_limit:
                break
            network, found = _case(seed, number, records)
            grade.add(number, network, judge(network, found, ask(network)))
            if progress is not None:
                progress(number + 1, networks)
        grade.findings = _representative(grade.findings, ask)
    grade.seconds = time.monotonic() - start
    return grade


def _representative(findings: list[Finding], ask: Callable[[Network], Answer]) -> list[Finding]:
    """Smaller networks for a few findings, one per status and set of layer kinds; the worst status first."""
    order = sorted(findings, key=lambda f: (FINDINGS.index(f.verdict.status), len(f.network.layers), f.number))
    different: dict[Any, Finding] = {}
    for finding in order:
        different.setdefault(_kinds(finding), finding)
    small: dict[Any, Finding] = {}
    for finding in list(different.values())[:8]:
        isolated = finding.verdict.status in ("crashed", "hung")  # each attempt may take as long as the limit
        shrunk = finding if isolated else _shrunk(finding, ask)
        small.setdefault(_kinds(shrunk), shrunk)
    return list(small.values())


def _kinds(finding: Finding) -> Any:
    return finding.verdict.status, tuple(layer.kind for layer in finding.network.layers)


def _shrunk(finding: Finding, ask: Callable[[Network], Answer]) -> Finding:
    best, budget = finding, 60
    improved = True
    while improved and budget > 0:
        improved = False
        for network in smaller(best.network):
            budget -= 1
            if budget <= 0:
                break
            verdict = judge(network, evidence(network, finding.number), ask(network))
            if verdict.status == finding.verdict.status:
                best, improved = Finding(finding.number, network, verdict), True
                break
    return best
