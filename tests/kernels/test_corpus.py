"""The same bits on every machine: the recorded digests of the corpus, on every instruction set that is here."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import halfulp as hu
from halfulp import _core, kernels
from halfulp.records._declaration import declaration_of
from tests.corpus.cases import Case, cases
from tests.corpus.digests import computed, differences, digest, recorded
from tests.corpus.generator import FORMATS, INTEGERS, array, words

EVERY = list(cases())
ROOT = Path(__file__).parent.parent.parent


def run(isa: str, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HALFULP_ISA": isa}
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, env=environment, cwd=ROOT)


@pytest.mark.parametrize("isa", _core.available_isas())
def test_every_output_has_its_recorded_bits(restore: None, isa: str) -> None:
    _core.set_isa(isa)
    hu.set_num_threads(1)
    assert differences(EVERY, recorded()) == []


def test_the_record_has_exactly_the_cases() -> None:
    names = [case.name for case in EVERY]
    assert len(set(names)) == len(names)
    assert set(recorded()) == set(names)


def test_every_operator_with_kernels_of_the_core_has_cases() -> None:
    missing = {record.__name__ for record in kernels.entries} - {type(case.op).__name__ for case in EVERY}
    assert missing == set(), "add cases to tests/corpus/cases.py, then python -m tests.corpus --record"


@pytest.mark.parametrize("field", ["ties", "nan"])
def test_every_policy_of_every_operator_has_cases_in_every_float_type(field: str) -> None:
    words = {"ties": {"first", "last", "all", "split"}, "nan": {"propagate", "ignore"}}[field]
    for record in kernels.entries:
        if field not in {f.name for f in fields(record)}:
            continue
        own = [case for case in EVERY if type(case.op) is record]
        for dtype in FORMATS:
            assert words <= {getattr(case.op, field) for case in own if case.dtype == dtype}, (record.__name__, dtype)


def test_operators_on_integers_have_cases_in_every_integer_type() -> None:
    for record in kernels.entries:
        if declaration_of(record).integers:
            own = {case.dtype for case in EVERY if type(case.op) is record}
            assert own >= set(INTEGERS), record.__name__


def test_policies_types_and_kinds_all_appear() -> None:
    hard = [case for case in EVERY if isinstance(case.op, hu.MaxPool) and case.dtype in FORMATS]
    assert len({(case.op.ties, case.op.nan, case.dtype, case.kind) for case in hard}) >= 4 * 2 * 4 * 3


def test_a_difference_is_told_with_seed_and_parameters() -> None:
    case = Case(hu.MaxPool((2,)), ((4,),), "float32", "near")
    (line, *rest) = differences([case], {case.name: {**computed(case), "value": "something else"}})
    assert rest == []
    assert line.startswith(f"MaxPool((2,)) 4 float32 near, seed {case.seed}: value is ")
    assert line.endswith(", recorded something else")


def test_inputs_are_made_of_integers_alone() -> None:
    assert [hex(word) for word in words(0, 3).tolist()] == [
        "0xe220a8397b1dcdaf",
        "0x6e789e6aa1b965f4",
        "0x6c45d188009454f",
    ]
    for dtype, (real, unsigned, _, _) in FORMATS.items():
        x = array(dtype, (64,), "hard", 5)
        assert x.dtype == real
        assert len(set(x.view(unsigned).tolist())) > 16
    assert np.isnan(array("float32", (512,), "hard", 5)).any()
    assert np.isfinite(array("float64", (512,), "wide", 5)).all()


def test_a_digest_knows_zeros_apart_and_no_two_nans() -> None:
    assert digest(np.array([0.0])) != digest(np.array([-0.0]))
    assert digest(np.array([np.nan])) == digest(np.array([-np.nan]))
    assert digest(np.zeros(2, np.float32)) != digest(np.zeros((1, 2), np.float32))


@pytest.mark.parametrize("isa", _core.available_isas())
def test_the_environment_forces_an_instruction_set(isa: str) -> None:
    done = run(isa, "-c", "from halfulp import _core; print(_core.get_isa())")
    assert (done.stdout, done.returncode) == (f"{isa}\n", 0)


def test_an_empty_variable_forces_nothing() -> None:
    done = run("", "-c", "from halfulp import _core; print(_core.get_isa())")
    assert done.stdout == f"{_core.available_isas()[-1]}\n"


@pytest.mark.parametrize(
    ("isa", "rule"),
    [
        ("sse9", "must be baseline, avx2, avx512 or neon"),
        ("AVX2", "must be baseline, avx2, avx512 or neon"),
        *[
            (isa, "this machine does not have this instruction set")
            for isa in ("avx2", "avx512", "neon")
            if isa not in _core.available_isas()
        ],
    ],
)
def test_an_unknown_instruction_set_is_an_error_at_import(isa: str, rule: str) -> None:
    done = run(isa, "-c", "import halfulp")
    assert done.returncode == 1
    available = ", ".join(_core.available_isas())
    assert done.stderr.splitlines()[-1] == f"ImportError: HALFULP_ISA={isa}: {rule}; available here: {available}"
