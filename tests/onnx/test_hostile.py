"""Models that want to take all memory or never to end: an error that names the node, soon, in bounded memory."""

from __future__ import annotations

import time
from fractions import Fraction
from pathlib import Path

import flint
import numpy as np
import onnx
import pytest
from onnx import TensorProto

import halfulp.onnx
from halfulp import ModelError
from halfulp.numbers import float_format, round_ball
from tests.onnx.models import model, node_model

IMAGE = np.ones((1, 1, 4, 4), np.float32)


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def refused(op_type, inputs, label, words, outputs=1, max_bytes=1 << 32, **attributes) -> None:
    proto = node_model(op_type, list(inputs), outputs, **attributes)
    started = time.process_time()
    with pytest.raises(ModelError, match=words) as caught:
        halfulp.onnx.load(proto, max_bytes=max_bytes).run([a for a in inputs if a is not None])
    assert caught.value.label == label, str(caught.value)
    assert "node 'the_node'" in str(caught.value)
    assert time.process_time() - started < 5


NONE = np.zeros(0, np.float32)


@pytest.mark.parametrize(
    ("label", "words", "inputs", "attributes"),
    [
        ("O6", "max_bytes", (IMAGE, NONE, NONE, ints(1, 1, 2**40, 2**40)), {}),
        ("O9", ">= 0", (IMAGE, NONE, NONE, ints(1, 1, -4, 4)), {}),
        ("O6", "max_bytes", (IMAGE, NONE, floats(1, 1, 1e30, 1)), {}),
        ("O9", "above 0", (IMAGE, NONE, floats(1, 1, -2, 1)), {}),
        ("O9", "finite numbers", (IMAGE, NONE, floats(1, 1, np.nan, 1)), {}),
        ("O9", "finite numbers", (IMAGE, NONE, floats(1, 1, np.inf, 1)), {}),
        ("O9", "4 finite numbers", (IMAGE, NONE, floats(1, 1)), {}),
        ("O6", "max_bytes", (IMAGE, NONE, NONE, ints(1, 1, 4, 2**25)), {"mode": "linear"}),
        ("O6", "max_bytes", (IMAGE, NONE, NONE, ints(1, 1, 4, 2**25)), {"mode": "cubic"}),
    ],
)
def test_resize_O6_O9(label, words, inputs, attributes) -> None:
    refused("Resize", inputs, label, words, **attributes)


@pytest.mark.parametrize(
    ("op_type", "inputs", "label", "words", "attributes"),
    [
        ("Range", (np.array(0.0), np.array(1e8), np.array(1.0)), "O6", "max_bytes", {}),
        ("Range", (np.array(0, np.float32), np.array(1e9, np.float32), np.array(1, np.float32)), "O6", "max_bytes", {}),
        ("Range", (np.array(0.0), np.array(1e-300), np.array(1e-310)), "O6", "max_bytes", {}),
        ("Pad", (IMAGE, ints(0, 0, 2**31, 0, 0, 0, 2**31, 0)), "O6", "max_bytes", {"mode": "edge"}),
        ("Pad", (IMAGE, ints(0, 0, 2**40, 0, 0, 0, 2**40, 0)), "O6", "max_bytes", {"mode": "wrap"}),
        ("NonZero", (np.ones((1, 1, 1, 1, 1, 1, 10**6), bool),), "O6", "max_bytes", {}),
        ("EyeLike", (np.zeros((1000, 1000), bool),), "O6", "max_bytes", {"dtype": TensorProto.DOUBLE}),
        ("DepthToSpace", (IMAGE,), "O9", "must be a multiple", {"blocksize": 2**40}),
        ("Split", (IMAGE, ints(-1, 5)), "O9", "sizes >= 0", {"axis": 2}),
        ("Reshape", (IMAGE, ints(2**40, 2**40)), "O9", "cannot hold", {}),
        ("Compress", (IMAGE, np.ones(40, bool)), "O9", "at most", {}),
        ("ScatterElements", (IMAGE, np.full((1, 1, 1, 1), 9), IMAGE[:, :, :1, :1]), "O9", "index 9", {"axis": 3}),
        ("ScatterND", (IMAGE, ints(0, 0, 9).reshape(1, 3), IMAGE[0, 0, :1]), "O9", "index 9", {}),
        ("Trilu", (np.zeros(3, np.float32),), "O9", "two axes", {}),
        ("GatherND", (IMAGE, ints(7)), "O9", "index 7", {}),
        ("OneHot", (ints(1), np.array(-3), floats(0, 1)), "O9", "depth", {}),
        ("TopK", (IMAGE, ints(-1)), "O9", "k=-1", {}),
    ],
)
def test_sizes_and_indices_O6_O9(op_type, inputs, label, words, attributes) -> None:
    outputs = 2 if op_type in ("TopK", "Split") else 1
    limit = 1 << 22 if op_type in ("NonZero", "EyeLike") else 1 << 32
    refused(op_type, inputs, label, words, outputs, limit, **attributes)


