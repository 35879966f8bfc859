"""Seeded defects: each is found, gets its right name, and nothing else is blamed."""

from __future__ import annotations

from typing import Any

import pytest

from halfulp.conformance import Demand, Plan, check
from halfulp.conformance.cases import OPERATORS
from halfulp.conformance.report import SubjectResult
from halfulp.records import declarations


def findings(subject: str, *operators: str, **plan: Any) -> tuple[SubjectResult, set[tuple[str, str]]]:
    """The subject's result, and (aspect, name) of everything that was found."""
    settings = {"dtypes": ("float32",), "cases": 96, "probes": False} | plan
    result = check([f"defects:{subject}"], Plan(operators=operators, **settings))
    (subject_result,) = result.subjects
    return subject_result, {(f.aspect, f.name) for _, f in subject_result.findings()}


def test_a_perfect_subject_passes_everything() -> None:
    result = check(["defects:Perfect"], Plan(cases=16, probes=False))
    assert result.passed
    total = result.subjects[0].summary.total()
    assert (total.failed, total.unsupported, total.crashed) == (0, 0, 0)
    operators = [d for d in declarations() if d.name in OPERATORS]
    assert total.cases == (len(operators) * 3 + sum(d.integers for d in operators)) * 4 * 16  # four types of each kind
    assert total.correct == total.elements > 0
    assert result.subjects[0].findings() == []


@pytest.mark.parametrize("operator", ["max_pool", "avg_pool", "smooth_max_pool"])
def test_a_wrong_ceil_mode_is_named(operator: str) -> None:
    _, found = findings("WrongCeilMode", operator, modes=("forward", "jvp"))
    assert found == {("shape", "ceil_mode is the wrong way round")}


@pytest.mark.parametrize("operator", ["max_pool", "adaptive_max_pool", "global_max_pool"])
def test_a_wrong_tie_rule_is_named(operator: str) -> None:
    result, found = findings("LastTie", operator)
    assert ("ties", "ties go to the last maximum") in found
    assert {aspect for aspect, _ in found} <= {"ties", "nan"}
    rules = result.summary.select(operator, "vjp").rules["ties"]
    assert rules["last"] > 10
    assert "other" not in rules


def test_the_last_of_several_nans_is_named() -> None:
    _, found = findings("LastTie", "max_pool", modes=("jvp",))
    assert ("ties", "ties go to the last maximum") in found


@pytest.mark.parametrize("operator", ["max_pool", "adaptive_max_pool", "global_max_pool"])
def test_an_ignored_nan_is_named(operator: str) -> None:
    result, found = findings("NanIgnored", operator)
    assert found == {("nan", "NaN is ignored")}
    assert result.summary.select(operator, "forward").rules["nan"]["ignore"] > 0


def test_one_ulp_in_one_case_of_a_thousand_is_found() -> None:
    result, found = findings("RarelyOneUlpOff", "avg_pool", modes=("forward",), cases=3000)
    assert found == {("value", "one ulp off")}
    cell = result.summary.total()
    assert 0 < cell.failed < 12
    assert cell.worst == 1.0
    assert cell.elements - cell.correct == cell.failed


def test_padded_zeros_in_a_maximum_are_named() -> None:
    _, found = findings("PaddedZeros", "max_pool", modes=("forward",))
    assert ("padding", "padding counts as zero in the maximum") in found
    assert {aspect for aspect, _ in found} == {"padding"}


def test_a_transposed_weight_is_named() -> None:
    _, found = findings("TransposedWeight", "conv", modes=("forward",), cases=80)
    assert ("value", "the weight's channels are transposed") in found


def test_counted_padding_is_named() -> None:
    _, found = findings("CountsEverything", "avg_pool", cases=120)
    assert ("padding", "padding is counted") in found
    assert not {name for _, name in found} & {"padding is not counted", "cells beyond the padding are counted"}


def test_sums_that_depend_on_threads_are_named() -> None:
    _, found = findings("ThreadDependent", "conv", modes=("forward",), cases=4, probes=True)
    assert found == {("reproducible", "depends on the number of threads")}


def test_sums_that_depend_on_the_batch_are_named() -> None:
    _, found = findings("BatchDependent", "conv", modes=("forward",), cases=4, probes=True)
    assert ("reproducible", "depends on the batch size") in found


def test_a_vjp_that_is_not_the_transpose_of_the_jvp_is_named() -> None:
    _, found = findings("NotATranspose", "conv", cases=24)
    assert ("adjoint", "the VJP is not the transpose of the JVP") in found


def test_what_is_not_supported_is_not_a_pass() -> None:
    result, found = findings("Picky", "max_pool", modes=("forward",))
    cell = result.summary.total()
    assert found == set()
    assert cell.unsupported > 0
    assert cell.passed + cell.unsupported == cell.cases
    assert list(cell.reasons) == ["NotImplementedError: no dilation here"]
    assert Demand().met_by(result)
    assert not Demand.parse("unsupported").met_by(result)


def test_a_function_is_enough_for_a_backend() -> None:
    result, found = findings("function", "max_pool", cases=8)
    assert found == set()
    assert result.summary.select(mode="forward").unsupported == 0
    assert result.summary.select(mode="vjp").reasons == {"defects:function has no vjp": 8}
