"""The hard max kernels against the specification, bit for bit: values, indices, JVP and VJP.

An example draws a structure and tries it on a batch of element types, layouts and values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
from tests import strategies as draw


def check(op: Any, shape: tuple[int, ...], seed: int, cases: int = 12) -> None:
    """A batch of inputs of this shape, every dtype and layout in turn."""
    rng = np.random.default_rng(seed)
    for _ in range(cases):
        integers = rng.random() < 0.2
        dtype = rng.choice(np.array(draw.INTEGERS if integers else draw.FLOATS, dtype=object))
        layout = str(rng.choice(draw.LAYOUTS))
        x = draw.random_array(rng, shape, dtype)
        check_case(op, x, layout, rng)


def check_case(op: Any, x: Any, layout: str, rng: np.random.Generator) -> None:
    what = f"{op} on {x.dtype} {x.shape} in {layout}"
    given_x = draw.in_layout(x, layout)
    expected = hu.spec.forward(op, x)
    draw.assert_same_bits(op(given_x), expected, what)
    output, indices = hu.kernels.forward_with_indices(op, given_x)
    draw.assert_same_bits(output, expected, what)
    assert np.array_equal(indices, hu.spec.indices(op, x)), f"indices of {what}"
    if x.dtype.kind in "iub":
        return
    tangent = draw.random_array(rng, x.shape, x.dtype)
    output, out_tangent = op.jvp((given_x,), (draw.in_layout(tangent, str(rng.choice(draw.LAYOUTS))),))
    draw.assert_same_bits(output, expected, f"jvp output of {what}")
    draw.assert_same_bits(out_tangent, hu.spec.jvp(op, (x,), (tangent,))[1], f"jvp of {what}")
    output, pullback = op.vjp(given_x)
    draw.assert_same_bits(output, expected, f"vjp output of {what}")
    cotangent = draw.random_array(rng, expected.shape, x.dtype)
    (dx,) = pullback(draw.in_layout(cotangent, str(rng.choice(draw.LAYOUTS))))
    draw.assert_same_bits(dx, hu.spec.vjp(op, (x,), cotangent)[0], f"vjp of {what}")


@given(draw.windows(max_ndim=5), draw.leading_axes, draw.ties, draw.nan_policies, draw.seeds)
def test_sliding_windows_match_the_specification(
    window: draw.Window, leading: tuple[int, ...], ties: str, nan: str, seed: int
) -> None:
    check(hu.MaxPool(**window.arguments, ties=ties, nan=nan), leading + window.spatial, seed, cases=24)


@given(draw.windows(max_ndim=2, max_outputs=3, long_rows=True), draw.ties, draw.nan_policies, draw.seeds)
def test_long_rows_match_the_specification(window: draw.Window, ties: str, nan: str, seed: int) -> None:
    check(hu.MaxPool(**window.arguments, ties=ties, nan=nan), (1, *window.spatial), seed, cases=6)


@given(
    st.lists(st.tuples(st.integers(0, 8), st.one_of(st.none(), st.integers(1, 9))), min_size=1, max_size=3),
    draw.leading_axes,
    draw.ties,
    draw.nan_policies,
    draw.seeds,
)
def test_adaptive_windows_match_the_specification(
    axes: list[tuple[int, int | None]], leading: tuple[int, ...], ties: str, nan: str, seed: int
) -> None:
    op = hu.AdaptiveMaxPool(tuple(size for _, size in axes), ties=ties, nan=nan)
    check(op, leading + tuple(size for size, _ in axes), seed)


@given(
    st.lists(st.integers(0, 7), min_size=1, max_size=3),
    draw.leading_axes,
    st.booleans(),
    draw.ties,
    draw.nan_policies,
    draw.seeds,
)
def test_global_windows_match_the_specification(
    spatial: list[int], leading: tuple[int, ...], keepdims: bool, ties: str, nan: str, seed: int
) -> None:
    op = hu.GlobalMaxPool(len(spatial), keepdims=keepdims, ties=ties, nan=nan)
    check(op, leading + tuple(spatial), seed)


# Lines and windows so long that they are cut into pieces, and windows that hardly overlap.
LONG = [
    (hu.MaxPool((3,), stride=7, padding=1), (20_001,)),
    (hu.MaxPool((4,), stride=9, dilation=3, padding=((5, 11),), ties="last"), (20_003,)),
    (hu.MaxPool((40,), stride=20, padding=7), (1, 2, 9_001)),
    (hu.MaxPool((9_000,), stride=4_000, padding=300, nan="ignore"), (20_001,)),
    (hu.MaxPool((3, 17), stride=(2, 16), padding=(1, 8), ceil_mode=True), (3, 9_000)),
    (hu.MaxPool((17, 31), stride=16, padding=40, ties="last"), (1, 2, 40, 50)),
    (hu.MaxPool((2, 3, 16), stride=(2, 2, 5), padding=1), (2, 6, 7, 50)),
    (hu.AdaptiveMaxPool((1, 5)), (2, 9_001)),
    (hu.GlobalMaxPool(1), (9_001,)),
]


@pytest.mark.parametrize(("op", "shape"), LONG, ids=lambda value: str(value))
@pytest.mark.parametrize(
    ("dtype", "layout"), [("f4", "c"), ("f4", "channels_last"), ("f2", "c"), ("f8", "stepped"), ("i1", "c")]
)
def test_long_lines_and_wide_windows_match_the_specification(
    op: Any, shape: tuple[int, ...], dtype: str, layout: str
) -> None:
    rng = np.random.default_rng(shape[-1])
    fill = draw.random_array if dtype == "i1" else draw._sprinkled
    check_case(op, fill(rng, shape, np.dtype(dtype)), layout, rng)


@given(
    axis=st.tuples(st.integers(4, 90), st.integers(9, 80), st.integers(0, 50), st.integers(0, 50), st.integers(1, 3)),
    last_axis=st.booleans(),
    ties=draw.ties,
    dtype=st.sampled_from(["f4", "f8", "f2", "i1", "i4", "u2"]),
    special=st.sampled_from([None, None, None, np.inf, -np.inf, np.nan]),
    seed=draw.seeds,
)
def test_wide_windows_of_few_values_match_the_specification(
    axis: tuple[int, int, int, int, int], last_axis: bool, ties: str, dtype: str, special: float | None, seed: int
) -> None:
    """Finite values, many equal, zeros of both signs, and at most one cell that is special."""
    size, kernel, before, after, stride = axis
    kernel = min(kernel, size + before + after)
    wide: dict[str, Any] = {"kernel_size": (1, kernel), "stride": (1, stride), "padding": ((0, 0), (before, after))}
    if not last_axis:
        wide = {name: value[::-1] for name, value in wide.items()}
    rng = np.random.default_rng(seed)
    values = np.array([-0.0, 0.0, 1, 2, 3]) if rng.random() < 0.5 else np.array([-3, -2, -1.5, -0.0, 0.0])
    x = rng.choice(values, (2, 3, size) if last_axis else (2, size, 3))
    x = np.asarray(np.abs(x) if dtype[0] == "u" else x, dtype)
    if special is not None and x.dtype.kind == "f":
        x[tuple(int(rng.integers(n)) for n in x.shape)] = special
    check_case(hu.MaxPool(**wide, ties=ties), x, "c", rng)
