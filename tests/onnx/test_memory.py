"""``max_bytes`` holds for the sum of all values that are alive; sizes that NumPy cannot have are refused by name."""

import itertools
import math
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import halfulp as hu
import halfulp.onnx
from halfulp import ModelError, ops
from tests.onnx.models import model
from tests.scaling import examples

KIB = 1 << 10


def graph_of(nodes, outputs, initializers=()):
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, None)]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "g", inputs, results, initializer=list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=8)


def doubling(times):
    names = ["x", *(f"y{i}" for i in range(times))]
    nodes = [helper.make_node("Concat", [a, a], [b], axis=0) for a, b in itertools.pairwise(names)]
    return graph_of(nodes, [names[-1]])


def label_of(call):
    """The label of the refusal, or None if there is none."""
    try:
        call()
    except ModelError as error:
        return error.label
    return None


def peak_of(call):
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        label = label_of(call)
        assert label in (None, "O6")
        return tracemalloc.get_traced_memory()[1] - before, label == "O6"
    finally:
        tracemalloc.stop()


def test_doubling_is_refused_before_the_sum_is_above_the_limit_O6():
    x = np.ones(KIB, np.float32)  # 4 KiB; the values of 8 doublings are 8, 16, … 1024 KiB
    loaded = halfulp.onnx.load(doubling(8), max_bytes=512 * KIB)
    peak, refused = peak_of(lambda: loaded(x))
    assert refused
    assert peak < 512 * KIB
    with pytest.raises(ModelError, match=r"node 6 \(Concat\): output: .* besides the 266240 bytes in use is more than"):
        loaded(x)
    # The last node's input and output are alive together, and x with them.
    enough = (512 + 1024 + 4) * KIB
    assert halfulp.onnx.load(doubling(8), max_bytes=enough)(x).shape == (256 * KIB,)
    with pytest.raises(ModelError, match=f"max_bytes={enough - 1} "):
        halfulp.onnx.load(doubling(8), max_bytes=enough - 1)(x)


def test_values_are_given_back_after_their_last_use():
    names = ["x", *(f"y{i}" for i in range(50))]
    chain = [helper.make_node("Relu", [a], [b]) for a, b in itertools.pairwise(names)]
    x = np.ones(KIB, np.float32)
    loaded = halfulp.onnx.load(graph_of(chain, [names[-1]]), max_bytes=12 * KIB)
    assert loaded(x).shape == x.shape
    assert loaded(x).shape == x.shape  # nothing is left over from the first call
    wide = halfulp.onnx.load(graph_of(chain, names[1:]), max_bytes=12 * KIB)
    with pytest.raises(ModelError, match=r"node 2 \(Relu\): output: .*\[O6\]"):
        wide(x)
    with pytest.raises(ModelError, match=r"\[O6\]"):  # pullbacks may keep values after their last use
        hu.grad(lambda v: ops.sum(loaded(v)))(x)


