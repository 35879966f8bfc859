"""Depthwise convolutions have an engine of their own: the same bits as every other way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfulp import _core, kernels, spec
from halfulp.records import Conv, ConvTranspose
from tests.kernels.convolutions import Case, check_against_spec
from tests.kernels.test_conv_patches import KINDS, normal
from tests.scaling import examples
from tests.strategies import Array, assert_same_bits, seeds


def half_zero(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Zeros of both signs among numbers: windows of zeros, sums that are zero, signs beside padding."""
    return np.where(rng.random(shape) < 0.7, rng.choice([0.0, -0.0], shape), rng.integers(-1, 2, shape))


def ties(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Sums of some of these, times small integers, lie on rounding boundaries of float32."""
    return rng.integers(-3, 4, shape) * 2.0 ** rng.choice([0, 0, 23, 24, 25], shape)


def near_overflow(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """The last addition may pass the largest float32."""
    return rng.choice([1.0, -1.0, 0.5, 2.0**63, 2.0**64 * (1 - 2.0**-24)], shape)


HARD = [*KINDS, half_zero, ties, near_overflow]


@st.composite
def depthwise_cases(draw: st.DrawFn) -> Case:
    """Kernels and strides at and beyond what the engine takes, on planes narrower and wider than vectors."""
    rng = np.random.default_rng(draw(seeds))
    kernel = draw(st.tuples(st.sampled_from([1, 2, 3, 3, 4, 5, 7]), st.sampled_from([1, 2, 3, 3, 5, 9])))
    stride = draw(st.tuples(st.sampled_from([1, 2, 2, 3]), st.sampled_from([1, 2, 2, 3])))
    dilation = (1, draw(st.sampled_from([1, 1, 2])))
    padding = tuple((draw(st.integers(0, k - 1)), draw(st.integers(0, k - 1))) for k in kernel)
    groups, each = draw(st.integers(1, 4)), draw(st.sampled_from([1, 1, 1, 2]))
    op: Conv | ConvTranspose = draw(st.sampled_from([Conv, Conv, ConvTranspose]))(
        2, stride=stride, padding=padding, dilation=dilation, groups=groups
    )
    spatial = tuple(d * (k - 1) + 1 + draw(st.integers(0, 18)) for k, d in zip(kernel, dilation, strict=True))
    forward = isinstance(op, Conv)
    x_shape = (draw(st.integers(1, 2)), groups, *spatial)
    w_shape = (groups * each, 1, *kernel) if forward else (groups, each, *kernel)

    def array(shape: tuple[int, ...]) -> Array:
        kind = draw(st.sampled_from(HARD))
        with np.errstate(over="ignore"):  # some kinds want four channels
            return np.ascontiguousarray(kind(rng, (shape[0], max(4, shape[1]), *shape[2:]))[:, : shape[1]], np.float32)

    bias = rng.choice([0.0, -0.0, 1.0, 2.0**-30], groups * each).astype(np.float32) if draw(st.booleans()) else None
    tangents = (array(x_shape), None, None)
    return Case(op, (array(x_shape), array(w_shape), bias), tangents, array(op.output_shape(x_shape, w_shape)))


@examples(20)
@given(depthwise_cases())
def test_value_jvp_and_vjp_have_the_bits_of_the_specification(case: Case) -> None:
    check_against_spec(case)


@pytest.mark.parametrize("isa", _core.available_isas())
@pytest.mark.parametrize("kind", HARD, ids=lambda f: f.__name__)
def test_values_of_every_kind_on_every_instruction_set(kind: Any, isa: str, restore: None) -> None:
    _core.set_isa(isa)
    rng = np.random.default_rng(5)
    with np.errstate(over="ignore"):
        x = kind(rng, (2, 4, 13, 11)).astype(np.float32)
        hard = kind(rng, (4, 4, 3, 3))[:, :1].astype(np.float32)
    for weight in (hard, normal(rng, (4, 1, 3, 3)).astype(np.float32), np.full((4, 1, 3, 3), 0.5, np.float32)):
        for stride in (1, 2):
            op = Conv(2, stride=stride, padding=1, groups=4)
            output, pullback = kernels.vjp(op, (x, weight, None))
            assert_same_bits(output, spec.forward(op, x, weight), f"{kind.__name__}: forward")
            cotangent = np.resize(x, output.shape)
            expected = spec.vjp(op, (x, weight, None), cotangent)[0]
            assert_same_bits(pullback(cotangent)[0], expected, f"{kind.__name__}: dx")


def test_planes_of_several_bands_of_rows() -> None:
    rng = np.random.default_rng(6)
    x = rng.standard_normal((1, 2, 47, 150)).astype(np.float32)
    weight = rng.standard_normal((4, 1, 5, 3)).astype(np.float32)
    for stride in (1, 2):
        op = Conv(2, stride=stride, padding=((2, 2), (1, 1)), groups=2)
        output, pullback = kernels.vjp(op, (x, weight, None))
        assert_same_bits(output, spec.forward(op, x, weight), "forward")
    op = Conv(2, stride=2, padding=((2, 2), (1, 1)), groups=2)
    output, pullback = kernels.vjp(op, (x, weight[::2], None))
    assert_same_bits(pullback(output)[0], spec.vjp(op, (x, weight[::2], None), output)[0], "dx")
