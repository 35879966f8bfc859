"""LSTM, GRU and RNN: every step is what its document says, with the sums of the gates rounded once."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import halfulp as hu
import halfulp.onnx
from halfulp import ModelError, ops
from halfulp.onnx.operators import _gates, recurrent
from halfulp.onnx.operators._gates import Certified, Sums, few_rows
from tests.onnx.models import node_model

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def weights(op_type: str, directions: int, size: int = 3, hidden: int = 2, scale: float = 0.5):
    rng = np.random.default_rng(0)
    rows = GATES[op_type] * hidden
    shapes = [(directions, rows, size), (directions, rows, hidden), (directions, 2 * rows)]
    return [(rng.standard_normal(s) * scale).astype(np.float32) for s in shapes]


@pytest.mark.parametrize("op_type", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_close_to_the_reference(op_type: str, direction: str) -> None:
    """The reference evaluator rounds more often; a wrong gate would be off by far more."""
    x = np.random.default_rng(1).standard_normal((5, 4, 3)).astype(np.float32)
    parts = weights(op_type, 2 if direction == "bidirectional" else 1)
    if direction == "bidirectional" and op_type == "RNN":  # one function for each direction must be named there
        proto = node_model(op_type, [x, *parts], 2, hidden_size=2, direction=direction, activations=["Tanh", "Tanh"])
    else:
        proto = node_model(op_type, [x, *parts], 2, hidden_size=2, direction=direction)
    found = halfulp.onnx.load(proto).run([x, *parts])
    expected = ReferenceEvaluator(proto).run(None, {f"x{i}": a for i, a in enumerate([x, *parts])})
    if (
        direction != "forward"
    ):  # the reference evaluator has no reverse direction; the last outputs agree with the states
        count = 2 if direction == "bidirectional" else 1
        ends = [(-1, 0), (0, 1)] if count == 2 else [(0, 0)]
        for way, (step, index) in enumerate(ends):
            assert np.array_equal(found[0][step, index], found[1][way])
        return
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        assert np.abs(a - b).max() < 1e-5  # a check of the formula; bits are checked below


def test_a_reverse_layer_is_a_forward_one_on_the_reversed_sequence() -> None:
    x = np.random.default_rng(2).standard_normal((5, 2, 3)).astype(np.float32)
    parts = weights("GRU", 1)
    forward = halfulp.onnx.load(node_model("GRU", [x, *parts], 2, hidden_size=2))
    reverse = halfulp.onnx.load(node_model("GRU", [x, *parts], 2, hidden_size=2, direction="reverse"))
    assert np.array_equal(reverse.run([x, *parts])[0], forward.run([x[::-1], *parts])[0][::-1])


def test_one_step_bit_for_bit() -> None:
    """A gate's two products and two biases are one exact sum, rounded once."""
    x = np.array([[[1e4, 1.0, -1e4]]], dtype=np.float32)
    w = np.array([[[1e4, 1e-4, 1e4]]], dtype=np.float32).repeat(4, axis=1)
    r, b = np.ones((1, 4, 1), np.float32), np.zeros((1, 8), np.float32)
    found = halfulp.onnx.load(node_model("LSTM", [x, w, r, b], 3, hidden_size=1)).run([x, w, r, b])
    gate = np.array([np.float32(1e-4)])  # 1e8 + 1e-4 - 1e8
    memory = ops.mul(ops.sigmoid(gate), ops.tanh(gate))
    assert found[2].tobytes() == memory.tobytes()
    assert found[1].tobytes() == ops.mul(ops.sigmoid(gate), ops.tanh(memory)).tobytes()


def test_batches_and_lengths_do_not_meet() -> None:
    """An entry of a batch has the bits that it has alone, whatever its length; outputs after its end are 0."""
    x = np.random.default_rng(3).standard_normal((6, 3, 3)).astype(np.float32)
    lengths = np.array([6, 2, 0], dtype=np.int32)
    parts = weights("LSTM", 2)
    arguments = [x, *parts, lengths]
    together = halfulp.onnx.load(node_model("LSTM", arguments, 3, hidden_size=2, direction="bidirectional"))
    y, h, c = together.run(arguments)
    for i, n in enumerate(lengths):
        assert not y[n:, :, i].any()
        if n == 0:
            assert not h[:, i].any()
            continue
        alone = [np.ascontiguousarray(x[:n, i : i + 1]), *parts]
        single = halfulp.onnx.load(node_model("LSTM", alone, 3, hidden_size=2, direction="bidirectional"))
        for whole, part in zip((y[:n, :, i : i + 1], h[:, i : i + 1], c[:, i : i + 1]), single.run(alone), strict=True):
            assert np.array_equal(whole, part)


