"""A maximum that is NaN is the dtype's one quiet NaN, whatever the NaNs of the input are and whoever computes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
from halfulp import _core, kernels, spec
from halfulp.records import AdaptiveMaxPool, GlobalMaxPool, MaxPool
from tests.strategies import FLOATS, Array, float_dtypes, in_layout, layouts, nan_policies, seeds, ties, windows


def bits_of(array: Array) -> Array:
    return np.array(array, order="C").view(f"u{array.dtype.itemsize}")


def with_nans(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Numbers, and NaNs of either sign with any payload, quiet and signalling."""
    values = rng.integers(-3, 4, shape).astype(dtype)
    bits = values.view(f"u{dtype.itemsize}")
    infinity = bits_of(np.array([np.inf], dtype))[0]
    payload = rng.integers(1, 2 ** int(hu.numbers.float_format(dtype).precision - 1), shape, dtype=np.uint64)
    sign = rng.integers(0, 2, shape, dtype=np.uint64) << np.uint64(8 * dtype.itemsize - 1)
    nans = (payload | sign).astype(bits.dtype) | infinity
    chosen = rng.random(shape) < rng.choice([0.05, 0.5, 1.0])
    bits[chosen] = nans[chosen]
    return values


def assert_same_with_nans(actual: Array, expected: Array, what: str) -> None:
    assert actual.dtype == expected.dtype, what
    assert np.array_equal(bits_of(actual), bits_of(expected)), what


def check_values(op: Any, x: Array, isa: str) -> None:
    expected = spec.forward(op, np.array(x, order="C"))
    quiet = bits_of(np.array([np.nan], expected.dtype))[0]
    with np.errstate(invalid="ignore"):
        assert (bits_of(expected)[np.isnan(expected)] == quiet).all()
    assert_same_with_nans(kernels.forward(op, (x,)), expected, f"{op} on {isa}: forward")
    assert_same_with_nans(kernels.forward_with_indices(op, x)[0], expected, f"{op} on {isa}: value with indices")
    assert_same_with_nans(op.jvp((x,), (np.ones_like(x),))[0], expected, f"{op} on {isa}: value of jvp")
    assert_same_with_nans(op.vjp(x)[0], expected, f"{op} on {isa}: value of vjp")


@pytest.mark.usefixtures("restore")
@given(
    windows(max_ndim=3, long_rows=True),
    float_dtypes,
    layouts,
    ties,
    nan_policies,
    st.integers(0, 2),
    seeds,
    st.sampled_from(_core.available_isas()),
)
def test_values_of_every_way_have_the_bits_of_the_specification(
    window: Any, dtype: Any, layout: str, ties: Any, nan: Any, kind: int, seed: int, isa: str
) -> None:
    _core.set_isa(isa)
    rng = np.random.default_rng(seed)
    ndim = len(window.spatial)
    op: Any = MaxPool(ties=ties, nan=nan, **window.arguments)
    if kind == 1:
        op = AdaptiveMaxPool(tuple(int(n) for n in rng.integers(1, 6, ndim)), ties=ties, nan=nan)
    elif kind == 2:
        op = GlobalMaxPool(ndim, ties=ties, nan=nan)
    x = in_layout(with_nans(rng, (1, int(rng.integers(1, 4)), *window.spatial), dtype), layout)
    check_values(op, x, isa)


@pytest.mark.usefixtures("restore")
@pytest.mark.parametrize("isa", _core.available_isas())
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("last", [False, True])
def test_wide_channels_and_arrays_beyond_the_caches(isa: str, dtype: np.dtype[Any], last: bool) -> None:
    _core.set_isa(isa)
    rng = np.random.default_rng(3)
    x = with_nans(rng, (1, 33, 9, 10), dtype)
    check_values(MaxPool((3, 3), 2, 1), in_layout(x, "channels_last" if last else "c"), isa)
    quiet = bits_of(np.array([np.nan], dtype))[0]
    large = np.broadcast_to(x, (1200, *x.shape[1:]))
    large = in_layout(large, "channels_last" if last else "c")
    output = MaxPool((2, 2))(large)
    with np.errstate(invalid="ignore"):
        found = bits_of(output)[np.isnan(output)]
    assert found.size
    assert (found == quiet).all()
