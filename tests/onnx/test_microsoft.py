"""Operators of the domain com.microsoft: the meaning of ONNX Runtime, whose own kernels are the peer here."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import halfulp.onnx
from halfulp import ModelError, ops
from halfulp.onnx.operators.microsoft import MICROSOFT

RNG = np.random.default_rng(0)


def contributed(op_type: str, arrays: list[Any], outputs: int = 1, kind: Any = np.float32, **attributes: Any) -> Any:
    """A model of one node of com.microsoft."""
    names = ["" if a is None else f"x{i}" for i, a in enumerate(arrays)]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op_type, names, results, name="the_node", domain="com.microsoft", **attributes)
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in zip(names, arrays, strict=True)
        if a is not None
    ]
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    shown = [helper.make_tensor_value_info(name, element, None) for name in results]
    graph = helper.make_graph([node], "g", inputs, shown)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def both(proto: onnx.ModelProto, arrays: list[Any]) -> tuple[Any, Any]:
    """The outputs of halfulp and of ONNX Runtime."""
    given = [a for a in arrays if a is not None]
    ours = halfulp.onnx.load(proto).run(given)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {value.name: a for value, a in zip(session.get_inputs(), given, strict=True)}
    return ours, session.run(None, feeds)


def f32(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def u8(*shape: int, kind: Any = np.uint8) -> Any:
    limits = np.iinfo(kind)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(kind)


def scale(value: float) -> Any:
    return np.array(value, np.float32)


def point(value: int, kind: Any = np.uint8) -> Any:
    return np.array(value, kind)


X, W = f32(2, 3, 6, 6), f32(4, 3, 3, 3)
FLOATS: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("FusedConv", [X, W, f32(4)], {"activation": "Relu", "pads": [1, 1, 1, 1]}),
    ("FusedConv", [X, W], {"activation": "LeakyRelu", "activation_params": [0.125]}),
    ("FusedConv", [X, W, f32(4), f32(2, 4, 4, 4)], {"activation": "Relu"}),
    ("FusedConv", [X, W, f32(4)], {"activation": "Clip", "activation_params": [0.0, 6.0]}),
    ("FusedConv", [X, W, f32(4)], {"activation": "HardSigmoid", "activation_params": [0.2, 0.5]}),
    ("FusedGemm", [f32(3, 5), f32(4, 5), f32(4)], {"transB": 1, "activation": "Relu"}),
    ("FusedGemm", [f32(3, 5), f32(5, 4)], {"activation": "LeakyRelu", "activation_alpha": 0.25}),
    ("FusedMatMul", [f32(2, 3, 5), f32(2, 4, 5)], {"transB": 1, "alpha": 0.125}),
    ("FusedMatMul", [f32(5, 3), f32(5, 4)], {"transA": 1}),
    ("Gelu", [f32(3, 5)], {}),
    ("BiasGelu", [f32(3, 5), f32(5)], {}),
    ("FastGelu", [f32(3, 5), f32(5)], {}),
    ("FastGelu", [f32(3, 5)], {}),
    ("QuickGelu", [f32(3, 5)], {"alpha": 1.5}),
    ("SkipLayerNormalization", [f32(1, 3, 8), f32(1, 3, 8), f32(8), f32(8)], {"epsilon": 1e-5}),
    ("SkipLayerNormalization", [f32(1, 3, 8), f32(1, 3, 8), f32(8), f32(8), f32(8)], {}),
    ("DequantizeLinear", [u8(3, 4), scale(0.1), point(7)], {}),
    ("DequantizeLinear", [u8(3, 4, kind=np.int8), f32(4), np.zeros(4, np.int8)], {"axis": 1}),
    ("MatMulIntegerToFloat", [u8(3, 5), u8(5, 4), scale(0.02), f32(4), point(3), None, f32(4)], {}),
    ("QGemm", [u8(3, 5), scale(0.02), point(9), u8(5, 4), scale(0.01), point(4)], {}),
]


@pytest.mark.parametrize(("op_type", "arrays", "attributes"), FLOATS, ids=lambda v: v if isinstance(v, str) else "")
def test_floats_are_near_those_of_onnxruntime(op_type, arrays, attributes) -> None:
    """It rounds sums in its own order; another meaning would be off by far more."""
    ours, theirs = both(contributed(op_type, arrays, **attributes), arrays)
    assert ours[0].shape == theirs[0].shape
    assert ours[0].dtype == theirs[0].dtype
    assert np.abs(ours[0] - theirs[0]).max() <= 1e-5 * max(1, np.abs(theirs[0]).max())


INTEGERS: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("QuantizeLinear", [f32(3, 4), scale(0.03), point(100)], {}),
    ("QLinearAdd", [u8(3, 4), scale(0.1), point(7), u8(4), scale(0.3), point(100), scale(0.25), point(9)], {}),
    ("QLinearMul", [u8(3, 4), scale(0.1), point(7), u8(3, 4), scale(0.3), point(90), scale(2.5), point(9)], {}),
    ("QLinearSigmoid", [u8(3, 40), scale(0.05), point(128), scale(1 / 256), point(0)], {}),
    ("QLinearLeakyRelu", [u8(3, 40), scale(0.05), point(128), scale(0.06), point(30)], {"alpha": 0.125}),
    ("QLinearGlobalAveragePool", [u8(2, 3, 5, 7), scale(0.1), point(7), scale(0.09), point(8)], {}),
    ("QLinearGlobalAveragePool", [u8(2, 5, 7, 3), scale(0.1), point(7), scale(0.09), point(8)], {"channels_last": 1}),
    (
        "QLinearConcat",
        [scale(0.2), point(5), u8(2, 3), scale(0.1), point(7), u8(2, 4), scale(0.2), point(5)],
        {"axis": 1},
    ),
    (
        "QGemm",
        [
            u8(3, 5), scale(0.02), point(9), u8(4, 5), scale(0.01), point(4),
            RNG.integers(-99, 99, 4).astype(np.int32), scale(0.05), point(11),
        ],
        {"transB": 1},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("op_type", "arrays", "attributes"), INTEGERS, ids=lambda v: v if isinstance(v, str) else "")
def test_integers_are_those_of_onnxruntime(op_type, arrays, attributes) -> None:
    """Ties apart, which float arithmetic may miss by one."""
    ours, theirs = both(contributed(op_type, arrays, kind=np.uint8, **attributes), arrays)
    assert ours[0].shape == theirs[0].shape
    assert ours[0].dtype == theirs[0].dtype
    apart = np.abs(ours[0].astype(int) - theirs[0].astype(int))
    assert apart.max() <= 1
    assert (apart != 0).mean() <= 0.05


def test_quantised_sums_round_ties_to_even() -> None:
    arrays = [point(3).reshape(1), scale(0.5), point(0), point(0).reshape(1), scale(1), point(0), scale(1), point(0)]
    assert halfulp.onnx.load(contributed("QLinearAdd", arrays, kind=np.uint8)).run(arrays)[0].tolist() == [2]
    arrays[0] = point(5).reshape(1)
    assert halfulp.onnx.load(contributed("QLinearAdd", arrays, kind=np.uint8)).run(arrays)[0].tolist() == [2]


def lstm_inputs(directions: int, kind: Any, per_column: bool = False, steps: int = 5, batch: int = 1) -> list[Any]:
    size, hidden = 6, 4
    shape = (directions, 4 * hidden) if per_column else (directions,)
    zero = np.zeros(shape, kind) if per_column or kind == np.int8 else RNG.integers(100, 150, shape).astype(kind)
    scales = [(RNG.random(shape) * 0.01 + 0.001).astype(np.float32) for _ in range(2)]
    return [
        f32(steps, batch, size),
        u8(directions, size, 4 * hidden, kind=kind),
        u8(directions, hidden, 4 * hidden, kind=kind),
        f32(directions, 8 * hidden),
        None,
        f32(directions, batch, hidden),
        f32(directions, batch, hidden),
        None,
        scales[0],
        zero,
        scales[1],
        zero.copy(),
    ]


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("per_column", [False, True])
def test_a_quantised_lstm_is_near_that_of_onnxruntime(kind, direction, per_column) -> None:
    arrays = lstm_inputs(2 if direction == "bidirectional" else 1, kind, per_column)
    proto = contributed("DynamicQuantizeLSTM", arrays, 3, hidden_size=4, direction=direction)
    constants = ("x1", "x2", "x8", "x9", "x10", "x11")  # ONNX Runtime wants weights that are initializers
    for name in constants:
        proto.graph.initializer.append(onnx.numpy_helper.from_array(arrays[int(name[1:])], name))
    kept = [value for value in proto.graph.input if value.name not in constants]
    del proto.graph.input[:]
    proto.graph.input.extend(kept)
    given = [a if f"x{i}" not in constants else None for i, a in enumerate(arrays)]
    for a, b in zip(*both(proto, given), strict=True):
        assert a.shape == b.shape
        assert np.abs(a - b).max() < 2e-2  # a step of the hidden state's quantisation
        assert np.abs(a - b).mean() < 2e-3


def test_a_step_of_a_quantised_lstm_bit_for_bit() -> None:
    """Inputs and state that are quantised without a remainder: the steps of the document, one by one."""
    x = np.array([[[255.0, 0.0]]], np.float32)
    w = np.array([[[1, 2, 3, 4], [5, 6, 7, 8]]], np.int8)
    r, zero = np.zeros((1, 1, 4), np.int8), np.zeros(1, np.int8)
    by = np.array([2.0**-10], np.float32)
    arrays = [x, w, r, None, None, None, None, None, by, zero, by, zero]
    y = halfulp.onnx.load(contributed("DynamicQuantizeLSTM", arrays, 3, hidden_size=1)).run(
        [a for a in arrays if a is not None]
    )
    gates = (np.array([1, 2, 3, 4]) * 255 / 1024).astype(np.float32)
    memory = ops.mul(ops.sigmoid(gates[:1]), ops.tanh(gates[3:]))
    assert y[2].tobytes() == memory.tobytes()
    assert y[1].tobytes() == ops.mul(ops.sigmoid(gates[1:2]), ops.tanh(memory)).tobytes()


def test_wrong_weights_of_a_quantised_lstm_O9() -> None:
    arrays = lstm_inputs(1, np.uint8)
    for place, wrong, words in (
        (1, u8(1, 6, 12), r"W shape=\(1, 12, 6\): must be \(1, 16, 6\)"),
        (2, u8(16, 4), r"R uint8\[16, 4\]: must be int8 or uint8, three axes"),
        (8, f32(3), r"W_scale shape=\(3,\): must be \(1,\) or \(1, 16\)"),
        (11, np.zeros(1, np.int8), r"R uint8\[1, 4, 16\]: must be int8 or uint8"),
        (3, f32(1, 7), r"B shape=\(1, 7\): must be \(1, 32\)"),
    ):
        given = [*arrays]
        given[place] = wrong
        proto = contributed("DynamicQuantizeLSTM", given, 3, hidden_size=4)
        with pytest.raises(ModelError, match=words) as caught:
            halfulp.onnx.load(proto).run([a for a in given if a is not None])
        assert caught.value.label == "O9"


def test_what_is_not_computed_is_refused_by_name_O2_O3_O9() -> None:
    x = f32(2, 3)
    with pytest.raises(ModelError, match=r"operator 'Attention' of domain 'com.microsoft': is not computed") as caught:
        halfulp.onnx.load(contributed("Attention", [x, x]))
    assert caught.value.label == "O2"
    with pytest.raises(ModelError, match="there must be from 2 to 2"):
        halfulp.onnx.load(contributed("BiasGelu", [x]))
    with pytest.raises(ModelError, match="activation='Selu'"):
        halfulp.onnx.load(contributed("FusedConv", [X, W], activation="Selu"))
    with pytest.raises(ModelError, match="transBatchA=1"):
        halfulp.onnx.load(contributed("FusedMatMul", [x, x], transBatchA=1))


def test_every_operator_is_tested() -> None:
    tested = {row[0] for row in (*FLOATS, *INTEGERS)} | {"DynamicQuantizeLSTM", "DynamicQuantizeMatMul"}
    assert tested == set(MICROSOFT)


def test_a_dynamic_product_is_near_that_of_onnxruntime() -> None:
    arrays = [f32(3, 5), u8(5, 4), scale(0.02), point(9), f32(4)]
    ours, theirs = both(contributed("DynamicQuantizeMatMul", arrays), arrays)
    assert np.abs(ours[0] - theirs[0]).max() < 1e-5
    assert ours[0].dtype == np.float32
