"""Layer, group and instance normalization of ONNX: halfulp's records, with the statistics that ONNX also asks for."""

from __future__ import annotations

import numpy as np
import pytest

import halfulp as hu
import halfulp.onnx
from halfulp import ModelError
from tests.onnx.models import node_model


def run(op_type, *inputs, outputs=1, opset=22, **attributes):
    proto = node_model(op_type, list(inputs), outputs, opset, **attributes)
    results = halfulp.onnx.load(proto).run(list(inputs))
    return results[0] if outputs == 1 else results


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_values_are_those_of_the_records() -> None:
    x, scale, shift = floats(2, 4, 3, 5), floats(5, seed=1), floats(5, seed=2)
    epsilon = float(np.float32(1e-5))
    assert np.array_equal(run("LayerNormalization", x, scale, shift), hu.layer_norm(x, (5,), scale, shift, epsilon))
    scale, shift = floats(4, seed=1), floats(4, seed=2)
    group = run("GroupNormalization", x, scale, shift, num_groups=2)
    assert np.array_equal(group, hu.group_norm(x, 2, scale, shift, epsilon))
    instance = run("InstanceNormalization", x, scale, shift)
    assert np.array_equal(instance, hu.InstanceNorm(epsilon)(x, scale, shift))


def test_before_operator_set_21_a_group_has_one_scale() -> None:
    x, scale, shift = floats(2, 4, 3), floats(2, seed=1), floats(2, seed=2)
    old = run("GroupNormalization", x, scale, shift, num_groups=2, opset=18)
    new = run("GroupNormalization", x, scale.repeat(2), shift.repeat(2), num_groups=2)
    assert np.array_equal(old, new)


def test_statistics_are_rounded_once() -> None:
    """4, 4, 8, 8: mean 6, variance 4; with epsilon 0 the deviation is 2. A constant row has an infinite one."""
    x = np.array([[4, 4, 8, 8], [3, 3, 3, 3]], np.float32)
    scale = np.ones(4, np.float32)
    _, mean, deviation = run("LayerNormalization", x, scale, outputs=3, epsilon=0.0)
    assert mean.tolist() == [[6], [3]]
    assert deviation.tolist() == [[0.5], [np.inf]]
    _, mean, deviation = run("LayerNormalization", x * np.float32(np.nan), scale, outputs=3)
    assert np.isnan(mean).all()
    assert np.isnan(deviation).all()


def test_cancelling_rows() -> None:
    """A mean of 2**24 and a variance below 1: sums of float32 would lose all of it."""
    x = np.array([[2.0**24, 2.0**24 + 2, 2.0**24, 2.0**24 + 2]], np.float32)
    found = run("LayerNormalization", x, np.ones(4, np.float32), epsilon=0.0)
    assert found.tolist() == [[-1, 1, -1, 1]]


def test_refusals_O9() -> None:
    x = floats(2, 4)
    with pytest.raises(ModelError, match=r"must broadcast to \(4,\) \[O9\]"):
        run("LayerNormalization", x, floats(2, 4))
    with pytest.raises(ModelError, match=r"axis=3: must be from -2 to 1 \[O9\]"):
        run("LayerNormalization", x, floats(4), axis=3)
