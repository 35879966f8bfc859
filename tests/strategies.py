"""What the kernel tests draw from: window parameters, shapes, element types, values and memory layouts.

A Hypothesis example draws the structure (operator, shape, dtype, layout) and a seed; the numbers come from a generator
with that seed. So an example is small to draw and to shrink, and a run affords many of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

Array = NDArray[Any]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = (np.dtype("float16"), BFLOAT16, np.dtype("float32"), np.dtype("float64"))
INTEGERS = tuple(np.dtype(code) for code in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"))

float_dtypes = st.sampled_from(FLOATS)
integer_dtypes = st.sampled_from(INTEGERS)
all_dtypes = st.one_of(float_dtypes, integer_dtypes)
ties = st.sampled_from(["first", "last", "all", "split"])
nan_policies = st.sampled_from(["propagate", "ignore"])
seeds = st.integers(0, 2**32 - 1)


class Window(NamedTuple):
    """Window parameters and spatial sizes that fit together."""

    arguments: dict[str, Any]
    spatial: tuple[int, ...]


@st.composite
def windows(
    draw: st.DrawFn, max_ndim: int = 3, max_outputs: int = 6, dilated: bool = True, long_rows: bool = False
) -> Window:
    """Kernel, stride, padding, dilation and ceil_mode of any kind, with sizes on which at least one window fits.

    Long rows fill several vectors of every instruction set, with a rest.
    """
    ndim = draw(st.integers(1, max_ndim))
    small = {1: 9, 2: 5, 3: 3}.get(ndim, 2)
    per_axis = {"min_size": ndim, "max_size": ndim}
    kernel = draw(st.lists(st.integers(1, small), **per_axis))
    stride = draw(st.one_of(st.none(), st.lists(st.integers(1, 4), **per_axis)))
    dilation = draw(st.lists(st.integers(1, 3), **per_axis)) if dilated else [1] * ndim
    pairs = (
        st.tuples(st.integers(0, 3), st.integers(0, 3)) if ndim < 4 else st.tuples(st.integers(0, 1), st.integers(0, 2))
    )
    padding = draw(
        st.one_of(
            st.integers(0, 2 if ndim < 4 else 1),
            st.sampled_from(["valid", "same", "same_lower"]),
            st.lists(pairs, **per_axis),
        )
    )
    extra = draw(st.lists(st.integers(0, max_outputs if ndim < 4 else 1), **per_axis))
    spatial = []
    for axis in range(ndim):
        before, after = _pair(padding, axis)
        extent = dilation[axis] * (kernel[axis] - 1) + 1
        spatial.append(max(1, extent - before - after) + extra[axis])
    if long_rows:
        spatial[-1] += draw(st.integers(30, 150))
    if isinstance(padding, list):
        padding = tuple(padding)
    arguments = {
        "kernel_size": tuple(kernel),
        "stride": None if stride is None else tuple(stride),
        "padding": padding,
        "dilation": tuple(dilation),
        "ceil_mode": draw(st.booleans()),
    }
    return Window(arguments, tuple(spatial))


def _pair(padding: Any, axis: int) -> tuple[int, int]:
    if isinstance(padding, str):
        return 0, 0
    if isinstance(padding, int):
        return padding, padding
    before, after = padding[axis]
    return before, after


leading_axes = st.one_of(
    st.just(()),
    st.tuples(st.integers(0, 3)),
    st.tuples(st.integers(1, 3), st.integers(1, 5)),
    st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(1, 3)),
)
"""What stands before the spatial axes; a zero makes an empty array."""


def _spread(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Values over the whole exponent range."""
    info = ml_dtypes.finfo(dtype)
    exponents = rng.integers(int(info.minexp) - 12, int(info.maxexp) - 1, shape)
    with np.errstate(all="ignore"):
        return np.ldexp(rng.uniform(-2, 2, shape), exponents).astype(dtype)


