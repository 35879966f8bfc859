"""Malformed and hostile models: a ModelError that says what is wrong, and nothing else."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import halfulp.onnx
from halfulp import HalfulpError, ModelError
from tests.onnx.models import model, network, node_model
from tests.scaling import examples

VALID = network().SerializeToString()


def assert_refused(source, label, *words, **options) -> None:
    with pytest.raises(ModelError) as caught:
        halfulp.onnx.load(source, **options)
    assert caught.value.label == label
    for word in words:
        assert word in str(caught.value)


def test_a_path_loads_and_runs(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(VALID)
    x = np.random.default_rng(0).standard_normal((2, 2, 8, 8)).astype(np.float32)
    loaded = halfulp.onnx.load(path)
    assert loaded(x).shape == (2, 3)
    assert np.array_equal(loaded(x=x), halfulp.onnx.load(VALID)(x))
    assert np.array_equal(loaded(x), halfulp.onnx.load(onnx.load(path))(x))
    assert repr(loaded).startswith("Model(x: float32[N, 2, 8, 8] -> y; 7 nodes: Conv, BatchNormalization")


def test_not_a_model_O1(tmp_path: Path) -> None:
    assert_refused(b"", "O1", "no graph")
    assert_refused(b"\x00\x01 garbage", "O1", "not a complete ONNX model")
    assert_refused(tmp_path / "absent.onnx", "O1", "is not a file")
    assert_refused(tmp_path, "O1", "is not a file")
    assert_refused(str(tmp_path) + "/\0", "O1")
    assert_refused(VALID[: len(VALID) // 2], "O1")
    assert_refused(model("m (float[1] x) => (float[1] y) { y = Relu(x) }", opset=5), "O1", "opset_import=[5]", "from 6")
    assert_refused(model("m (float[1] x) => (float[1] y) { y = Relu(x) }", opset=99), "O1", "opset_import=[99]")
    empty = model("m (float[1] x) => (float[1] y) { y = Relu(x) }")
    del empty.graph.output[:]
    assert_refused(empty, "O1", "outputs")


def test_every_truncation_O1_to_O9() -> None:
    for length in range(0, len(VALID), 7):
        with pytest.raises(ModelError):
            halfulp.onnx.load(VALID[:length])


@examples(400)
@given(st.lists(st.tuples(st.integers(0, len(VALID) - 1), st.integers(0, 255)), min_size=1, max_size=8))
def test_flipped_bytes_give_a_model_or_an_error_of_ours(changes: list[tuple[int, int]]) -> None:
    data = bytearray(VALID)
    for place, value in changes:
        data[place] = value
    x = np.zeros((1, 2, 8, 8), dtype=np.float32)
    outputs: object = None
    with contextlib.suppress(HalfulpError):  # any other exception fails the test
        outputs = halfulp.onnx.load(bytes(data), max_bytes=1 << 20).run([x])
    assert outputs is None or isinstance(outputs, tuple)


def test_unknown_operators_O2() -> None:
    assert_refused(
        model("m (float[1] x) => (float[1] y) { y = Det(x) }"),
        "O2",
        "node 0 (Det)",
        "operator 'Det'",
        "Conv, ConvInteger, ConvTranspose",
    )
    foreign = model("m (float[1] x) => (float[1] y) { y = Relu(x) }")
    foreign.graph.node[0].domain = "com.example"
    foreign.graph.node[0].name = "mine"
    assert_refused(foreign, "O2", "node 'mine' (Relu)", "domain 'com.example'")


@pytest.mark.parametrize(
    ("op_type", "attributes", "words"),
    [
        ("MaxPool", {"kernel_shape": [2, 2], "fancy": 1}, ["fancy", "is not an attribute of MaxPool"]),
        ("MaxPool", {}, ["kernel_shape", "must be given"]),
        ("MaxPool", {"kernel_shape": [0, 2]}, ["kernel_size=(0, 2)", "[W1]"]),
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [0, 1]}, ["stride=(0, 1)", "[W3]"]),
        ("MaxPool", {"kernel_shape": [2, 2], "pads": [1, 1, 1]}, ["pads=(1, 1, 1)"]),
        ("MaxPool", {"kernel_shape": [2, 2], "pads": [-1, 0, 0, 0]}, ["padding", "[W2]"]),
        ("MaxPool", {"kernel_shape": [2, 2], "storage_order": 2}, ["storage_order=2", "must be 0 or 1"]),
        ("MaxPool", {"kernel_shape": [2, 2], "ceil_mode": 0.5}, ["ceil_mode", "must be of type int"]),
        ("AveragePool", {"kernel_shape": [2, 2], "auto_pad": "SAME"}, ["auto_pad='SAME'", "SAME_UPPER"]),
        (
            "AveragePool",
            {"kernel_shape": [2], "auto_pad": "VALID", "pads": [1, 1]},
            ["pads=(1, 1)", "auto_pad='VALID'"],
        ),
        ("LpPool", {"kernel_shape": [2, 2], "p": 0}, ["p=0", ">= 1"]),
        ("LpPool", {"kernel_shape": [2**11, 2**11]}, ["kernel_shape", "2**20"]),
        ("Concat", {}, ["axis", "must be given"]),
    ],
)
def test_attributes_are_refused_by_name_O3(op_type, attributes, words) -> None:
    proto = node_model(op_type, [np.zeros((1, 1, 4, 4), np.float32)], **attributes)
    assert_refused(proto, "O3", f"node 'the_node' ({op_type})", *words)


def test_more_refusals_O3() -> None:
    assert_refused(
        node_model("Pad", [np.zeros(2, np.float32), np.zeros(2, np.int64)], mode="mirror"), "O3", "mode='mirror'"
    )
    assert_refused(node_model("Constant", [], value_string="text"), "O3", "value_string")
    five = [np.zeros((1, 1, 2), np.float32)] + [np.ones(1, np.float32)] * 4
    assert_refused(node_model("BatchNormalization", five, training_mode=1), "O3", "training_mode=1")
    assert_refused(node_model("BatchNormalization", five, opset=8, spatial=0), "O3", "spatial=0")
    assert_refused(node_model("BatchNormalization", five, opset=6), "O3", "is_test=0")
    twice = node_model("MaxPool", [np.zeros((1, 1, 4), np.float32)], kernel_shape=[2])
    twice.graph.node[0].attribute.append(twice.graph.node[0].attribute[0])
    assert_refused(twice, "O3", "kernel_shape", "given twice")


def test_graphs_that_are_not_graphs_O4() -> None:
    cycle = model("m (float[1] x) => (float[1] y) { a = Add(x, b) b = Relu(a) y = Relu(b) }")
    assert_refused(cycle, "O4", "input 'b'", "a cycle, or nodes out of order")
    itself = model("m (float[1] x) => (float[1] y) { y = Relu(x) }")
    itself.graph.node[0].input[0] = "y"
    assert_refused(itself, "O4", "input 'y'", "a cycle")
    gap = model("m (float[1] x) => (float[1] y) { y = Relu(x) }")
    gap.graph.node[0].input[0] = "nowhere"
    assert_refused(gap, "O4", "input 'nowhere'", "is not defined")
    double = model("m (float[1] x) => (float[1] y) { y = Relu(x) }")
    double.graph.node.append(double.graph.node[0])
    assert_refused(double, "O4", "output 'y'", "a second time")
    lost = model("m (float[1] x) => (float[1] y) { z = Relu(x) y = Relu(z) }")
    del lost.graph.node[1]
    assert_refused(lost, "O4", "output 'y'", "not computed")
    silent = model("m (float[1] x) => (float[1] y) { y = Relu(x) }")
    silent.graph.node[0].output[0] = ""
    assert_refused(silent, "O4", "at least one")
    names = model("m (float[1] x, float[1] z) => (float[1] y) { y = Add(x, z) }")
    names.graph.input[1].name = "x"
    assert_refused(names, "O4", "every name must be used once")
    unnamed = network()
    unnamed.graph.initializer[0].name = ""
    assert_refused(unnamed, "O4", "a name of its own")


def external(folder: Path, location: str, **fields: str) -> Path:
    proto = network()
    tensor = proto.graph.initializer[0]
    data = tensor.raw_data
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **fields}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    inside = folder / "weights.bin"
    inside.write_bytes(b"head" + data)
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def test_external_data_inside_the_folder(tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((1, 2, 8, 8)).astype(np.float32)
    loaded = halfulp.onnx.load(external(tmp_path, "weights.bin", offset="4", length=str(4 * 72)))
    assert np.array_equal(loaded(x), halfulp.onnx.load(VALID)(x))


@pytest.mark.parametrize(
    "location", ["../secret.bin", "/etc/hostname", "", ".", "a/../../secret.bin", "link.bin", "x\0y"]
)
def test_external_data_outside_of_the_folder_O5(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(bytes(4 * 72))
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    assert_refused(external(folder, location), "O5", "must be a file inside the model's folder")


def test_external_data_without_a_folder_O5(tmp_path: Path) -> None:
    assert_refused(external(tmp_path, "weights.bin", offset="4").read_bytes(), "O5", "needs a model from a file")


def test_external_data_of_the_wrong_size_O6(tmp_path: Path) -> None:
    assert_refused(external(tmp_path, "weights.bin", offset="8"), "O6", "bytes")
    assert_refused(external(tmp_path, "weights.bin", offset="-4"), "O6", "offset='-4'")
    assert_refused(external(tmp_path, "weights.bin", length="9"), "O6", "length=9")
    assert_refused(external(tmp_path, "weights.bin", offset="1" * 30), "O6", "offset")


def broken(**fields) -> onnx.ModelProto:
    proto = network()
    tensor = proto.graph.initializer[0]
    for name, value in fields.items():
        if name == "dims":
            tensor.ClearField("dims")
            tensor.dims.extend(value)
        else:
            setattr(tensor, name, value)
    return proto


def test_tensors_that_do_not_fit_O6() -> None:
    assert_refused(broken(dims=[4, 2, 3]), "O6", "has 288 bytes", "96")
    assert_refused(broken(dims=[2**40, 2**40]), "O6", "max_bytes")
    assert_refused(broken(dims=[-1, 3]), "O6", "negative")
    assert_refused(broken(dims=[2**62, 2**62, 2**62]), "O6", "max_bytes")
    assert_refused(broken(raw_data=b"123"), "O6", "has 3 bytes")
    assert_refused(broken(data_type=TensorProto.STRING), "O6", "STRING")
    assert_refused(broken(data_type=9999), "O6", "9999")
    assert_refused(network(), "O6", "max_bytes=100", max_bytes=100)
    odd = network()
    odd.graph.initializer[0].ClearField("raw_data")
    assert_refused(odd, "O6", "has 0 values")
    sparse = network()
    sparse.graph.sparse_initializer.add()
    assert_refused(sparse, "O6", "must be a dense tensor")
    strings = model("m (string[1] x) => (string[1] y) { y = Identity(x) }")
    assert_refused(strings, "O6", "input 'x'", "STRING")
    wide = helper.make_tensor("w", TensorProto.FLOAT16, [1], [1.0])
    wide.ClearField("raw_data")
    del wide.int32_data[:]
    wide.int32_data.append(70000)
    half = model("m (float16[1] x) => (float16[1] y) { y = Add(x, w) }")
    half.graph.initializer.append(wide)
    assert_refused(half, "O6", "at most 65535")


def test_absurd_outputs_are_refused_before_they_are_made_O6() -> None:
    x = np.ones((1, 1, 2, 2), np.float32)
    huge = np.array([0, 0, 2**30, 2**30, 0, 0, 2**30, 2**30])
    cases = [
        (node_model("Pad", [x, huge]), [x, huge]),
        (node_model("ConvTranspose", [x, x], strides=[2**30, 2**30]), [x, x]),
        (node_model("MaxPool", [x], kernel_shape=[1, 1], pads=[2**20, 2**20, 2**20, 2**20]), [x]),
        (node_model("Conv", [x, x], pads=[2**20, 2**20, 2**20, 2**20]), [x, x]),
        (node_model("LpPool", [x], kernel_shape=[2, 2], pads=[2**20] * 4, strides=[2**19] * 2), [x]),
        (node_model("Add", [np.ones((2**20, 1), np.float32), np.ones((1, 2**20), np.float32)]), None),
        (node_model("MatMul", [np.ones((2**18, 1), np.float32), np.ones((1, 2**18), np.float32)]), None),
    ]
    for proto, inputs in cases:
        loaded = halfulp.onnx.load(proto)
        if inputs is None:
            size = 2**20 if proto.graph.node[0].op_type == "Add" else 2**18
            inputs = [np.ones((size, 1), np.float32), np.ones((1, size), np.float32)]
        with pytest.raises(ModelError) as caught:
            loaded.run(inputs)
        assert caught.value.label == "O6", str(caught.value)
        assert "node 'the_node'" in str(caught.value)


def test_calls_that_do_not_fit_O7() -> None:
    loaded = halfulp.onnx.load(VALID)
    x = np.zeros((1, 2, 8, 8), np.float32)
    for arguments, named, words in (
        ((), {}, "must be 1: ['x']"),
        ((x, x), {}, "2 inputs"),
        ((x,), {"x": x}, "argument 'x'"),
        ((), {"z": x}, "argument 'z'"),
        ((x.astype(np.float64),), {}, "dtype=float64: must be float32"),
        ((x[:, :1],), {}, "shape=(1, 1, 8, 8)"),
        ((x[0],), {}, "must be [N, 2, 8, 8]"),
    ):
        with pytest.raises(ModelError) as caught:
            loaded(*arguments, **named)
        assert caught.value.label == "O7"
        assert words in str(caught.value)
    pair = halfulp.onnx.load(model("m (float[N] a, float[N] b) => (float[N] y) { y = Add(a, b) }"))
    with pytest.raises(ModelError, match=r"input 'b' shape=\(2,\): must be \[N\] with \{'N': 3\}"):
        pair(np.zeros(3, np.float32), np.zeros(2, np.float32))
    prepared = halfulp.onnx.prepare(onnx.load_from_string(VALID))
    with pytest.raises(ModelError, match=r"inputs=\['wrong'\]"):
        prepared.run({"wrong": x})
    assert np.array_equal(prepared.run({"x": x})["y"], loaded(x))
    assert np.array_equal(prepared.run(x)[0], loaded(x))


@pytest.mark.parametrize(
    ("proto", "inputs", "words"),
    [
        (node_model("Conv", [np.zeros((1, 2, 4), np.float32)] * 2), [(1, 2, 4), (1, 3, 2)], "[C4]"),
        (node_model("Conv", [np.zeros((1, 2, 4), np.float32)] * 2), [(1, 2, 4, 4), (1, 2, 2)], "spatial axes"),
        (node_model("MaxPool", [np.zeros(1, np.float32)], kernel_shape=[9]), [(1, 1, 4)], "[W5]"),
        (node_model("MaxPool", [np.zeros(1, np.float32)], kernel_shape=[2]), [(1, 1, 4, 4)], "1 spatial axes"),
        (node_model("GlobalMaxPool", [np.zeros(1, np.float32)]), [(3, 3)], "spatial axes"),
        (node_model("Add", [np.zeros(1, np.float32)] * 2), [(2,), (3,)], "must broadcast"),
        (node_model("Gemm", [np.zeros(1, np.float32)] * 2), [(2, 3), (2, 3)], "inner sizes"),
        (node_model("Gemm", [np.zeros(1, np.float32)] * 3), [(2, 3), (3, 2), (5,)], ""),
        (node_model("Transpose", [np.zeros(1, np.float32)], perm=[0, 0]), [(2, 3)], "permutation"),
        (node_model("Flatten", [np.zeros(1, np.float32)], axis=5), [(2, 3)], "axis=5"),
        (node_model("Softmax", [np.zeros(1, np.float32)], axis=2), [(2, 3)], "axis=2"),
        (node_model("Concat", [np.zeros(1, np.float32)] * 2, axis=0), [(2, 3), (2,)], "axis=0"),
        (
            node_model("BatchNormalization", [np.zeros(1, np.float32)] * 5),
            [(1, 2, 3), (3,), (3,), (3,), (3,)],
            "channels",
        ),
    ],
)
def test_inputs_that_do_not_fit_a_node_O9(proto, inputs, words) -> None:
    with pytest.raises(ModelError) as caught:
        halfulp.onnx.load(proto).run([np.ones(shape, np.float32) for shape in inputs])
    assert caught.value.label == "O9"
    assert "node 'the_node'" in str(caught.value)
    assert words in str(caught.value)


def test_numbers_of_inputs_and_outputs_O9() -> None:
    x = np.zeros((1, 1, 2), np.float32)
    assert_refused(node_model("Conv", [x]), "O9", "there must be from 2 to 3")
    assert_refused(node_model("Relu", [x, x]), "O9", "there must be from 1 to 1")
    assert_refused(node_model("Relu", [x], outputs=2), "O9", "outputs=")


def test_reshape_with_a_shape_that_does_not_fit_O9() -> None:
    for shape, words in (([5], "[E2]"), ([-1, -1], "[E2]"), ([-3], ">= -1"), ([2, 3, 0], "no size to copy")):
        x, wanted = np.zeros((2, 3), np.float32), np.array(shape, np.int64)
        with pytest.raises(ModelError) as caught:
            halfulp.onnx.load(node_model("Reshape", [x, wanted])).run([x, wanted])
        assert caught.value.label == "O9"
        assert words in str(caught.value)


def test_initializers_of_every_type() -> None:
    for dtype in (
        np.float32,
        np.float64,
        np.float16,
        np.int8,
        np.uint8,
        np.int16,
        np.uint16,
        np.int32,
        np.int64,
        np.uint64,
    ):
        array = np.array([[1, 2], [3, 4]], dtype)
        for raw in (True, False):
            element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            tensor = numpy_helper.from_array(array, "w")
            if not raw:
                tensor = helper.make_tensor("w", element, [2, 2], array.ravel().tolist())
            node = helper.make_node("Identity", ["w"], ["y"])
            graph = helper.make_graph([node], "g", [], [helper.make_tensor_value_info("y", element, None)], [tensor])
            proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=8)
            found = halfulp.onnx.load(proto)()
            assert found.dtype == array.dtype
            assert np.array_equal(found, array)


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=dict(os.environ), check=False
    )


def test_import_without_onnx_says_what_to_install() -> None:
    done = _python("import sys; sys.modules['onnx'] = None\nimport halfulp.onnx")
    assert done.returncode != 0
    assert "ImportError: halfulp.onnx needs the package onnx: pip install 'halfulp[onnx]'" in done.stderr


def test_import_halfulp_does_not_import_onnx() -> None:
    done = _python(
        "import sys, halfulp; print('onnx' in sys.modules); import halfulp.onnx; print('onnx' in sys.modules)"
    )
    assert done.stdout.split() == ["False", "True"], done.stderr
