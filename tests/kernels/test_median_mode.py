"""Medians and modes: kernels against the specification, bit for bit, and against an enumeration in Python."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import halfulp as hu
from halfulp import _core, kernels
from tests import strategies as draw
from tests.scaling import examples
from tests.windows import attempt, enumerated, nearest

RECORDS = st.sampled_from([hu.MedianPool, hu.ModePool])


@examples(settings.get_profile("default").max_examples // 2)
@given(
    RECORDS, draw.windows(max_ndim=4, max_outputs=4), draw.leading_axes, draw.all_dtypes, draw.layouts,
    draw.nan_policies, draw.seeds,
)  # fmt: skip
def test_kernels_match_the_specification(
    record: Any, window: draw.Window, leading: tuple[int, ...], dtype: np.dtype[Any], layout: str, nan: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    op = record(**window.arguments, nan=nan)
    x = draw.random_array(rng, leading[-1:] + window.spatial, dtype)
    what = f"{op} on {dtype} {x.shape} in {layout}"
    given_x = draw.in_layout(x, layout)
    expected = hu.spec.forward(op, x)
    draw.assert_same_bits(op(given_x), expected, what)
    if dtype.kind in "iub":
        return
    t = draw.random_array(rng, x.shape, dtype)
    output, tangent = op.jvp((given_x,), (draw.in_layout(t, layout),))
    draw.assert_same_bits(output, expected, what)
    draw.assert_same_bits(tangent, hu.spec.jvp(op, (x,), (t,))[1], f"jvp of {what}")
    g = draw.random_array(rng, expected.shape, dtype)
    draw.assert_same_bits(op.vjp(given_x)[1](g)[0], hu.spec.vjp(op, (x,), g)[0], f"vjp of {what}")


@given(draw.windows(max_ndim=5, max_outputs=3), draw.integer_dtypes, draw.seeds)
def test_values_are_those_of_python_s_integers(window: draw.Window, dtype: np.dtype[Any], seed: int) -> None:
    arguments = window.arguments | {"padding": 0 if isinstance(window.arguments["padding"], str) else 1}
    x = draw.random_array(np.random.default_rng(seed), window.spatial, dtype)
    median, mode = hu.MedianPool(**arguments), hu.ModePool(**arguments)
    outputs, error = attempt(lambda: (median(x), mode(x)))
    if error is not None:
        assert error.label == "W5"
        return
    medians, modes = outputs
    for position, cells in enumerated(x, median):
        values = sorted(int(value) for value in cells.values)
        n = len(values)
        middle = Fraction(values[(n - 1) // 2] + values[n // 2], 2) if n else Fraction(0)
        assert int(medians[position]) == nearest(middle, dtype)
        counts = Counter(values)
        most = max(counts.values(), default=0)
        assert int(modes[position]) == min((v for v, count in counts.items() if count == most), default=0)


@pytest.mark.usefixtures("restore")
@pytest.mark.parametrize("isa", _core.available_isas())
@pytest.mark.parametrize("dtype", [*draw.INTEGERS, *draw.FLOATS], ids=str)
def test_long_rows_on_every_instruction_set(isa: str, dtype: np.dtype[Any]) -> None:
    _core.set_isa(isa)
    x = draw.random_array(np.random.default_rng(3), (2, 4, 290), dtype)
    for record in (hu.MedianPool, hu.ModePool):
        for kernel in ((2, 2), (2, 2, 2), (1, 3)):
            op = record(kernel)
            expected = hu.spec.forward(op, x)
            for threads in (1, 3):
                kernels.set_num_threads(threads)
                draw.assert_same_bits(op(x), expected, f"{op} of {dtype} with {isa}")


def test_large_windows_are_sorted_one_by_one() -> None:
    x = np.random.default_rng(2).integers(0, 9, (2, 20, 21)).astype(np.uint8)
    for op in (hu.MedianPool((10, 10)), hu.ModePool((10, 10))):
        draw.assert_same_bits(op(x), hu.spec.forward(op, x))


def test_examples() -> None:
    assert hu.median_pool2d(np.array([[1, 2], [3, 9]], np.uint8), 2).tolist() == [[2]]
    assert hu.median_pool1d(np.array([2**64 - 1, 2**64 - 3], np.uint64), 2).tolist() == [2**64 - 2]
    assert hu.median_pool1d(np.array([-1, 0], np.int64), 2).tolist() == [0]
    large = np.finfo(np.float64).max
    assert hu.median_pool1d(np.array([large, large]), 2).tolist() == [large]
    assert hu.mode_pool1d(np.array([5, 4, 4, 5], np.int8), 4).tolist() == [4]
    assert hu.mode_pool(np.array([True, False, True]), (3,)).tolist() == [True]
    assert np.isnan(hu.median_pool1d(np.array([1.0, np.nan]), 2)).all()
    assert hu.median_pool1d(np.array([1.0, np.nan]), 2, nan="ignore").tolist() == [1.0]


def test_the_middle_two_share_the_cotangent() -> None:
    x = np.array([3.0, 1.0, 2.0, 2.0])
    assert hu.MedianPool((4,)).vjp(x)[1](np.array([1.0]))[0].tolist() == [0.0, 0.0, 0.5, 0.5]
    assert hu.MedianPool((3,), stride=1).vjp(x)[1](np.array([1.0, 10.0]))[0].tolist() == [0.0, 0.0, 11.0, 0.0]
    assert hu.ModePool((4,)).vjp(x)[1](np.array([1.0]))[0].tolist() == [0.0, 0.0, 1.0, 0.0]


def test_balls_enclose_the_median_n4() -> None:
    balls = np.array([flint.arb(1, 0.75), flint.arb(2, 0.75), flint.arb(5)], dtype=object)
    (value,) = hu.MedianPool((3,))(balls)
    assert value.contains(2)
    assert value.contains(1.75)
    assert not value.contains(5)
    with pytest.raises(hu.DTypeError, match=r"^mode_pool1d: inexact balls: .* \[N4\]$"):
        hu.ModePool((3,))(balls)


def test_nan_and_integers_are_refused_where_they_must_be_p3() -> None:
    for record in (hu.MedianPool, hu.ModePool):
        with pytest.raises(hu.PolicyError, match=r"the input is NaN at \(1,\); it must have no NaN \[P3\]$"):
            record((2,), nan="raise")(np.array([1.0, np.nan]))
        with pytest.raises(hu.DTypeError, match=r"integers have no derivative.* \[I1\]$"):
            record((2,)).vjp(np.arange(4))