def _special(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Few values that meet all the rules: NaN, infinities, zeros of both signs, the smallest and the largest."""
    info = ml_dtypes.finfo(dtype)
    tiny = float(info.smallest_subnormal)
    pool = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, tiny, -tiny, float(info.max), float(info.min)])
    chosen = rng.choice(pool, size=rng.integers(1, len(pool) + 1), replace=False)
    with np.errstate(all="ignore"):
        return rng.choice(chosen, shape).astype(dtype)


def _sprinkled(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Ordinary values with a few special ones among them."""
    values = rng.standard_normal(shape).astype(dtype)
    return np.where(rng.random(shape) < 0.1, _special(rng, shape, dtype), values)


def _infinities(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Ordinary values and one to three infinities, of one sign mostly: sums that are infinite, not NaN."""
    values = rng.standard_normal(shape).astype(dtype)
    sign = rng.choice([1.0, -1.0])
    for _ in range(int(rng.integers(1, 4)) if values.size else 0):
        values[tuple(rng.integers(0, n) for n in shape)] = sign * np.inf
        sign = -sign if rng.random() < 0.2 else sign
    return values


def _overflowing(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Numbers near the largest one: partial sums overflow, whole sums may not."""
    top = float(ml_dtypes.finfo(dtype).max)
    return (rng.choice([1.0, -1.0, 0.5, -0.5, 2.0**-40], shape) * rng.uniform(0.9, 1.0, shape) * top).astype(dtype)


_FILLS: tuple[Callable[[np.random.Generator, tuple[int, ...], np.dtype[Any]], Array], ...] = (
    lambda rng, shape, dtype: rng.standard_normal(shape).astype(dtype),
    lambda rng, shape, dtype: rng.integers(-2, 3, shape).astype(dtype),
    lambda rng, shape, dtype: np.where(rng.random(shape) < 0.5, 0.0, -0.0).astype(dtype),
    _spread,
    _special,
    _sprinkled,
    _infinities,
    _overflowing,
)


def random_array(rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """An array of one of several kinds of values: ordinary, with many ties, zeros of both signs, wide, infinite."""
    shape = tuple(shape)
    if dtype.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        low, high = (info.min, info.max) if rng.random() < 0.5 else (max(info.min, -2), 3)
        return np.asarray(rng.integers(low, high, shape, dtype=dtype, endpoint=True))
    return np.asarray(_FILLS[rng.integers(len(_FILLS))](rng, shape, dtype))


LAYOUTS = ("c", "channels_last", "fortran", "reversed", "stepped", "read_only", "swapped", "misaligned")


def in_layout(array: Array, layout: str) -> Array:
    """The same values in another place in memory."""
    if layout == "channels_last" and array.ndim >= 3:
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 1, -1)), -1, 1)
    if layout == "fortran":
        return np.array(array, order="F")
    if layout == "reversed":
        flipped = (slice(None, None, -1),) * array.ndim
        return array[flipped].copy()[flipped]
    if layout == "stepped":
        base = np.zeros(tuple(2 * n for n in array.shape), array.dtype)
        base[(slice(None, None, 2),) * array.ndim] = array
        return base[(slice(None, None, 2),) * array.ndim]
    if layout == "read_only":
        copy = np.array(array)
        copy.flags.writeable = False
        return copy
    if layout == "swapped" and array.dtype.itemsize > 1 and array.dtype != BFLOAT16:
        return array.astype(array.dtype.newbyteorder())
    if layout == "misaligned":
        raw = np.zeros(array.nbytes + 1, np.uint8)
        view = raw[1 : array.nbytes + 1].view(array.dtype).reshape(array.shape)
        view[...] = array
        return view
    return np.array(array, order="C")


layouts = st.sampled_from(LAYOUTS)


def assert_same_bits(actual: Array, expected: Array, what: str = "") -> None:
    """Equal shape, dtype and bits; any NaN equals any NaN."""
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape} != {expected.shape}"
    assert actual.dtype == expected.dtype, f"{what}: dtype {actual.dtype} != {expected.dtype}"
    if actual.dtype.kind in "iub":
        assert np.array_equal(actual, expected), f"{what}: {actual} != {expected}"
        return
    bits = np.dtype(f"u{actual.dtype.itemsize}")
    a, b = np.array(actual, order="C"), np.array(expected, order="C")
    different = (a.view(bits) != b.view(bits)) & ~(np.isnan(a) & np.isnan(b))
    if different.any():
        where = tuple(int(i) for i in np.argwhere(different)[0])
        raise AssertionError(
            f"{what}: {int(different.sum())} of {different.size} differ, first at {where}: {a[where]!r} != {b[where]!r}"
        )
