"""3x3 convolutions with many channels go by patches of 6x6 cells: the same bits as every other way."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfulp import _core, kernels, spec
from halfulp.records import Conv, ConvTranspose
from tests.kernels.convolutions import Case, check_against_spec, products
from tests.scaling import examples
from tests.strategies import Array, assert_same_bits, in_layout, layouts, seeds

DTYPES = [np.dtype("float16"), np.dtype(ml_dtypes.bfloat16), np.dtype("float32")]


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.standard_normal(shape)


def rectified(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.maximum(rng.standard_normal(shape), 0)


def integers(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.integers(-2, 3, shape).astype(np.float64)


def huge(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.standard_normal(shape) * 1e19


def tiny(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.standard_normal(shape) * 1e-22


def subnormal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.integers(-9, 10, shape) * 2.0**-149


def mixed(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.standard_normal(shape) * 2.0 ** rng.integers(-40, 40, shape)


def cancelling(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    values = rng.standard_normal(shape).astype(np.float32).astype(np.float64)
    half = shape[1] // 2
    values[:, half : 2 * half] = -values[:, :half] * np.where(rng.random(values[:, :half].shape) < 0.01, 1.5, 1)
    return values


def one_cell(value: float) -> Any:
    def make(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        values = rng.standard_normal(shape)
        values[tuple(rng.integers(0, n) for n in shape)] = value
        return values

    make.__name__ = f"one_{value}"
    return make


def blank(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.choice([0.0, -0.0], shape)


def some_zero_channels(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    values = rng.standard_normal(shape)
    values[0] = -0.0
    values[:, 3] = 0.0
    return values


KINDS = [normal, rectified, integers, huge, tiny, subnormal, mixed, cancelling, blank, some_zero_channels]
KINDS += [one_cell(np.inf), one_cell(-np.inf), one_cell(np.nan), one_cell(3e38), one_cell(1e-45)]


@st.composite
def patch_cases(draw: st.DrawFn) -> Case:
    """Operators, shapes and values for which patches are tried, at the least numbers of channels and above."""
    rng = np.random.default_rng(draw(seeds))
    dtype = draw(st.sampled_from(DTYPES))
    groups = draw(st.sampled_from([1, 1, 2]))
    inside, outside = (draw(st.sampled_from([16, 17])) for _ in range(2))
    dilation = tuple(draw(st.sampled_from([1, 1, 2, 3])) for _ in range(2))
    sides = st.integers(0, 2 * max(dilation))
    padding = tuple((draw(sides), draw(sides)) for _ in range(2))
    op: Conv | ConvTranspose = draw(st.sampled_from([Conv, ConvTranspose]))(
        2, padding=padding, dilation=dilation, groups=groups
    )
    forward = isinstance(op, Conv)
    batch = draw(st.sampled_from([1, 2]))
    x_shape = (batch, groups * inside, *(draw(st.integers(8, 11)) for _ in range(2)))
    w_shape = (groups * outside, inside, 3, 3) if forward else (groups * inside, outside, 3, 3)
    layout = draw(layouts)

    def array(shape: tuple[int, ...]) -> Array:
        kind = draw(st.sampled_from(KINDS))
        with np.errstate(over="ignore"):
            return in_layout(kind(rng, shape).astype(np.float32).astype(dtype), layout)

    x, weight = array(x_shape), array(w_shape)
    bias = rng.standard_normal(groups * outside).astype(dtype) if draw(st.booleans()) else None
    tangents = (array(x_shape), array(w_shape) if draw(st.booleans()) else None, bias)
    return Case(op, (x, weight, bias), tangents, array(op.output_shape(x_shape, w_shape)))


@examples(6)
@given(patch_cases())
def test_value_jvp_and_vjp_have_the_bits_of_the_specification(case: Case) -> None:
    check_against_spec(case)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=lambda f: f.__name__)
def test_values_of_every_kind(kind: Any, dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(2)
    op = Conv(2, padding=((1, 0), (2, 1)))
    with np.errstate(over="ignore"):
        x = kind(rng, (1, 16, 9, 8)).astype(np.float32).astype(dtype)
    weight = rng.standard_normal((16, 16, 3, 3)).astype(dtype)
    assert_same_bits(kernels.forward(op, (x, weight)), spec.forward(op, x, weight), kind.__name__)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=lambda f: f.__name__)
def test_weights_of_every_kind(kind: Any, dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(3)
    op = Conv(2, padding=1)
    with np.errstate(over="ignore"):
        weight = kind(rng, (16, 16, 3, 3)).astype(np.float32).astype(dtype)
    x = rng.standard_normal((1, 16, 8, 8)).astype(dtype)
    bias = np.zeros(16, dtype)
    assert_same_bits(kernels.forward(op, (x, weight, bias)), spec.forward(op, x, weight, bias), kind.__name__)


# Several blocks of channels and panels; patches that fill one group, several groups, and part of a block.
SHAPES = [(1, 130, 14, 14, 70), (3, 40, 30, 27, 33), (2, 16, 61, 9, 16)]


@pytest.mark.parametrize("dilation", [(2, 2), (1, 3), (4, 2)], ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=lambda f: f.__name__)
def test_dilated_kernels_go_by_patches_of_each_phase(kind: Any, dilation: tuple[int, int]) -> None:
    rng = np.random.default_rng(5)
    op = Conv(2, padding=dilation, dilation=dilation)
    with np.errstate(over="ignore"):
        x = kind(rng, (1, 16, 15, 14)).astype(np.float32)
    weight = rng.standard_normal((16, 16, 3, 3)).astype(np.float32)
    _core.reset_engine_counts()
    value = kernels.forward(op, (x, weight))
    assert _core.engine_counts().get("conv_winograd", 0) == 1 or kind is not normal
    assert_same_bits(value, spec.forward(op, x, weight), kind.__name__)


@pytest.mark.usefixtures("restore")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_threads_instruction_sets_and_batch_splits_do_not_change_a_bit(shape: tuple[int, ...], dtype: Any) -> None:
    rng = np.random.default_rng(4)
    batch, inside, height, width, outside = shape
    op = Conv(2, padding=1)
    inputs = [rng.standard_normal(s).astype(dtype) for s in ((batch, inside, height, width), (outside, inside, 3, 3))]
    kernels.set_num_threads(1)
    expected = products(op, [*inputs, None])[:2]
    for isa in _core.available_isas():
        _core.set_isa(isa)
        for threads in (1, 2, 8):
            kernels.set_num_threads(threads)
            for name, a, b in zip(("value", "dx"), products(op, [*inputs, None])[:2], expected, strict=True):
                assert_same_bits(a, b, f"{isa}, {threads} threads: {name}")
    parts = [op(inputs[0][i : i + 1], inputs[1]) for i in range(batch)]
    assert_same_bits(np.concatenate(parts), expected[0], "batch split")
    # A kernel with a tap of zeros around it is summed by the other engine, for it has four taps.
    wider = np.pad(inputs[1], ((0, 0), (0, 0), (0, 1), (0, 1)))
    other = Conv(2, padding=((1, 2), (1, 2)))(inputs[0], wider)
    assert_same_bits(other, expected[0], "the other engine")