def test_an_outer_product_of_einsum_O6() -> None:
    x = np.ones(2**17, np.float32)
    refused("Einsum", (x, x), "O6", "max_bytes", equation="i,j->ij")


def test_loops_in_loops_end_together_O10(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("halfulp.onnx.operators.control.MOST_ITERATIONS", 300)
    proto = model(
        """m (int64 n) => (int64 y) <int64 one = {1}, bool yes = {1}> {
            y = Loop(n, yes, one) <body = outer (int64 i, bool c, int64 held) => (bool on, int64 next) {
                next = Loop(n, yes, held) <body = inner (int64 j, bool d, int64 kept) => (bool more, int64 then) {
                    then = Add(kept, one)
                    more = Identity(d)
                }>
                on = Identity(c)
            }>
        }"""
    )
    loaded = halfulp.onnx.load(proto)
    assert loaded(np.array(10)) == 101
    assert loaded(np.array(10)) == 101  # every run has its own count
    with pytest.raises(ModelError, match=r"iteration 300: all loops may run 300 times together \[O10\]"):
        loaded(np.array(20))


def test_a_loop_that_stacks_without_end_O6_O10() -> None:
    proto = model(
        """m (int64 n, float[1000000] x) => (float[k] y) <bool yes = {1}> {
            y = Loop(n, yes) <body = b (int64 i, bool c) => (bool on, float[1000000] out) {
                out = Identity(x)
                on = Identity(c)
            }>
        }"""
    )
    with pytest.raises(ModelError, match="max_bytes"):
        halfulp.onnx.load(proto, max_bytes=1 << 26)(np.array(2**62), np.ones(10**6, np.float32))


def test_functions_that_double_are_counted_O4(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty functions that call the next one twice would be a billion nodes."""
    monkeypatch.setattr("halfulp.onnx._program._MOST_NODES", 2000)
    bodies = "\n".join(
        f'<domain: "own", opset_import: ["": 22, "own": 1]> f{k} (a) => (c) '
        f"{{ b = own.f{k + 1}(a)  c = own.f{k + 1}(b) }}"
        for k in range(29)
    )
    proto = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 22, "own": 1]>
        m (float[3] x) => (float[3] y) {{ y = own.f0(x) }}
        {bodies}
        <domain: "own", opset_import: ["": 22]> f29 (a) => (b) {{ b = Relu(a) }}""")
    started = time.process_time()
    with pytest.raises(ModelError, match=r"nodes: there may be 2000, those of called functions included \[O4\]"):
        halfulp.onnx.load(proto)
    assert time.process_time() - started < 10


def test_functions_that_call_each_other_O4() -> None:
    proto = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 22, "own": 1]>
        m (float[3] x) => (float[3] y) { y = own.f(x) }
        <domain: "own", opset_import: ["": 22, "own": 1]> f (a) => (b) { b = own.g(a) }
        <domain: "own", opset_import: ["": 22, "own": 1]> g (a) => (b) { b = own.f(a) }""")
    with pytest.raises(ModelError, match=r"calls itself \[O4\]"):
        halfulp.onnx.load(proto)


@pytest.mark.parametrize("fields", [{"offset": "40"}, {"offset": "99999999"}, {"offset": "0x1"}, {"length": "-1"}])
@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.INT4, TensorProto.FLOAT8E5M2])
def test_corrupt_places_of_external_data_O6(tmp_path: Path, fields: dict[str, str], kind: int) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(40))
    proto = model("m () => (float[10] y) { y = Cast<to = 1>(w) }")
    tensor = proto.graph.initializer.add(name="w", data_type=kind, dims=[10])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "w.bin", **fields}.items():
        tensor.external_data.add(key=key, value=value)
    onnx.save(proto, tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="bytes") as caught:
        halfulp.onnx.load(tmp_path / "m.onnx")
    assert caught.value.label == "O6"


@pytest.mark.parametrize("op_type", ["LSTM", "GRU", "RNN"])
def test_wrong_weights_of_recurrent_layers_O9(op_type: str) -> None:
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op_type]
    x, w = np.ones((2, 1, 3), np.float32), np.ones((1, 2 * gates, 3), np.float32)
    r, b = np.ones((1, 2 * gates, 2), np.float32), np.ones((1, 4 * gates), np.float32)
    for place, wrong, words in (
        (0, x[0], "X shape"),
        (1, w[:, :-1], "W shape"),
        (2, r[:, :, :1], "R shape"),
        (3, b[:, 1:], "B shape"),
        (5, np.ones((1, 3, 2), np.float32), "initial state shape"),
    ):
        arrays = [x, w, r, b, None, np.ones((1, 1, 2), np.float32)]
        arrays[place] = wrong
        refused(op_type, arrays, "O9", words, hidden_size=2)
    refused(op_type, [x, w, r, b], "O9", "W shape", hidden_size=2**40)


def test_many_exponents_and_long_products_end() -> None:
    """Work that grows with the square of the size would take hours."""
    started = time.process_time()
    count = 20000
    x, e = np.full(count, 1.5, np.float32), np.linspace(0, 2, count).astype(np.float32)
    found = halfulp.onnx.load(node_model("Pow", [x, e])).run([x, e])[0]
    assert found[0] == 1
    assert found[-1] == np.float32(2.25)
    long = np.full((2, 10**6), 1 + 2.0**-23, np.float32)
    long[1, 5] = -0.0
    product = halfulp.onnx.load(node_model("ReduceProd", [long, ints(1)], keepdims=0)).run([long, ints(1)])[0]
    exact = np.float64(1 + 2.0**-23) ** 10**6
    assert abs(product[0] - exact) < 2.0**-23
    assert product[1] == 0
    assert np.signbit(product[1])
    assert time.process_time() - started < 20


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_ranges_of_floats_are_rounded_once(dtype) -> None:
    """Each element against rationals, among them sums that float64 does not hold."""
    rng = np.random.default_rng(0)
    for start, delta in [(0.1, 0.3), (-7.0, 1 / 3), (1e3, -0.7), (2.0**-9, 2.0**-3), (-0.0, -1.0), *rng.random((6, 2))]:
        a, d = (dtype(value) for value in (start, delta))
        limit = dtype(float(a) + 200 * float(d))
        inputs = [np.array(v) for v in (a, limit, d)]
        found = halfulp.onnx.load(node_model("Range", inputs)).run(inputs)[0]
        exact = [Fraction(float(a)) + i * Fraction(float(d)) for i in range(len(found))]
        assert found.tobytes() == halfulp.rounded(np.array(exact, dtype=object), dtype).tobytes()


def test_ties_of_quantised_sums_are_decided_together() -> None:
    """A million ties would be a million fractions; equal ones are decided once."""
    x = np.full((1, 1, 1000, 1000), 5, np.uint8)
    half, one, zero = floats(0.5).reshape(()), floats(1).reshape(()), np.array(0, np.uint8)
    arrays = [x, half, zero, np.ones((1, 1, 1, 1), np.uint8), one, zero, one, zero]
    started = time.process_time()
    assert (halfulp.onnx.load(node_model("QLinearConv", arrays)).run(arrays)[0] == 2).all()
    assert time.process_time() - started < 10


def test_boxes_that_are_compared_too_often_O9() -> None:
    boxes, scores = np.zeros((1, 2**18, 4), np.float32), np.zeros((1, 1, 2**18), np.float32)
    refused("NonMaxSuppression", (boxes, scores, np.array(2**40)), "O9", "may be compared")
    refused("NonMaxSuppression", (boxes[0], scores), "O9", "must be .batch, boxes, 4.")


def test_an_overlap_equal_to_the_threshold_stays() -> None:
    """Thirds are not floats: the intersection is exactly a third of the union, and float32 1/3 is above a third."""
    boxes = np.array([[[0, 0, 1, 2], [0, 1, 1, 3]]], np.float32)  # a shared area of 1 of 3
    scores = np.array([[[0.9, 0.8]]], np.float32)
    for limit, kept in ((np.float32(1 / 3), 2), (np.nextafter(np.float32(1 / 3), np.float32(0)), 1)):
        arrays = [boxes, scores, np.array(9), np.array(limit)]
        assert len(halfulp.onnx.load(node_model("NonMaxSuppression", arrays)).run(arrays)[0]) == kept


@pytest.mark.parametrize("name", ["tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_functions_of_angles_are_rounded_once(name: str, dtype: type) -> None:
    """Against balls of 300 bits, and at the ends of their domains."""
    with np.errstate(all="ignore"):
        x = (np.random.default_rng(0).standard_normal(300) * 3).astype(dtype)
        if name in ("asin", "acos", "atanh"):
            x = np.clip(x / 8, -1, 1)
        if name == "acosh":
            x = np.abs(x) + dtype(1)
        ends = np.array([0, -0.0, 1, -1, 2, np.inf, -np.inf, np.nan, 1e-7, 60000, -60000], dtype)
        x = np.concatenate([x, ends])
    found = halfulp.onnx.load(node_model(name.capitalize(), [x])).run([x])[0]
    with np.errstate(all="ignore"):
        peer = getattr(np, f"arc{name[1:]}" if name[0] == "a" else name)(x.astype(np.longdouble))
    assert np.array_equal(np.isnan(found), np.isnan(peer))
    special = ~np.isfinite(peer) | (peer == 0)
    assert np.array_equal(found[special], peer[special].astype(dtype), equal_nan=True)
    with flint.ctx.workprec(300):
        for value, got in zip(x[~special].tolist(), found[~special], strict=True):
            if np.isfinite(value) and not (name == "cosh" and value == 0):
                ball = getattr(flint.arb(flint.fmpq(*value.as_integer_ratio())), name)()
                assert got == round_ball(ball, float_format(dtype))
