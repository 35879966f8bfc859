"""ONNX's own backend tests, through its own runner, on halfulp's backend."""

import unittest
import warnings
from pathlib import Path

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
# What ONNX tests in these operators and halfulp refuses, each by name: training, sequences and optionals.
REFUSED = {
    "test_batchnorm_example_training_mode": "training_mode=1: only inference",
    "test_batchnorm_epsilon_training_mode": "training_mode=1: only inference",
    "test_identity_sequence": "must be a tensor",
    "test_identity_opt": "must be a tensor",
}


def _operators_of_tests() -> dict[str, set[str]]:
    """Name -> operators, of every test of ONNX whose operators are all ours."""
    found = {}
    for kind in ("node", "simple", "pytorch-converted", "pytorch-operator"):
        for test in load_model_tests(kind=kind):
            model = test.model or onnx.load(Path(test.model_dir) / "model.onnx")
            used = {node.op_type for node in model.graph.node}
            if used and used <= set(OPERATORS) and all(node.domain == "" for node in model.graph.node):
                found[test.name] = used
    return found


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # ONNX makes its cases when they are imported, overflowing casts included
    USED = _operators_of_tests()
    RUNNER = BackendTest(halfulp.onnx, __name__)
FUNCTIONS = {name: item.func for items in RUNNER._test_items.values() for name, item in items.items()}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", sorted(USED.keys() - REFUSED.keys()))
def test_onnx_backend_test(name: str) -> None:
    try:
        result = FUNCTIONS[f"{name}_cpu"](None)
    except unittest.SkipTest as skipped:
        pytest.fail(f"{name} did not run: {skipped}")
    assert result is None  # the runner compares shapes, types and values, and returns nothing


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_is_refused_is_refused_by_name_O3_O6(name: str) -> None:
    with pytest.raises(ModelError, match=REFUSED[name]) as caught:
        FUNCTIONS[f"{name}_cpu"](None)
    assert caught.value.label in ("O3", "O6")


def test_every_pooling_and_convolution_test_runs() -> None:
    """None of them is on the list of refusals, and there are as many as ONNX has."""
    relevant = {name for name, used in USED.items() if used & POOLING_AND_CONVOLUTION}
    assert not relevant & REFUSED.keys()
    assert len(relevant) >= 97
    for operator in POOLING_AND_CONVOLUTION:
        assert any(operator in USED[name] for name in relevant)


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
