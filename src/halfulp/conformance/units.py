"""The work of a campaign in units: some settings of one operator and element type, for every subject and mode."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halfulp.conformance import adjoint, probes
from halfulp.conformance.cases import (
    DTYPES,
    FLOATS,
    MODES,
    OPERATORS,
    Case,
    Filling,
    Setting,
    known,
    make_arrays,
    takes,
)
from halfulp.conformance.corpus import corpus
from halfulp.conformance.oracle import Oracle
from halfulp.conformance.subjects import Subject
from halfulp.conformance.summary import Summary
from halfulp.conformance.verdict import Verdict, judge, judge_indices

__all__ = ["Plan", "Unit", "case_of", "run_unit", "setting_at", "units_of"]

CASES_PER_UNIT = 32
DEFAULT_CASES = 200


@dataclass(frozen=True)
class Plan:
    """What a campaign covers."""

    operators: tuple[str, ...] = OPERATORS
    modes: tuple[str, ...] = MODES
    dtypes: tuple[str, ...] = DTYPES
    cases: int = DEFAULT_CASES
    seed: int = 0
    probes: bool = True
    declare: tuple[str, ...] = ()
    """Modules that declare operators of their own; a process that gets the plan imports them."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        import_modules(self.declare)


def import_modules(names: tuple[str, ...]) -> None:
    """Import modules of declarations; those in the working directory are found, as ``python -m`` finds them."""
    here = str(Path.cwd())
    if names and here not in sys.path:
        sys.path.insert(0, here)
    for name in names:
        importlib.import_module(name)


@dataclass(frozen=True)
class Unit:
    """Cases number ``start`` to ``stop`` of an operator in one element type, in every mode; or its probes."""

    operator: str
    dtype: str
    start: int
    stop: int
    probes: bool = False

    @property
    def key(self) -> str:
        """The unit's name in a journal."""
        return f"{self.operator}/{self.dtype}/{'probes' if self.probes else f'{self.start}-{self.stop}'}"


def units_of(plan: Plan) -> list[Unit]:
    """All units of a plan; an interrupted campaign has covered every operator and type about evenly."""
    pairs = [(o, d) for o in plan.operators for d in plan.dtypes if any(takes(o, m, d) for m in plan.modes)]
    units = [
        Unit(operator, dtype, start, min(start + CASES_PER_UNIT, plan.cases))
        for start in range(0, plan.cases, CASES_PER_UNIT)
        for operator, dtype in pairs
    ]
    if plan.probes:
        units += [Unit(o, d, 0, 0, probes=True) for o, d in pairs if d in FLOATS]
    return units


def place_of(operator: str, number: int) -> tuple[int, int]:
    """(setting, filling) of case number ``number``: curated settings have several fillings, drawn ones have one.

    >>> place_of("max_pool", 1)
    (0, 1)
    """
    curated = corpus(operator)
    for index, setting in enumerate(curated):
        if number < len(setting.fillings):
            return index, number
        number -= len(setting.fillings)
    return len(curated) + number, 0


def setting_at(operator: str, seed: int, dtype: str, index: int) -> Setting:
    """Setting number ``index`` of an operator: the curated ones come first, then those drawn for an element type."""
    curated = corpus(operator)
    if 0 <= index < len(curated):
        return curated[index]
    from halfulp.conformance.build import BLOCK, settings_of

    block, place = divmod(index - len(curated), BLOCK)
    if block < 0:
        raise IndexError(index)
    return settings_of(operator, seed, dtype, block)[place]


def case_of(key: str, seed: int) -> Case:
    """The case of a key such as ``max_pool/vjp/float32/12.3``: setting 12, filling 3."""
    operator, mode, dtype, place = key.split("/")
    if operator not in known() or mode not in MODES or dtype not in DTYPES:
        raise ValueError(f"{key}: no such operator, mode or element type")
    index, _, filling = place.partition(".")
    setting = setting_at(operator, seed, dtype, int(index))
    return Case(operator, setting, setting.fillings[int(filling)], dtype, mode, key)


Mark = Callable[[str, str], None]
"""Called before each case with the subject's name and the case's key, so that a crash can be blamed on it; and with
empty names while no subject runs, so that no subject is blamed for the time."""


def run_unit(
    unit: Unit,
    plan: Plan,
    subjects: list[Subject],
    mark: Mark = lambda subject, key: None,
    crashed: Collection[tuple[str, str]] = (),
) -> dict[str, Summary]:
    """The verdicts of a unit, by subject. Cases in ``crashed`` are left out: they brought a process down."""
    summaries = {subject.name: Summary() for subject in subjects}
    modes = [m for m in plan.modes if takes(unit.operator, m, unit.dtype)]
    if unit.probes:
        for subject in subjects:
            for mode in modes:
                key = f"{unit.operator}/{mode}/{unit.dtype}/probes"
                if (subject.name, key) not in crashed:
                    mark(subject.name, key)
                    cell = summaries[subject.name].cell(unit.operator, mode, unit.dtype)
                    for verdict in probes.probe(subject, unit.operator, mode, unit.dtype):
                        cell.note(key, verdict)
                    mark("", "")
        return summaries
    for index, setting, place, filling in _cases(unit, plan.seed):
        oracle = Oracle(make_arrays(setting, filling, unit.dtype))
        for subject in subjects:
            for mode in modes:
                key = f"{unit.operator}/{mode}/{unit.dtype}/{index}.{place}"
                if (subject.name, key) in crashed:
                    continue
                mark(subject.name, key)
                cell = summaries[subject.name].cell(unit.operator, mode, unit.dtype)
                _judge_case(cell, key, subject, setting, mode, oracle)
                mark("", "")
            if {"jvp", "vjp"} <= set(modes):
                mark(subject.name, f"{unit.operator}/vjp/{unit.dtype}/{index}.{place}")
                _judge_adjoint(
                    summaries[subject.name], unit, f"{index}.{place}", subject, setting, filling, oracle, crashed
                )
                mark("", "")
    return summaries


def _cases(unit: Unit, seed: int) -> Iterator[tuple[int, Setting, int, Filling]]:
    for number in range(unit.start, unit.stop):
        index, place = place_of(unit.operator, number)
        setting = setting_at(unit.operator, seed, unit.dtype, index)
        yield index, setting, place, setting.fillings[place]


def _judge_case(cell: Any, key: str, subject: Subject, setting: Setting, mode: str, oracle: Oracle) -> None:
    size = sum(a.size for a in oracle.arrays.primals if a is not None)
    verdict = judge(subject, setting.op, mode, oracle)
    cell.add(key, verdict, size)
    if mode == "forward" and verdict.status == "passed" and hasattr(setting.op, "ties"):
        indices = judge_indices(subject, setting.op, oracle)
        if indices is not None:
            cell.note(key, indices, size)
            cell.passed, cell.failed = cell.passed - 1, cell.failed + 1


def _judge_adjoint(
    summary: Summary,
    unit: Unit,
    place: str,
    subject: Subject,
    setting: Setting,
    filling: Filling,
    oracle: Oracle,
    crashed: Collection[tuple[str, str]],
) -> None:
    """Whether JVP and VJP of the subject itself are transposes, counted with the VJP."""
    keys = {mode: f"{unit.operator}/{mode}/{unit.dtype}/{place}" for mode in ("jvp", "vjp")}
    if any((subject.name, key) in crashed for key in keys.values()):
        return
    verdict: Verdict | None = adjoint.judge_adjoint(subject, setting.op, filling.label, oracle)
    if verdict is None:
        return
    cell = summary.cell(unit.operator, "vjp", unit.dtype)
    cell.note(keys["vjp"], verdict)
