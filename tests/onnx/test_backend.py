"""ONNX's own backend tests, through its own runner, on halfulp's backend."""

import re
import unittest
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.backend.test import BackendTest
from onnx.backend.test.loader import load_model_tests

import halfulp.onnx
from halfulp import ModelError
from halfulp.onnx import OPERATORS

POOLING_AND_CONVOLUTION = {
    "AveragePool",
    "Conv",
    "ConvTranspose",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "LpPool",
    "MaxPool",
    "MaxUnpool",
}
# What ONNX tests in these operators and halfulp refuses, each by name: training, sequences, optionals, strings, and
# operator sets before 6.
REASONS = {
    r"test_batchnorm_\w*training_mode": "training_mode=1: only inference",
    r"test_training_dropout(_default)?(_mask)?": "training_mode=True: only inference",
    r"test_(identity|loop13|loop16)_(sequence|opt|seq|seq_none)": "must be a tensor",
    r"test_if_(opt|seq)": "is not computed",
    r"test_\w*string\w*": "element type STRING",
    r"test_not_[234]d": "must name one version of the operator set from 6",
    r"test_scan_sum": "Scan is computed from operator set 9",
}


DEFINED = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == "" and schema.has_function}
"""Operators that ONNX itself defines by other nodes; those that halfulp does not have are computed as these."""


def _used(graph: onnx.GraphProto) -> set[str]:
    """The operators of a graph and of the graphs inside it."""
    inner = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return {node.op_type for node in graph.node}.union(*map(_used, inner))


def _operators_of_tests() -> dict[str, set[str]]:
    """Name -> operators, of every test of ONNX whose operators are all ours."""
    found = {}
    for kind in ("node", "simple", "pytorch-converted", "pytorch-operator"):
        for test in load_model_tests(kind=kind):
            model = test.model or onnx.load(Path(test.model_dir) / "model.onnx")
            used = _used(model.graph)
            ours = set(OPERATORS) | DEFINED | {function.name for function in model.functions}
            if used and used <= ours and all(node.domain == "" for node in model.graph.node):
                found[test.name] = used
    return found


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # ONNX makes its cases when they are imported, overflowing casts included
    USED = _operators_of_tests()
    RUNNER = BackendTest(halfulp.onnx, __name__)
REFUSED = {name: rule for name in USED for pattern, rule in REASONS.items() if re.fullmatch(pattern, name)}
FUNCTIONS = {name: item.func for items in RUNNER._test_items.values() for name, item in items.items()}


APART = {
    # Every node is rounded once to float16; the recorded answer was computed otherwise: two cells are one ulp off.
    "test_attention_4d_causal_fp16_expanded": (
        r"Mismatched elements: 2 / 192(.|\n)*difference among violations: 0.000488"
    ),
    # The sum of these cells is 0; the recorded answer has what is left of other roundings.
    "test_dft_inverse": r"Mismatched elements: 10 / 200(.|\n)*difference among violations: 1.90734",
    "test_dft_inverse_opset19": r"Mismatched elements: 10 / 200(.|\n)*difference among violations: 1.90734",
}
"""Tests whose recorded answer is not the exact one, and how they fail."""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", sorted(USED.keys() - REFUSED.keys() - APART.keys()))
def test_onnx_backend_test(name: str) -> None:
    try:
        result = FUNCTIONS[f"{name}_cpu"](None)
    except unittest.SkipTest as skipped:
        pytest.fail(f"{name} did not run: {skipped}")
    assert result is None  # the runner compares shapes, types and values, and returns nothing


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", sorted(APART))
def test_an_answer_of_other_roundings_is_near(name: str) -> None:
    with pytest.raises(AssertionError, match=APART[name]):
        FUNCTIONS[f"{name}_cpu"](None)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_is_refused_is_refused_by_name_O1_O2_O3_O6_O9(name: str) -> None:
    with pytest.raises(ModelError, match=REFUSED[name]) as caught:
        FUNCTIONS[f"{name}_cpu"](None)
    assert caught.value.label in ("O1", "O2", "O3", "O6", "O9")


def test_every_pooling_and_convolution_test_runs() -> None:
    """None of them is on the list of refusals, and there are as many as ONNX has."""
    assert len(USED) - len(REFUSED) >= 880
    relevant = {name for name, used in USED.items() if used & POOLING_AND_CONVOLUTION}
    assert not relevant & REFUSED.keys()
    assert len(relevant) >= 97
    for operator in POOLING_AND_CONVOLUTION:
        assert any(operator in USED[name] for name in relevant)


def test_definitions_of_onnx_are_called_and_refused_by_name_O2() -> None:
    for name in DEFINED - set(OPERATORS):
        assert any(name in used for used in USED.values()), name
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> m (float[2] x) => (float[2] y) { y = Selu<gamma = 2.0>(x) }'
    )
    x = np.array([1.0, -0.0], dtype=np.float32)
    assert halfulp.onnx.load(proto)(x).tolist() == [2.0, 0.0]
    proto.graph.node[0].attribute[0].name = "delta"
    with pytest.raises(ModelError, match="delta: is not an attribute"):
        halfulp.onnx.load(proto)


def test_only_the_cpu_is_supported_O8() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> m (float[2] x) => (float[2] y) { y = Relu(x) }'
    )
    assert halfulp.onnx.supports_device("CPU")
    assert not halfulp.onnx.supports_device("CUDA")
    with pytest.raises(ModelError, match=r"device='CUDA:1': must be 'CPU' \[O8\]"):
        halfulp.onnx.prepare(model, "CUDA:1")
    with pytest.raises(ModelError, match="O8"):
        halfulp.onnx.run_node(model.graph.node[0], [], device="CUDA")
