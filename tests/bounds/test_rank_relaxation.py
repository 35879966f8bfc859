"""Planes around medians and modes, in rationals, at vertices and at other points of the box."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import fmpq
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
import halfulp.bounds as hb
from halfulp.bounds._exact_planes import rank_biases, rank_ends
from halfulp.bounds._network import Node
from halfulp.bounds._rank_relaxation import rank_planes, rank_range
from tests.bounds.test_max_relaxation import boxes


def value(function: str, cells: list[Fraction]) -> Fraction:
    order = sorted(cells)
    if function == "mode":
        return max(order, key=lambda v: (order.count(v), -v))
    return (order[(len(order) - 1) // 2] + order[len(order) // 2]) / 2


def bounded(function: str) -> Node:
    return Node("pool", "rank", (0,), (1,), function=function)


@pytest.mark.parametrize("function", ["median", "mode"])
@given(boxes(), st.integers(0, 2**32 - 1))
def test_planes_and_ranges_hold_exactly(function: str, box: tuple[Any, Any, Any], seed: int) -> None:
    low, high, real = box
    with np.errstate(all="ignore"):
        planes, ends = rank_planes(low, high, real, function), rank_range(low, high, real, function)
    if not real.any():
        assert not any(np.asarray(part).any() for part in (*planes, *ends))
        return
    rng = np.random.default_rng(seed)
    lines = [[Fraction(v) for v in column[real].tolist()] for column in (low, high, *planes[::2])]
    biases, limits = ([Fraction(float(v)) for v in pair] for pair in (planes[1::2], ends))
    for kind in range(24):
        shares = [Fraction(int(v), 4) for v in rng.integers(0, 5, size=len(lines[0]))]
        shares = [Fraction(round(s)) for s in shares] if kind % 2 else shares
        x = [a + (b - a) * s for a, b, s in zip(*lines[:2], shares, strict=True)]
        at = value(function, x)
        below, above = (
            sum((s * v for s, v in zip(slopes, x, strict=True)), bias)
            for slopes, bias in zip(lines[2:], biases, strict=True)
        )
        assert below <= at <= above
        assert limits[0] <= at <= limits[1]


@pytest.mark.parametrize("function", ["median", "mode"])
@given(boxes())
def test_the_checker_accepts_the_biases(function: str, box: tuple[Any, Any, Any]) -> None:
    low, high, real = box
    with np.errstate(all="ignore"):
        planes = rank_planes(low, high, real, function)
    columns = [[fmpq(*v.as_integer_ratio()) for v in column[real].tolist()] for column in (low, high, *planes[::2])]
    least, most = rank_biases(bounded(function), list(zip(*columns, strict=True)))
    assert least >= fmpq(*float(planes.lower_bias).as_integer_ratio())
    assert most <= fmpq(*float(planes.upper_bias).as_integer_ratio())


def test_slopes_that_prove_nothing_are_refused() -> None:
    cells = [(fmpq(0), fmpq(1), fmpq(0), fmpq(2))]
    with pytest.raises(hu.CertificateError, match=r"slopes of node 'pool': must be >= 0 and sum to at most 1 \[V7\]"):
        rank_biases(bounded("median"), cells)
    assert rank_ends(bounded("median"), [fmpq(1), fmpq(4)]) == (fmpq(5, 2), fmpq(5, 2))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_halfulp_intervals_of_a_median_are_the_rounded_exact_range(dtype: str) -> None:
    rng = np.random.default_rng(3)
    op = hu.MedianPool((2, 3), stride=1, padding=((1, 0), (1, 1)))
    for _ in range(20):
        low = rng.normal(size=(5, 6)).astype(dtype)
        high = (low + rng.random((5, 6)).astype(dtype)).astype(dtype)
        network = hb.from_function(op, (5, 6), dtype)
        found = hb.bounds(network, hb.Box(low, high), "ibp", "halfulp")
        for end, wanted in ((found.lower, low), (found.upper, high)):
            exactly = hu.rounded(hu.spec.forward(op, hu.exact(wanted)), dtype)
            assert np.array_equal(end.astype(dtype), exactly)


@pytest.mark.parametrize("record", [hu.AvgPool((2,)), hu.SumPool((2,)), hu.AdaptiveAvgPool((2,)), hu.GlobalAvgPool(1)])
def test_averages_with_fields_of_arrays_are_bounded_or_refused_by_name(record: Any) -> None:
    from dataclasses import replace

    box = hb.Box([-1.0, 0, 0, 2], [1.0, 2, 0.5, 3])
    plain = hb.bounds(hb.from_function(record, (4,)), box)
    for changed in (replace(record, nan="ignore"), replace(record, dtype="same")):
        found = hb.bounds(hb.from_function(changed, (4,)), box)
        assert np.array_equal(found.lower, plain.lower)
        assert np.array_equal(found.upper, plain.upper)
        assert hb.replay(found.certificate, hb.from_function(changed, (4,))).endswith("proved exactly")
    other = replace(record, dtype=np.dtype(np.float64))
    with pytest.raises(hu.ModelError, match=rf"{record.name} dtype=.*must be None or 'same'"):
        hb.from_function(other, (4,))
