"""Every subject answers, through its own interface and under its own rules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import halfulp as hu
from halfulp.conformance import SUBJECTS, Plan, SubjectError, Unsupported, UserSubject, check, load_subject
from halfulp.conformance.cases import Arrays
from halfulp.conformance.shrink import Sample, shrink
from halfulp.conformance.subjects._source import literal
from halfulp.conformance.units import case_of

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", SUBJECTS)
def test_subjects_agree_on_exact_integers(name: str) -> None:
    """In a process of its own: frameworks with threads and forks do not share one gladly."""
    command = [sys.executable, str(HERE / "agreement.py"), name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{name} ")


def test_torch_compile_has_no_forward_mode() -> None:
    with pytest.raises(Unsupported, match="no forward-mode derivative"):
        load_subject("torch-compile").jvp(hu.MaxPool((2, 2)), (None,), (None,))


def test_an_unknown_subject_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(SubjectError, match=r"no subject 'tensorflow'; known are halfulp, torch, .* module:object"):
        load_subject("tensorflow")


def test_a_module_that_is_not_there_is_an_error() -> None:
    with pytest.raises(SubjectError, match="'nowhere:thing' cannot be loaded: No module named 'nowhere'"):
        load_subject("nowhere:thing")


def test_the_naive_loop_is_not_correctly_rounded_but_follows_the_rules() -> None:
    plan = Plan(operators=("conv", "max_pool"), dtypes=("float32",), cases=96, probes=False)
    (subject,) = check(["numpy-naive"], plan).subjects
    assert {finding.aspect for _, finding in subject.findings()} <= {"value", "zero", "infinity"}
    assert subject.summary.select("max_pool", "forward").failed == 0
    assert subject.summary.select("conv").worst > 1


def test_check_imports_no_framework_that_is_not_asked_for() -> None:
    code = (
        "import sys, halfulp\n"
        "assert not {'rich', 'hypothesis'} & set(sys.modules)\n"
        "from halfulp.conformance import Plan, check\n"
        "check(['halfulp'], Plan(operators=('max_pool',), dtypes=('int8',), cases=4))\n"
        "assert not {'torch', 'jax', 'onnx', 'onnxruntime', 'openvino', 'distributed'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("op", "shape"), [(hu.Unfold((2, 2), padding=1), (2, 3, 4)), (hu.Fold((3, 4), (2, 2)), (2, 4, 6))]
)
def test_shrinking_changes_only_fields_that_a_record_has(op: hu.Operator, shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    arrays = Arrays((x,), (x.copy(),), np.ones(op.output_shape(shape), np.float32))
    small = shrink(Sample(op, arrays), lambda sample: bool(sample.arrays.primals[0].size), "forward")
    assert type(small.op) is type(op)
    assert small.arrays.primals[0].size < x.size


def test_shrinking_keeps_the_failure_and_little_else() -> None:
    case = case_of("max_pool/forward/float32/9.0", seed=0)
    arrays = case.arrays()
    big = Sample(hu.MaxPool((3, 3), stride=2, padding=1), arrays)
    small = shrink(big, lambda sample: bool((sample.arrays.primals[0] > 2).any()), "forward")
    x = small.arrays.primals[0]
    assert x is not None
    assert x.size == 1
    assert x.item() > 2
    assert repr(small.op) == "MaxPool((1, 1))"


def test_literals_give_back_the_same_bits() -> None:
    array = np.array([[0.1, -0.0], [np.inf, 1e-45]], np.float32)
    back = eval(literal(array), {"np": np}).astype(np.float32)
    assert back.tobytes() == array.tobytes()


def test_a_subject_object_stays_in_its_process() -> None:
    mine = UserSubject("mine", lambda op, *inputs: op(*inputs))
    plan = Plan(operators=("max_pool",), modes=("forward",), dtypes=("float32",), cases=8)
    assert check([mine], plan).passed
    with pytest.raises(SubjectError, match="a subject for other processes must be a name, or module:object"):
        check([mine], plan, jobs=1)


def test_shrinking_keeps_a_layout_only_where_it_matters() -> None:
    arrays = case_of("max_pool/forward/float32/17.0", seed=0).arrays()  # channels last
    sample = Sample(hu.MaxPool((2, 2), stride=1), arrays)
    x = arrays.primals[0]
    assert x is not None
    assert not x.flags.c_contiguous
    plain = shrink(sample, lambda s: s.arrays.primals[0] is not None, "forward")
    kept = shrink(sample, lambda s: not _first(s).flags.c_contiguous, "forward")
    assert _first(plain).flags.c_contiguous
    assert not _first(kept).flags.c_contiguous
    assert _first(kept).size < x.size


def _first(sample: Sample) -> Any:
    return sample.arrays.primals[0]
