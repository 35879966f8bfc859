"""Floats in the specification: the exact value rounded once, bit for bit as a second implementation has it."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
from tests import exact, miniature
from tests import strategies as draw
from tests.exact import Case
from tests.miniature import term, total
from tests.strategies import assert_same_bits

NAN, INF = math.nan, math.inf
every_pool = st.one_of(exact.max_pools, exact.min_pools, exact.avg_pools, exact.bin_cases())


def planes(array: Any, count: int) -> list[list[float]]:
    return np.asarray(array, dtype=np.float64).reshape(count, -1).tolist() if count else []


def packed(rows: list[list[float]], shape: tuple[int, ...], dtype: Any) -> Any:
    return np.array([v for row in rows for v in row], np.float64).astype(dtype).reshape(shape)


@given(every_pool, draw.float_dtypes, draw.seeds)
def test_pooling(case: Case, dtype: Any, seed: int) -> None:
    rng, op = np.random.default_rng(seed), case.op
    shape = case.shapes[0]
    assert shape is not None
    x, t, g = (draw.random_array(rng, s, dtype) for s in (shape, shape, case.output))
    spatial, leading = shape[len(shape) - op.ndim :], shape[: len(shape) - op.ndim]
    pool, count = miniature.Pool.of(op, spatial), math.prod(leading)
    xs, ts, gs = (planes(a, count) for a in (x, t, g))
    output, jt = hu.spec.jvp(op, (x,), (t,))
    (pulled,) = hu.spec.vjp(op, (x,), g)
    assert_same_bits(hu.spec.forward(op, x), output, "forward and jvp")
    assert_same_bits(
        output, packed([miniature.pool_forward(op, p, pool, dtype) for p in xs], case.output, dtype), "value"
    )
    rows = [miniature.pool_jvp(op, p, q, pool, dtype) for p, q in zip(xs, ts, strict=True)]
    assert_same_bits(jt, packed(rows, case.output, dtype), "jvp")
    rows = [miniature.pool_vjp(op, p, q, pool, dtype) for p, q in zip(xs, gs, strict=True)]
    assert_same_bits(pulled, packed(rows, shape, dtype), "vjp")


@given(exact.convolutions(), draw.float_dtypes, draw.seeds)
def test_convolution(case: Case, dtype: Any, seed: int) -> None:
    rng, op = np.random.default_rng(seed), case.op
    x, w, b = (None if s is None else draw.random_array(rng, s, dtype) for s in case.shapes)
    dx, dw, db = (None if s is None else draw.random_array(rng, s, dtype) for s in case.shapes)
    assert x is not None
    assert w is not None
    absent = rng.integers(4)  # a tangent that is not there has no terms
    dx, dw = (None if absent == 1 else dx), (None if absent == 2 else dw)
    g = draw.random_array(rng, case.output, dtype)
    output, jt = hu.spec.jvp(op, (x, w, b), (dx, dw, db))
    expected = miniature_convolution(case, (x, w, b), (dx, dw, db), g, dtype)
    found = (output, jt, *hu.spec.vjp(op, (x, w, b), g))
    for name, actual, wanted in zip(("value", "jvp", "dx", "dweight", "dbias"), found, expected, strict=True):
        assert (actual is None) == (wanted is None)
        if actual is not None and wanted is not None:
            assert_same_bits(actual, wanted, name)


def miniature_convolution(case: Case, primals: Any, tangents: Any, g: Any, dtype: Any) -> tuple[Any, ...]:
    """(value, JVP, dx, dweight, dbias), each one rounded sum of terms per cell."""
    op, ndim = case.op, case.op.ndim
    x, w, b = primals
    dx, dw, db = tangents
    samples = [()] if x.ndim == ndim + 1 else [(n,) for n in range(x.shape[0])]
    places: dict[str, dict[tuple[int, ...], list[Any]]] = {name: {} for name in ("value", "jvp", "dx", "dw", "db")}

    def add(name: str, place: tuple[int, ...], *factors: Any) -> None:
        places[name].setdefault(place, []).append(term(*map(float, factors)))

    single = [None if s is None else s[len(s) - ndim - 1 :] for s in (x.shape, case.output)]
    walk = miniature.links(op, single[0], w.shape, single[1]) if samples else []
    for n in samples:
        for out, tap, cell in walk:
            add("value", n + out, w[tap], x[n + cell])
            add("dx", n + cell, w[tap], g[n + out])
            add("dw", tap, x[n + cell], g[n + out])
            if dx is not None:
                add("jvp", n + out, w[tap], dx[n + cell])
            if dw is not None:
                add("jvp", n + out, dw[tap], x[n + cell])
    for place in np.ndindex(*case.output):
        channel = place[len(place) - ndim - 1]
        for name, array in (("value", b), ("jvp", db)):
            if array is not None:
                add(name, place, array[channel])
        add("db", (channel,), g[place])
    shapes = {
        "value": case.output,
        "jvp": case.output,
        "dx": x.shape,
        "dw": w.shape,
        "db": None if b is None else b.shape,
    }
    return tuple(
        None
        if shape is None
        else packed([[total(places[name].get(i, []), dtype) for i in np.ndindex(*shape)]], shape, dtype)
        for name, shape in shapes.items()
    )


@given(exact.hard_maxima, draw.integer_dtypes, draw.seeds)
def test_a_hard_max_of_integers(case: Case, dtype: Any, seed: int) -> None:
    op, shape = case.op, case.shapes[0]
    assert shape is not None
    x = draw.random_array(np.random.default_rng(seed), shape, dtype)
    pool = miniature.Pool.of(op, shape[len(shape) - op.ndim :])
    count = math.prod(shape[: len(shape) - op.ndim])
    rows = x.reshape(count, -1).tolist() if count else []
    best: Any = min if isinstance(op, (hu.MinPool, hu.GlobalMinPool)) else max
    expected = [best((row[i] for i in cells), default=0) for row in rows for cells, _ in pool.windows]
    found = hu.spec.forward(op, x)
    assert found.dtype == x.dtype
    assert found.ravel().tolist() == expected
    assert hu.spec.indices(op, x).dtype == np.int64


def one(op: Any, *cells: float, dtype: Any = np.float32) -> str:
    """The value of one window of these cells, as text: it shows the sign of zero."""
    return str(hu.spec.forward(op, np.array(cells, dtype)).ravel()[0])


AVG2, AVG3 = hu.AvgPool((2,)), hu.AvgPool((3,))
SUM2, SUM3 = hu.AvgPool((2,), divisor_override=1), hu.AvgPool((3,), divisor_override=1)


@pytest.mark.parametrize(
    ("op", "cells", "text"),
    [
        (SUM2, (NAN, 1), "nan"),
        (SUM2, (INF, -INF), "nan"),
        (SUM2, (INF, 1), "inf"),
        (SUM2, (-INF, 3e38), "-inf"),
        (SUM2, (0.0, -0.0), "0.0"),
        (SUM2, (-0.0, -0.0), "-0.0"),
        (SUM2, (1, -1), "0.0"),
        (hu.AvgPool((2,), divisor_override=-2), (1, -1), "-0.0"),
        (hu.AvgPool((2,), divisor_override=-2), (-0.0, -0.0), "0.0"),
        (hu.AvgPool((2,), padding=1, stride=3), (-0.0, 1), "0.0"),  # a padded +0 is a term
        (hu.AvgPool((2,), padding=1, stride=3, count_include_pad=False), (-0.0, 1), "-0.0"),
        (SUM2, (3.4028235e38, 3.4028235e38), "inf"),
        (SUM3, (3.4028235e38, 3.4028235e38, -3.4028235e38), "3.4028235e+38"),  # no overflow on the way
        (SUM2, (3.4028235e38, 2.0**102), "3.4028235e+38"),  # below half an ulp
        (SUM2, (3.4028235e38, 2.0**103), "inf"),  # the tie goes to the even one, which is infinity
        (SUM2, (1, 2.0**-24), "1.0"),  # a tie, to even
        (SUM2, (1 + 2.0**-23, 2.0**-24), "1.0000002"),  # a tie, to even
        (SUM3, (1, 2.0**-24, 2.0**-149), "1.0000001"),  # above the tie by the smallest subnormal
        (AVG2, (2.0**-149, 0), "0.0"),  # half of the smallest subnormal: a tie, to even
        (AVG2, (-(2.0**-149), 0), "-0.0"),
        (AVG2, (2.0**-149, 2.0**-148), "3e-45"),
        (AVG3, (1, 1, 2.0**-60), "0.6666667"),
    ],
)
def test_one_window(op: Any, cells: tuple[float, ...], text: str) -> None:
    assert one(op, *cells) == text


def test_zeros_of_a_hard_max_are_those_of_the_winner() -> None:
    assert one(hu.MaxPool((2,)), 0.0, -0.0) == "0.0"
    assert one(hu.MaxPool((2,)), -0.0, 0.0) == "-0.0"
    assert one(hu.MaxPool((2,), ties="last"), -0.0, 0.0) == "0.0"


@pytest.mark.parametrize("dtype", draw.FLOATS)
def test_overflow_at_the_last_addition(dtype: Any) -> None:
    largest = float(ml_dtypes.finfo(dtype).max)
    gap = largest - float(np.nextafter(np.array(largest, dtype), np.array(0, dtype)))
    x = np.array([largest, gap / 2], dtype)
    assert float(hu.spec.forward(SUM2, x)[0]) == INF
    x = np.array([largest, float(np.nextafter(np.array(gap / 2, dtype), np.array(0, dtype)))], dtype)
    assert float(hu.spec.forward(SUM2, x)[0]) == largest


def test_padding_of_a_convolution_is_no_term() -> None:
    x, weight = np.array([[-0.0, 1.0]]), np.array([[[INF, 1.0]]])
    op = hu.Conv(1, padding=((1, 0),))
    assert str(hu.spec.forward(op, x, weight)) == "[[-0. nan]]"  # inf over padding does not count; inf * -0 does
    assert str(hu.spec.forward(op, x, np.array([[[1.0, 0.0]]]))) == "[[-0.  0.]]"


def test_rationals_of_different_divisors_meet_before_the_rounding() -> None:
    """g / 1 + g / 2 + ... over windows clipped at the border, rounded once."""
    op = hu.AvgPool((3,), stride=1, padding=1, count_include_pad=False)
    x = np.zeros(3, np.float32)
    g = np.array([1, 1, 1], np.float32)
    # the middle cell lies in windows of 2, 3 and 2 cells: 1/2 + 1/3 + 1/2
    expected = np.array([5 / 6, 4 / 3, 5 / 6]).astype(np.float32)
    assert_same_bits(hu.spec.vjp(op, (x,), g)[0], expected)
