"""The full product of parameters: JAX arrays get the bits that NumPy arrays get, special values included."""

from __future__ import annotations

from typing import Any

import jax
import jax.experimental
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
import halfulp.jax
from tests.scaling import examples
from tests.strategies import (
    all_dtypes,
    assert_same_bits,
    float_dtypes,
    leading_axes,
    nan_policies,
    random_array,
    seeds,
    ties,
    windows,
)

# JAX 0.8 moved it to its own top level.
enable_x64: Any = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64


@st.composite
def poolings(draw: st.DrawFn) -> tuple[Any, tuple[int, ...]]:
    """A pooling record and spatial sizes that it takes."""
    window = draw(windows())
    kind = draw(st.sampled_from(["max", "avg", "smooth", "adaptive_max", "adaptive_avg", "global_max", "global_avg"]))
    policies = {"ties": draw(ties), "nan": draw(nan_policies)}
    ndim = len(window.spatial)
    if kind == "max":
        return hu.MaxPool(**window.arguments, **policies), window.spatial
    if kind == "avg":
        more = {
            "count_include_pad": draw(st.booleans()),
            "divisor_override": draw(st.sampled_from([None, None, 3, -2])),
        }
        return hu.AvgPool(**window.arguments, **more), window.spatial
    if kind == "smooth":
        return hu.SmoothMaxPool(beta=draw(st.sampled_from([1.0, -0.5, 8, 0.1])), **window.arguments), window.spatial
    if kind.startswith("adaptive"):
        sizes = tuple(draw(st.lists(st.one_of(st.none(), st.integers(1, 4)), min_size=ndim, max_size=ndim)))
        return (
            hu.AdaptiveMaxPool(sizes, **policies) if kind.endswith("max") else hu.AdaptiveAvgPool(sizes)
        ), window.spatial
    keepdims = draw(st.booleans())
    record = hu.GlobalMaxPool(ndim, keepdims, **policies) if kind.endswith("max") else hu.GlobalAvgPool(ndim, keepdims)
    return record, window.spatial


@examples(60)
@given(poolings(), leading_axes, float_dtypes, seeds)
def test_pooling_and_its_derivatives(
    case: tuple[Any, tuple[int, ...]], leading: tuple[int, ...], dtype: np.dtype[Any], seed: int
) -> None:
    op, spatial = case
    rng = np.random.default_rng(seed)
    x, t = (random_array(rng, leading + spatial, dtype) for _ in range(2))
    output, pullback = op.vjp(x)
    g = random_array(rng, output.shape, dtype)
    with enable_x64(True):
        f = lambda x: halfulp.jax.apply(op, x)  # noqa: E731
        found = jax.jit(lambda x, t, g: (jax.jvp(f, (x,), (t,)), jax.vjp(f, x)[1](g)))(x, t, g)
    (value, tangent), (dx,) = found
    assert_same_bits(np.asarray(value), output, "value")
    assert_same_bits(np.asarray(tangent), op.jvp((x,), (t,))[1], "tangent")
    assert_same_bits(np.asarray(dx), pullback(g)[0], "cotangent")


@examples(40)
@given(windows(), leading_axes, all_dtypes, ties, nan_policies, seeds)
def test_hard_max_of_every_element_type_with_indices(
    window: Any, leading: tuple[int, ...], dtype: np.dtype[Any], tie: str, nan: str, seed: int
) -> None:
    op = hu.MaxPool(**window.arguments, ties=tie, nan=nan)
    x = random_array(np.random.default_rng(seed), leading + window.spatial, dtype)
    with enable_x64(True):
        value, found = jax.jit(lambda x: halfulp.jax.apply_with_indices(op, x))(x)
    expected, indices = hu.max_pool(x, **window.arguments, return_indices=True, ties=tie, nan=nan)
    assert_same_bits(np.asarray(value), expected, "value")
    assert_same_bits(np.asarray(found), indices, "indices")


@examples(30)
@given(windows(max_ndim=2), st.integers(0, 2), st.integers(1, 2), float_dtypes, st.booleans(), seeds)
def test_convolution_and_its_derivatives(
    window: Any, batch: int, groups: int, dtype: np.dtype[Any], transposed: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    kernel = window.arguments["kernel_size"]
    stride = window.arguments["stride"] or 1
    ndim = len(kernel)
    dilation = window.arguments["dilation"]
    if transposed:
        op: Any = hu.ConvTranspose(ndim, stride, 0, 0, dilation, groups)
    else:
        op = hu.Conv(ndim, stride, window.arguments["padding"], dilation, groups)
    x_shape = ((batch,) if batch else ()) + (2 * groups, *window.spatial)
    w_shape = (2 * groups, 3, *kernel) if transposed else (3 * groups, 2, *kernel)
    shapes = (x_shape, w_shape, (3 * groups,))
    primals, tangents = (tuple(random_array(rng, s, dtype) for s in shapes) for _ in range(2))
    output, pullback = op.vjp(*primals)
    g = random_array(rng, output.shape, dtype)
    with enable_x64(True):
        f = lambda *inputs: halfulp.jax.apply(op, *inputs)  # noqa: E731
        found = jax.jit(lambda p, t, g: (jax.jvp(f, p, t), jax.vjp(f, *p)[1](g)))(primals, tangents, g)
    (value, tangent), cotangents = found
    assert_same_bits(np.asarray(value), output, "value")
    assert_same_bits(np.asarray(tangent), op.jvp(primals, tangents)[1], "tangent")
    for name, a, b in zip(["x", "weight", "bias"], cotangents, pullback(g), strict=True):
        assert_same_bits(np.asarray(a), b, name)


def test_subnormal_numbers_are_not_flushed_to_zero() -> None:
    """XLA flushes them in its own operations; halfulp's results under XLA keep gradual underflow."""
    x = (np.arange(1, 129) * 2.0**-149).astype(np.float32)
    for op in (hu.AvgPool((2,)), hu.MaxPool((2,)), hu.AvgPool((3,), stride=1, padding=1)):
        assert_same_bits(np.asarray(jax.jit(lambda x, op=op: halfulp.jax.apply(op, x))(x)), op(x))
    tiny = np.full((1, 1, 4), 2.0**-70, np.float32)
    weight = np.full((1, 1, 2), 2.0**-70, np.float32)
    expected = hu.conv1d(tiny, weight)
    assert 0 < expected.max() < 2.0**-126
    assert_same_bits(np.asarray(jax.jit(halfulp.jax.conv1d)(tiny, weight)), expected)
