"""Defects as kernels have them are found at default settings, and nobody else is blamed for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from halfulp.conformance import Demand, Plan, UserSubject, check
from halfulp.conformance.cases import OPERATORS

NAMES = [
    "WidthModulo16",
    "BatchBeyond4",
    "BfloatAccumulation",
    "CeilModeIn3D",
    "LastSampleLost",
    "PaddingCountedIfAsymmetric",
    "SwappedField",
    "SwappedStride",
    "FlushedOutputs",
    "OneWrongCallIn500",
    "TWICE",
    "ChangesItsInput",
    "InfinityInLongKernels",
    "OverflowOnTheWay",
    "DepthwiseTail",
    "IgnoresStrides",
    "DivisorIgnoredInCeilMode",
    "LastTieInLongRows",
    "MeanInTwoParts",
    "BiasOfTheFirstGroup",
]

WRONG_CAUSES = {
    "FlushedOutputs": {"subnormal inputs count as zero"},
    "OneWrongCallIn500": {"depends on the memory layout (negative strides)"},
    "TWICE": {"padding counts as zero, times the weight"},
}


def found_by(name: str, operators: tuple[str, ...], **plan: Any) -> set[str]:
    """The names of what a part of the default campaign finds: one operator and, unless said, one element type."""
    settings = {"dtypes": ("float32",)} | plan
    result = check([f"planted:{name}"], Plan(operators=operators, **settings), reproducers=False)
    assert not result.passed
    return {finding.name for _, finding in result.subjects[0].findings()}


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_defect_is_found_and_named(name: str) -> None:
    from planted import PLANTED

    operator, names = PLANTED[name]
    assert list(PLANTED) == NAMES
    plan = {"dtypes": ("float16", "float32", "float64")} if name == "OneWrongCallIn500" else {}
    found = found_by(name, (operator,), **plan)
    assert found & names
    assert not found & WRONG_CAUSES.get(name, set())


@pytest.mark.parametrize("operator", ["avg_pool", "max_pool", "conv_transpose"])
def test_flushed_results_are_not_blamed_on_the_inputs(operator: str) -> None:
    found = found_by("FlushedOutputs", (operator,))
    assert all("results are flushed" in name for name in found)


def test_a_wrong_answer_that_does_not_come_back_is_the_only_finding() -> None:
    plan = Plan(operators=("avg_pool", "max_pool"), dtypes=("float32", "float64"))
    result = check(["planted:OneWrongCallIn500"], plan, reproducers=True)
    assert {finding.name for _, finding in result.subjects[0].findings()} == {"differs from run to run"}


def test_another_nan_is_no_defect() -> None:
    plan = Plan(operators=("max_pool", "avg_pool"), dtypes=("float32",))
    assert check(["planted:NanPayload"], plan).passed


@pytest.mark.parametrize("seed", [1, 2])
def test_a_perfect_subject_is_not_blamed_whatever_the_seed(seed: int) -> None:
    result = check(["defects:Perfect"], Plan(dtypes=("bfloat16", "float32"), cases=110, seed=seed, probes=False))
    assert result.subjects[0].findings() == []
    assert result.passed


def test_a_changed_input_is_named_in_every_mode_and_does_not_spoil_the_next_case() -> None:
    class Negates:
        policies = True

        def forward(self, op: Any, *inputs: Any) -> Any:
            out = op(*inputs)
            np.negative(inputs[0], out=inputs[0])
            return out

        def jvp(self, op: Any, primals: Any, tangents: Any) -> Any:
            tangents[0][...] = 7
            return op.jvp(primals, tangents)

        def vjp(self, op: Any, primals: Any, cotangent: Any) -> Any:
            found = op.vjp(*primals)[1](cotangent.copy())
            cotangent += 1
            return found

    plan = Plan(operators=("avg_pool",), dtypes=("float32",), cases=8)
    (subject,) = check([UserSubject("negates", Negates())], plan).subjects
    cells = subject.summary.cells
    assert {f.name for _, f in subject.findings()} == {"changes its input"}
    messages = {
        mode: next(iter(cells["avg_pool", mode, "float32"].findings.values())).message
        for mode in ("forward", "jvp", "vjp")
    }
    assert messages == {
        "forward": "forward writes into its argument x",
        "jvp": "jvp writes into its argument tangent of x",
        "vjp": "vjp writes into its argument cotangent",
    }


class Odd:
    """Returns what it is told to, in every mode."""

    def __init__(self, made: Any) -> None:
        self.made = made

    def forward(self, op: Any, *inputs: Any) -> Any:
        return self.made(op(*inputs))

    def jvp(self, op: Any, primals: Any, tangents: Any) -> Any:
        out, tangent = op.jvp(primals, tangents)
        return out, self.made(tangent)

    def vjp(self, op: Any, primals: Any, cotangent: Any) -> Any:
        return tuple(None if a is None else self.made(a) for a in op.vjp(*primals)[1](cotangent))

    def indices(self, op: Any, x: Any) -> Any:
        return self.made(np.zeros(op.output_shape(x.shape), np.int64))


ODD: dict[str, Any] = {
    "a scalar": lambda a: 1.5,
    "a numpy scalar": lambda a: np.float32(1),
    "nothing": lambda a: None,
    "text": lambda a: "what?",
    "a ragged list": lambda a: [[1.0], [1.0, 2.0]],
    "objects": lambda a: a.astype(object),
    "pairs": lambda a: (a, a),
    "complex numbers": lambda a: a.astype(np.complex128),
    "truth": lambda a: a > 0,
    "dates": lambda a: np.zeros(a.shape, "datetime64[s]"),
    "one axis more": lambda a: a[None],
    "one cell less": lambda a: a.ravel()[1:],
    "empty": lambda a: np.zeros(0, a.dtype),
    "a dict": lambda a: {"out": a},
    "a structured array": lambda a: np.zeros(a.shape, [("a", "f4")]),
    "other bytes": lambda a: a.astype(a.dtype.newbyteorder()),
}


@pytest.mark.parametrize("kind", ODD)
def test_an_answer_that_is_no_array_of_the_right_kind_costs_one_case(kind: str) -> None:
    plan = Plan(operators=("max_pool", "conv"), dtypes=("float32",), cases=12)
    result = check([UserSubject("odd", Odd(ODD[kind]))], plan)
    total = result.subjects[0].summary.total()
    assert not result.passed
    assert (total.cases, total.unsupported, total.crashed) == (72, 0, 0)
    assert total.failed > 60  # an empty batch has no wrong shape in every case
    assert {finding.aspect for _, finding in result.subjects[0].findings()} == {"shape"}


@pytest.mark.parametrize(
    "made", [lambda found: found[0], lambda found: 3.0, lambda found: None, lambda found: found * 2]
)
def test_a_wrong_number_of_cotangents_costs_one_case(made: Any) -> None:
    class Vjp:
        policies = True

        def vjp(self, op: Any, primals: Any, cotangent: Any) -> Any:
            return made(op.vjp(*primals)[1](cotangent))

        def jvp(self, op: Any, primals: Any, tangents: Any) -> Any:
            return made(op.jvp(primals, tangents))

    plan = Plan(operators=("conv",), modes=("jvp", "vjp"), dtypes=("float32",), cases=8)
    result = check([UserSubject("vjp", Vjp())], plan)
    total = result.subjects[0].summary.total()
    assert (total.cases, total.failed) == (16, 16)


def raises(op: Any, *inputs: Any) -> Any:
    """Never answers."""
    raise RuntimeError("broken\x1b[31m\x00 \ud800 here")


def test_a_subject_that_always_raises_does_not_pass() -> None:
    result = check([UserSubject("raises", raises)], Plan(operators=("conv",), dtypes=("float32",), cases=8))
    (subject,) = result.subjects
    assert not result.passed
    assert not Demand.parse("none").met_by(subject)
    assert subject.summary.total().judged == 0


def test_a_campaign_without_a_case_is_refused_or_does_not_pass() -> None:
    with pytest.raises(ValueError, match="nothing would be checked"):
        check(["halfulp"], Plan(operators=("conv",), dtypes=("int8",)))
    with pytest.raises(ValueError, match="nothing would be checked"):
        check([], Plan(operators=("conv",), dtypes=("float32",)))
    stopped = check(["halfulp"], Plan(operators=("conv",), dtypes=("float32",)), time_limit=-1.0)
    assert stopped.subjects[0].summary.total().cases == 0
    assert not stopped.passed


def test_the_seed_decides_most_cases() -> None:
    from halfulp.conformance.units import place_of, setting_at

    for operator in OPERATORS:
        first, second = (
            [setting_at(operator, seed, "float32", place_of(operator, n)[0]) for n in range(200)] for seed in (0, 1)
        )
        assert sum(a != b for a, b in zip(first, second, strict=True)) > 120
