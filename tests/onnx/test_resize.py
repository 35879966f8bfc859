"""Resize: exact weights, one rounding, the same bits in any layout; nearest only moves elements."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
import halfulp.onnx
from halfulp import ModelError
from tests.onnx.models import node_model
from tests.scaling import examples

EMPTY = np.zeros(0, np.float32)


def resize(x, scales=None, sizes=None, **attributes):
    arrays = [x, EMPTY, EMPTY if scales is None else np.array(scales, np.float32)]
    arrays += [] if sizes is None else [np.array(sizes, np.int64)]
    return halfulp.onnx.load(node_model("Resize", arrays, **attributes)).run(arrays)[0]


def exactly(x, sizes, corners):
    """Bilinear interpolation of a plane with rationals, from its formula."""
    rows, columns = x.shape
    out = np.empty(sizes, dtype=object)
    lifted = hu.exact(x)

    def source(i, n, m):
        if corners:
            return Fraction(i * (n - 1), m - 1) if m > 1 else Fraction(0)
        return Fraction(2 * i + 1, 2) * Fraction(n, m) - Fraction(1, 2)

    def ends(p, n):
        low = p.numerator // p.denominator
        return max(0, min(n - 1, low)), max(0, min(n - 1, low + 1)), p - low

    for i, j in np.ndindex(*sizes):
        a, b, s = ends(source(i, rows, sizes[0]), rows)
        c, d, t = ends(source(j, columns, sizes[1]), columns)
        f = lambda v: hu.exact(np.array([0.0]))[0] + type(lifted.flat[0])(v.numerator, v.denominator)  # noqa: E731
        top = lifted[a, c] * f(1 - t) + lifted[a, d] * f(t)
        bottom = lifted[b, c] * f(1 - t) + lifted[b, d] * f(t)
        out[i, j] = top * f(1 - s) + bottom * f(s)
    return out


@examples(120)
@given(
    st.tuples(st.integers(1, 6), st.integers(1, 6)),
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.sampled_from([np.float16, np.float32, np.float64]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1.0, 3e-39, 1e30]),
)
def test_linear_is_rounded_once(shape, sizes, dtype, corners, seed, scale) -> None:
    x = np.random.default_rng(seed).standard_normal(shape)
    with np.errstate(over="ignore"):
        x = np.where(np.isfinite((x * scale).astype(dtype)), x * scale, x).astype(dtype)
    x = np.where(x == 0, dtype(1), x)  # rationals have no negative zero; the test after the next one has
    mode = "align_corners" if corners else "half_pixel"
    found = resize(x, sizes=sizes, mode="linear", coordinate_transformation_mode=mode)
    expected = hu.rounded(exactly(x, sizes, corners), dtype)
    assert found.tobytes() == expected.tobytes()


def test_the_doubling_of_models_is_exact_everywhere() -> None:
    """Weights 1/16 to 9/16: every sum is exact in float64, and ties are decided by the even neighbour."""
    x = np.random.default_rng(0).integers(1, 2**24, (1, 2, 5, 7)).astype(np.float32)
    found = resize(x, scales=[1, 1, 2, 2], mode="linear")
    for c in range(2):
        assert np.array_equal(found[0, c], hu.rounded(exactly(x[0, c], (10, 14), False), np.float32))


def test_a_sum_of_negative_zeros_is_one() -> None:
    x = np.array([[-0.0, -0.0, 0.0]], np.float32)
    found = resize(x, sizes=[1, 5], mode="linear", coordinate_transformation_mode="align_corners")
    assert np.signbit(found).tolist() == [[True, True, True, False, False]]


def test_not_finite_cells_reach_only_what_uses_them() -> None:
    x = np.array([[1, np.inf, 3, 4, 5, 6]], np.float32)
    found = resize(x, sizes=[1, 11], mode="linear", coordinate_transformation_mode="align_corners")
    assert np.isfinite(found[0, [0, 4, 5, 10]]).all()
    assert np.isinf(found[0, 1:4]).all()


def test_nearest_moves_bits() -> None:
    x = np.array([[-0.0, np.nan], [np.inf, 1]], np.float32)
    found = resize(x, scales=[2, 3], coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    assert found.tobytes() == x.repeat(2, 0).repeat(3, 1).tobytes()
    integers = np.arange(4).reshape(2, 2)
    assert resize(integers, scales=[1, 2]).tolist() == [[0, 0, 1, 1], [2, 2, 3, 3]]


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_the_pullback_is_the_transpose(mode: str) -> None:
    x = np.random.default_rng(1).integers(-8, 8, (3, 4)).astype(np.float64)
    arrays = [x, EMPTY, np.array([2, 0.5], np.float32)]
    loaded = halfulp.onnx.load(node_model("Resize", arrays, mode=mode, antialias=int(mode != "nearest")))
    run = lambda x: loaded.run([x, *arrays[1:]])[0]  # noqa: E731
    tangent = hu.exact(np.random.default_rng(2).integers(-8, 8, x.shape).astype(np.float64))
    cotangent = hu.exact(np.random.default_rng(3).integers(-8, 8, (6, 2)).astype(np.float64))
    _, pushed = hu.jvp(run, (hu.exact(x),), (tangent,))
    (pulled,) = hu.vjp(run, hu.exact(x))[1](cotangent)
    assert (pushed * cotangent).sum() == (tangent * pulled).sum()


def test_refusals_O3_O9_O6() -> None:
    x = np.zeros((2, 2), np.float32)
    with pytest.raises(ModelError, match=r"mode='area': must be one of nearest, linear, cubic \[O3\]"):
        resize(x, scales=[1, 1], mode="area")
    with pytest.raises(ModelError, match=r"must be above 0 \[O9\]"):
        resize(x, scales=[1, -1])
    with pytest.raises(ModelError, match=r"scales: must be 2 finite numbers"):
        resize(x, scales=[1, np.inf])
    with pytest.raises(ModelError, match=r"sizes=\[-1, 2\]: must be 2 sizes >= 0 \[O9\]"):
        resize(x, sizes=[-1, 2])
    with pytest.raises(ModelError, match=r"max_bytes.* \[O6\]"):
        resize(x, sizes=[2**40, 2**20])
    with pytest.raises(ModelError, match=r"interpolation of int64 is not computed"):
        resize(np.zeros((2, 2), np.int64), sizes=[3, 3], mode="linear")
