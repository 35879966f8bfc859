"""DFT and STFT: every sum is the exact one, rounded once."""

from __future__ import annotations

import flint
import numpy as np
import pytest

import halfulp.onnx
from halfulp import ModelError
from halfulp.numbers import float_format, round_ball
from tests.onnx.models import node_model


def run(op_type, inputs, opset=20, **attributes):
    return halfulp.onnx.load(node_model(op_type, inputs, opset=opset, **attributes)).run(
        [a for a in inputs if a is not None]
    )[0]


def exact(row, k: int, sign: int) -> tuple[float, float]:
    """One complex sum by balls of 400 bits, and 0 for a ball around it."""
    with flint.ctx.workprec(400):
        real = imaginary = flint.arb(0)
        for n, value in enumerate(row):
            angle = flint.fmpq(2 * sign * k * n, len(row))
            c, s = flint.arb.cos_pi_fmpq(angle), flint.arb.sin_pi_fmpq(angle)
            u, v = (flint.arb(float(part)) for part in (value.real, value.imag))
            real, imaginary = real + u * c - v * s, imaginary + u * s + v * c
        return tuple(
            0.0 if part.abs_upper() < 1e-60 else round_ball(part, float_format(np.float32))
            for part in (real, imaginary)
        )


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 8, 12, 15, 16])
@pytest.mark.parametrize("kind", ["drawn", "few bits", "constant"])
def test_sums_are_rounded_once(length: int, kind: str) -> None:
    rng = np.random.default_rng(length)
    x = rng.standard_normal((2, length, 2)).astype(np.float32)
    if kind == "few bits":
        x = rng.integers(-3, 4, x.shape).astype(np.float32)
    if kind == "constant":
        x = np.ones_like(x)
    found = run("DFT", [x, None, np.array(1)])
    for row, got in zip(x, found, strict=True):
        values = row[:, 0].astype(complex) + 1j * row[:, 1]
        for k in range(length):
            want = exact(values, k, -1)
            assert tuple(got[k].tolist()) == want
            if length & (length - 1) == 0:  # a division by a power of two is exact
                back = run("DFT", [row[None], None, np.array(1)], inverse=1)[0, k]
                assert tuple((back * np.float32(length)).tolist()) == exact(values, k, 1)


def test_a_zero_is_plus_zero_and_a_real_signal_has_half_of_the_outputs() -> None:
    x = -np.ones((1, 8, 1), np.float32)
    found = run("DFT", [x, None, np.array(1)], onesided=1)
    assert found.shape == (1, 5, 2)
    assert found[0, 0].tolist() == [-8, 0]
    assert not found[0, 1:].any()
    assert not np.signbit(found[0, 1:]).any()


def test_frames_are_the_transforms_of_their_products() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 50, 1)).astype(np.float32)
    window = rng.integers(0, 5, 16).astype(np.float32)  # products that float32 holds
    x = np.round(x * 8) / 8
    found = run("STFT", [x, np.array(5), window])
    assert found.shape == (2, 7, 9, 2)
    for frame in range(7):
        part = x[:, 5 * frame : 5 * frame + 16] * window[:, None]
        assert found[:, frame].tobytes() == run("DFT", [part, None, np.array(1)], onesided=1).tobytes()


@pytest.mark.parametrize(
    ("op_type", "inputs", "words", "attributes"),
    [
        ("STFT", [np.zeros((1, 9, 1), np.float32), np.array(0), np.ones(4, np.float32)], "frame_step=0", {}),
        ("STFT", [np.zeros((1, 9, 1), np.float32), np.array(1), np.ones(40, np.float32)], "frame_length=40", {}),
        ("STFT", [np.zeros((1, 9, 1), np.float32), np.array(1), None, np.array(-1)], "frame_length=-1", {}),
        ("STFT", [np.zeros((1, 9, 2), np.float32), np.array(1), np.ones(4, np.float32)], "needs real numbers", {}),
        ("DFT", [np.zeros((1, 9, 3), np.float32)], "must have size 1 or 2", {}),
        ("DFT", [np.zeros((1, 9, 1), np.float32), np.array(-5)], "length=-5", {}),
        ("DFT", [np.zeros((1, 9, 1), np.float32), np.array(2**40)], "max_bytes", {}),
        ("DFT", [np.zeros((1, 9, 1), np.float64)], "must be float32 or float16", {}),
        ("DFT", [np.zeros((1, 9, 1), np.float32)], "needs complex numbers", {"inverse": 1, "onesided": 1}),
        ("DFT", [np.zeros((1, 1, 2), np.float32)], "length=0", {"inverse": 1, "onesided": 1}),
    ],
)
def test_wrong_lengths_and_types_are_refused_O3_O6_O9(op_type, inputs, words, attributes) -> None:
    with pytest.raises(ModelError, match=words):
        run(op_type, inputs, **attributes)