def test_layers_are_differentiable() -> None:
    x = np.random.default_rng(4).standard_normal((3, 2, 3)).astype(np.float64)
    parts = [p.astype(np.float64) for p in weights("GRU", 1)]
    loaded = halfulp.onnx.load(node_model("GRU", [x, *parts], 2, hidden_size=2, linear_before_reset=1))
    direction = np.random.default_rng(5).standard_normal(x.shape)
    last = lambda x: loaded.run([x, *parts])[1].sum()  # noqa: E731
    _, slope = hu.jvp(last, (x,), (direction,))
    gradient = hu.grad(last)(x)
    assert abs(slope - (gradient * direction).sum()) < 1e-14  # rounded steps; exact in no order
    h = 1e-6
    assert abs((last(x + h * direction) - last(x - h * direction)) / (2 * h) - slope) < 1e-7


def test_attributes_that_are_not_computed_O3_O9() -> None:
    x, parts = np.zeros((1, 1, 3), np.float32), weights("LSTM", 1)
    with pytest.raises(
        ModelError, match=r"activations=\['Sigmoid', 'Affine', 'Tanh'\]: must be 3 of Sigmoid, Tanh and Relu"
    ):
        halfulp.onnx.load(node_model("LSTM", [x, *parts], hidden_size=2, activations=["Sigmoid", "Affine", "Tanh"]))
    with pytest.raises(ModelError, match=r"hidden_size=0, clip=0.0: must be >= 1"):
        halfulp.onnx.load(node_model("LSTM", [x, *parts]))
    with pytest.raises(ModelError, match=r"W shape=\(1, 8, 3\): must be \(1, 12, 3\) \[O9\]"):
        halfulp.onnx.load(node_model("LSTM", [x, *parts], hidden_size=3)).run([x, *parts])
    lengths = np.array([7], np.int32)
    with pytest.raises(ModelError, match=r"sequence_lens=\[7\]: must be 1 numbers from 0 to 1 \[O9\]"):
        halfulp.onnx.load(node_model("LSTM", [x, *parts, lengths], hidden_size=2)).run([x, *parts, lengths])


def _drawn(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """float32 numbers of few bits and many sizes, so that sums cancel, meet ties and underflow."""
    whole = rng.integers(-4, 5, shape).astype(np.float32)
    return (whole * np.float32(2.0) ** rng.choice([-140, -30, -12, -1, 0, 1, 12, 23], shape)).astype(np.float32)


@np.errstate(all="ignore")
@pytest.mark.parametrize("seed", range(12))
def test_estimated_sums_have_the_bits_of_exact_ones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    draw = _drawn if seed % 2 else lambda rng, shape: rng.standard_normal(shape).astype(np.float32)
    x, hidden = draw(rng, (5, 3, 4)), draw(rng, (3, 6))
    weights, biases = (draw(rng, (7, 4)), draw(rng, (7, 6))), (draw(rng, (7,)), draw(rng, (7,)))
    if seed == 3:
        x[2, 1, 0], hidden[0, 2], hidden[2] = np.nan, np.inf, 0
    if seed == 5:
        x[...], hidden[...], biases[0][...], biases[1][...] = 0, -0.0, -0.0, -0.0
    for given in ((), biases[:1], biases):
        exact, fast = (kind(weights, given, x) for kind in (Sums, Certified))
        for step in (0, 2, 1, 4):
            assert fast(step, hidden).tobytes() == exact(step, hidden).tobytes()
        assert Certified(weights[:1], given, x)(3).tobytes() == Sums(weights[:1], given, x)(3).tobytes()
        assert Certified(weights[1:], given)(hidden).tobytes() == Sums(weights[1:], given)(hidden).tobytes()
    wide = draw(rng, (300, 64))
    row = draw(rng, (1, 64))
    assert few_rows(row, wide, None).tobytes() == ops.linear(row, wide).tobytes()


def test_the_layers_of_float32_are_those_of_exact_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of two steps, and the same layer with sums that are exact from the start."""
    monkeypatch.setattr(_gates, "_BLOCK", 64)
    x = np.random.default_rng(6).standard_normal((7, 4, 3)).astype(np.float32)
    for op_type, more in (("LSTM", {}), ("GRU", {}), ("GRU", {"linear_before_reset": 1})):
        parts = weights(op_type, 2)
        model = halfulp.onnx.load(node_model(op_type, [x, *parts], hidden_size=2, direction="bidirectional", **more))
        fast = model.run([x, *parts])[0]
        with monkeypatch.context() as patch:
            patch.setattr(recurrent, "sums_for", lambda *values: Sums)
            assert model.run([x, *parts])[0].tobytes() == fast.tobytes()
