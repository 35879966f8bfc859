"""Hard max: every tie and NaN rule by hand, windows without cells, and balls that do not decide."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from flint import arb, fmpq
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
from tests import exact
from tests import strategies as draw
from tests.exact import Case, objects

NAN = math.nan
TIES = ("first", "last", "all", "split")


@pytest.mark.parametrize(
    ("ties", "tangent", "cotangents", "index"),
    [
        ("first", 10, [0, 6, 0, 0, 0], 1),
        ("last", 1000, [0, 0, 0, 6, 0], 3),
        ("all", 1110, [0, 6, 6, 6, 0], 1),
        ("split", 370, [0, 2, 2, 2, 0], 1),
    ],
)
def test_ties(ties: str, tangent: int, cotangents: list[int], index: int) -> None:
    op, x = hu.MaxPool((5,), ties=ties), hu.exact([1, 7, 7, 7, 0])
    value, jt = hu.spec.jvp(op, (x,), (hu.exact([1, 10, 100, 1000, 10000]),))
    assert value.tolist() == [7]
    assert jt.tolist() == [tangent]
    assert hu.spec.vjp(op, (x,), hu.exact([6]))[0].tolist() == cotangents
    assert hu.spec.indices(op, x).tolist() == [index]


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("nan", ["propagate", "ignore"])
def test_nan_policies(nan: str, ties: str) -> None:
    op = hu.MaxPool((4,), nan=nan, ties=ties)
    x = np.array([[1.0, NAN, 3.0, NAN], [NAN, NAN, NAN, NAN]])
    winners = [[1, 3] if nan == "propagate" else [2], [0, 1, 2, 3]]
    value = hu.spec.forward(op, x)
    assert np.isnan(value[0, 0]) == (nan == "propagate")
    assert np.isnan(value[1, 0])
    pulled = hu.spec.vjp(op, (x,), np.full((2, 1), 4.0))[0]
    for row, won in zip(pulled, winners, strict=True):
        chosen = {"first": won[:1], "last": won[-1:]}.get(ties, won)
        share = 4.0 / len(won) if ties == "split" else 4.0
        assert row.tolist() == [share if i in chosen else 0.0 for i in range(4)]
    assert hu.spec.indices(op, x).ravel().tolist() == [won[-1] if ties == "last" else won[0] for won in winners]


@pytest.mark.parametrize("ties", TIES)
def test_a_window_without_a_real_cell(ties: str) -> None:
    op = hu.MaxPool((1, 1), padding=1, ties=ties)
    x = np.array([[-5.0]])
    value, jt = hu.spec.jvp(op, (x,), (np.array([[3.0]]),))
    assert value.tolist() == [[0, 0, 0], [0, -5, 0], [0, 0, 0]]
    assert jt.tolist() == [[0, 0, 0], [0, 3, 0], [0, 0, 0]]
    assert hu.spec.vjp(op, (x,), np.full((3, 3), 2.0))[0].tolist() == [[2.0]]
    assert hu.spec.indices(op, x).tolist() == [[-1, -1, -1], [-1, 0, -1], [-1, -1, -1]]


def test_padding_never_wins() -> None:
    assert hu.spec.forward(hu.MaxPool((2,), padding=1, stride=1), np.array([-1.0, -2.0])).tolist() == [-1, -1, -2]


@given(exact.hard_maxima, draw.seeds)
def test_balls_enclose_value_and_derivatives_of_every_point_inside(case: Case, seed: int) -> None:
    """Wide balls overlap, so winners are undecided; whatever points they hide, the results enclose theirs."""
    rng, shape = np.random.default_rng(seed), case.shapes[0]
    assert shape is not None
    size = math.prod(shape)
    middle, radius = rng.integers(-4, 5, size), rng.integers(0, 3, size)
    x = objects([arb(int(m), int(r)) for m, r in zip(middle, radius, strict=True)], shape)
    t, g = (objects([arb(int(v)) for v in rng.integers(-9, 10, math.prod(s))], s) for s in (shape, case.output))
    value, jt = hu.spec.jvp(case.op, (x,), (t,))
    (pulled,) = hu.spec.vjp(case.op, (x,), g)
    for _ in range(4):
        # points on a grid of halves, so that ties happen
        offsets = rng.integers(-2, 3, size) * radius
        point = objects([fmpq(int(2 * m + o), 2) for m, o in zip(middle, offsets, strict=True)], shape)
        tangent, cotangent = (exact.mapped(lambda b: fmpq(int(b.mid().unique_fmpz())), a) for a in (t, g))
        inside = (*hu.spec.jvp(case.op, (point,), (tangent,)), hu.spec.vjp(case.op, (point,), cotangent)[0])
        for outer, inner in zip((value, jt, pulled), inside, strict=True):
            # the true value is a rational with a small denominator; a ball that misses it misses by more than this
            assert all(a.overlaps(arb(b)) for a, b in zip(outer.ravel(), inner.ravel(), strict=True))


def test_undecided_balls_by_hand() -> None:
    x = objects([arb(0, 1), arb(1, 1), arb(-9)], (3,))
    t = objects([arb(10), arb(20), arb(99)], (3,))
    for ties in TIES:
        op = hu.MaxPool((3,), ties=ties)
        value, jt = hu.spec.jvp(op, (x,), (t,))
        assert value[0].contains(0)
        assert value[0].contains(2)
        assert not value[0].contains(-1)  # the maximum of the two is at least 0
        assert jt[0].contains(10)
        assert jt[0].contains(20)
        assert jt[0].contains(30) == (ties == "all")
        assert not jt[0].contains(99)
        (pulled,) = hu.spec.vjp(op, (x,), objects([arb(6)], (1,)))
        assert [p.contains(0) for p in pulled] == [True, True, True]
        assert [p.contains(6) for p in pulled] == [True, True, False]
        assert hu.spec.indices(op, x)[0] in (0, 1)


def test_decided_balls_are_exact() -> None:
    x = objects([arb(0, 0.25), arb(1, 0.25)], (2,))
    for ties in TIES:
        op = hu.MaxPool((2,), ties=ties)
        value, jt = hu.spec.jvp(op, (x,), (objects([arb(10), arb(20)], (2,)),))
        assert value[0] is x[1]
        assert jt[0] == 20
        assert hu.spec.vjp(op, (x,), objects([arb(6)], (1,)))[0].tolist() == [0, 6]
        tie = objects([arb(3), arb(3)], (2,))
        assert (
            hu.spec.vjp(op, (tie,), objects([arb(6)], (1,)))[0].tolist()
            == {
                "first": [6, 0],
                "last": [0, 6],
                "all": [6, 6],
                "split": [3, 3],
            }[ties]
        )


def test_nan_among_balls() -> None:
    x = objects([arb("nan"), arb(1, 1), arb(2, 1)], (3,))
    assert hu.spec.forward(hu.MaxPool((3,)), x)[0].is_nan()
    assert hu.spec.forward(hu.MaxPool((3,), nan="ignore"), x)[0].contains(2)


@given(exact.hard_maxima, draw.seeds, st.integers(1, 5))
def test_all_is_split_times_the_number_of_winners(case: Case, seed: int, scale: int) -> None:
    rng, shape = np.random.default_rng(seed), case.shapes[0]
    assert shape is not None
    x = exact.rationals(rng, shape, spread=1)
    everyone, shared = (replace(case.op, ties=ties) for ties in ("all", "split"))
    ones: Any = exact.mapped(lambda _: fmpq(scale), x)
    counts = hu.spec.jvp(everyone, (x,), (ones,))[1]
    t = exact.rationals(rng, shape)
    summed, mean = (hu.spec.jvp(op, (x,), (t,))[1] for op in (everyone, shared))
    assert all(s == m * c / scale for s, m, c in zip(summed.ravel(), mean.ravel(), counts.ravel(), strict=True))