def test_views_count_once_and_inputs_and_constants_count():
    nodes = [
        helper.make_node("Transpose", ["x"], ["a"]),
        helper.make_node("Transpose", ["a"], ["b"]),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    x = np.ones((32, 32), np.float32)
    assert halfulp.onnx.load(graph_of(nodes, ["y"]), max_bytes=8 * KIB)(x).shape == x.shape
    with pytest.raises(ModelError, match=r"node 2 \(Relu\): output: .* besides the 4096 bytes in use"):
        halfulp.onnx.load(graph_of(nodes, ["y"]), max_bytes=8 * KIB - 1)(x)
    weights = [onnx.numpy_helper.from_array(np.ones(KIB, np.float32), f"w{i}") for i in range(3)]
    with pytest.raises(ModelError, match=r"tensor 'w2': .* besides the 8192 bytes in use is more than max_bytes=10240"):
        halfulp.onnx.load(graph_of(nodes, ["y"], weights), max_bytes=10 * KIB)
    with pytest.raises(ModelError, match=r"model: inputs: all values in use take 16384 bytes"):
        halfulp.onnx.load(graph_of(nodes, ["y"], weights), max_bytes=14 * KIB)(x)
    several = [helper.make_node("Constant", [], [f"c{i}"], value=weight) for i, weight in enumerate(weights)]
    with pytest.raises(ModelError, match=r"node 2 \(Constant\): tensor 'w2': .* besides the 8192 bytes"):
        halfulp.onnx.load(graph_of([*several, *nodes], ["y"]), max_bytes=10 * KIB)


@examples(60)
@given(
    st.lists(st.tuples(st.sampled_from(range(8)), st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=14),
    st.integers(64, 1200),
    st.booleans(),
)
def test_no_model_takes_more_than_the_limit(moves, limit, all_are_outputs):
    names, nodes = ["x"], []
    for kind, a, b in moves:
        one, two, new = names[a % len(names)], names[b % len(names)], f"y{len(names)}"
        op_type, given, attributes = [
            ("Concat", [one, one], {"axis": 0}),
            ("Concat", [one, two], {"axis": 0}),
            ("Relu", [one], {}),
            ("Identity", [one], {}),
            ("Add", [one, one], {}),
            ("Clip", [one], {}),
            ("Softmax", [one], {}),
            ("Pad", [one, "pads"], {}),
        ][kind]
        nodes.append(helper.make_node(op_type, given, [new], **attributes))
        names.append(new)
    outputs = names[1:] if all_are_outputs else names[-1:]
    pads = onnx.numpy_helper.from_array(np.array([512, 0, 512, 0]), "pads")
    loaded = halfulp.onnx.load(graph_of(nodes, outputs, [pads]), max_bytes=limit * KIB)
    x = np.ones((KIB, 2), np.float32)
    peak, _ = peak_of(lambda: loaded(x))
    assert peak < limit * KIB + 64 * KIB  # Python's own objects, and scratch memory of a fixed size


# Sizes ----------------------------------------------------------------------------------------------------------------


def with_initializer(dims):
    proto = model("m (float[1] x) => (float[1] y) { y = Relu(x) }")
    proto.graph.initializer.append(TensorProto(name="w", data_type=TensorProto.FLOAT, dims=dims))
    return proto


@given(st.lists(st.sampled_from([0, 1, 2, 2**31, 2**40, 2**62, 2**63 - 1]), max_size=80))
def test_shapes_of_initializers_O6(dims):
    label = label_of(lambda: halfulp.onnx.load(with_initializer(dims))(np.ones(1, np.float32)))
    possible = 0 in dims and len(dims) <= 64 and 4 * math.prod(max(1, n) for n in dims) < 2**63
    assert label == (None if possible else "O6")


@pytest.mark.parametrize(
    ("dims", "words"), [([0, 2**62, 2**62], "too large for memory addresses"), ([0] * 70, "has 70 axes")]
)
def test_an_empty_tensor_that_numpy_cannot_have_O6(dims, words):
    with pytest.raises(ModelError, match=rf"tensor 'w': .*{words}.* \[O6\]"):
        halfulp.onnx.load(with_initializer(dims))


@pytest.mark.parametrize("names", [["x", ""], ["", "x"], ["", ""], ["x", "", "x"]])
def test_concat_of_an_input_that_is_not_given_O9(names):
    with pytest.raises(ModelError, match=r"node 0 \(Concat\): inputs=.*\[O9\]"):
        halfulp.onnx.load(graph_of([helper.make_node("Concat", names, ["y"], axis=0)], ["y"]))


@pytest.mark.parametrize("op_type", ["Add", "MatMul", "Reshape", "Conv", "BatchNormalization"])
def test_required_inputs_that_are_not_given_O9(op_type):
    names = ["x", "", "x", "x", "x"] if op_type == "BatchNormalization" else ["x", ""]
    with pytest.raises(ModelError, match=r"\[O9\]"):
        halfulp.onnx.load(graph_of([helper.make_node(op_type, names, ["y"])], ["y"]))


# Weights --------------------------------------------------------------------------------------------------------------


def _weighty(path: Path, count: int, external: bool) -> None:
    """A chain of additions with ``count`` weights of 1 MB each."""
    nodes = [helper.make_node("Add", ["x" if i == 0 else f"v{i}", f"w{i}"], [f"v{i + 1}"]) for i in range(count)]
    weights = [numpy_helper.from_array(np.full(1 << 18, i, np.float32), f"w{i}") for i in range(count)]
    types = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1 << 18]) for n in ("x", f"v{count}")]
    graph = helper.make_graph(nodes, "g", types[:1], types[1:], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(proto, path, save_as_external_data=external, location="weights.bin")


_PEAK = """
import resource, sys
import numpy as np
import halfulp, halfulp.onnx, onnx
x = np.zeros(1 << 18, np.float32)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = halfulp.onnx.load(sys.argv[1])
assert float(model(x)[0]) == sum(range(64))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the peak is read from getrusage")
@pytest.mark.parametrize("external", [False, True])
def test_weights_are_in_memory_once(tmp_path: Path, external: bool) -> None:
    """64 MB of weights: the peak is at most 1.5 times that, with a few megabytes of values."""
    _weighty(tmp_path / "m.onnx", 64, external)
    command = [sys.executable, "-c", _PEAK, str(tmp_path / "m.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 1.5 * 64 + 8


def test_external_weights_are_views_of_their_file(tmp_path: Path) -> None:
    _weighty(tmp_path / "m.onnx", 2, True)
    program = halfulp.onnx.load(tmp_path / "m.onnx")._program
    assert len(program.constants) == 2
    for array in program.constants.values():
        assert not array.flags.owndata
        assert not array.flags.writeable


def test_a_file_and_its_bytes_are_the_same_model_O1(tmp_path: Path) -> None:
    _weighty(tmp_path / "m.onnx", 3, False)
    x = np.arange(1 << 18, dtype=np.float32)
    data = (tmp_path / "m.onnx").read_bytes()
    assert np.array_equal(halfulp.onnx.load(tmp_path / "m.onnx")(x), halfulp.onnx.load(data)(x))
    for cut in (len(data) // 3, len(data) - 1, 10, 0):  # inside of raw data, of the graph, of the head; nothing
        (tmp_path / "cut.onnx").write_bytes(data[:cut])
        with pytest.raises(ModelError) as caught:
            halfulp.onnx.load(tmp_path / "cut.onnx")
        assert caught.value.label == "O1"
