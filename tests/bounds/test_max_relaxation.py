"""The planes around a maximum, in rationals: the upper one at every vertex, the lower one as a convex combination."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from halfulp.bounds._max_relaxation import MAX_RELAXATIONS, Planes, convex_weights, max_planes, max_upper_planes

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

NAMES = sorted(MAX_RELAXATIONS)
TINY, HUGE = 5e-324, 1.7976931348623157e308
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.1,
    1 / 3,
    TINY,
    -TINY,
    1e-310,
    2.0**-1022,
    HUGE,
    -HUGE,
    1e300,
    1e-300,
    np.nextafter(1, 2),
]

grid = st.integers(-4, 4).map(float)
any_float = st.floats(allow_nan=False, allow_infinity=False)
number = st.one_of(grid, st.sampled_from(SPECIAL), st.floats(-2, 2), any_float)


@st.composite
def boxes(draw: st.DrawFn) -> tuple[Floats, Floats, Flags]:
    """A window of up to nine cells: equal, nested, degenerate and disjoint intervals, absent cells."""
    cells = draw(st.integers(1, 9))
    kind = draw(st.sampled_from([grid, st.floats(-2, 2), number]))
    low, high = [], []
    for _ in range(cells):
        if low and draw(st.integers(0, 4)) == 0:
            ends = [draw(st.sampled_from(low)), draw(st.sampled_from(high))]
        else:
            ends = [draw(kind), draw(kind)]
        if draw(st.integers(0, 5)) == 0:
            ends[1] = ends[0]
        low.append(min(ends))
        high.append(max(ends))
    real = draw(st.lists(st.integers(0, 5).map(bool), min_size=cells, max_size=cells))
    return np.array(low), np.array(high), np.array(real)


def rational(values: Floats) -> list[Fraction]:
    return [Fraction(float(value)) for value in np.atleast_1d(values)]


def plane(slope: Floats, bias: Floats, point: tuple[Fraction, ...]) -> Fraction:
    return sum((s * x for s, x in zip(rational(slope), point, strict=True)), Fraction(float(bias)))


def assert_upper_holds(slope: Floats, bias: Floats, low: Floats, high: Floats, real: Flags) -> None:
    """At every vertex: maximum - plane is convex, so its largest value over the box is at one of them."""
    assert not slope[~real].any()
    slope, low, high = slope[real], low[real], high[real]
    used = [i for i in range(len(low)) if slope[i] or low[i] != high[i]]
    fixed = [i for i in range(len(low)) if i not in used]
    floor = [Fraction(float(high[i])) for i in fixed]
    ends = [sorted({Fraction(float(low[i])), Fraction(float(high[i]))}) for i in used]
    slopes = rational(slope[used])
    for vertex in itertools.product(*ends):
        value = Fraction(float(bias)) + sum((s * x for s, x in zip(slopes, vertex, strict=True)), Fraction(0))
        assert value >= max(itertools.chain(vertex, floor))


def assert_lower_holds(slope: Floats, bias: Floats, real: Flags) -> None:
    """Weights >= 0 that sum to 1: then max x >= w · x everywhere."""
    assert not slope[~real].any()
    assert (slope >= 0).all()
    assert sum(rational(slope)) == 1
    assert bias == 0


def assert_sound(planes: Planes, low: Floats, high: Floats, real: Flags) -> None:
    if real.any():
        assert_lower_holds(planes.lower_slope, planes.lower_bias, real)
        assert_upper_holds(planes.upper_slope, planes.upper_bias, low, high, real)
    else:
        assert not any(np.asarray(part).any() for part in planes)


@pytest.mark.parametrize("choose", NAMES)
@given(boxes())
def test_planes_hold_exactly(choose: str, box: tuple[Floats, Floats, Flags]) -> None:
    assert_sound(max_planes(*box, choose=choose), *box)


@given(boxes(), number)
def test_every_threshold_is_sound(box: tuple[Floats, Floats, Flags], threshold: float) -> None:
    low, high, real = box
    slope, bias = max_upper_planes(low, high, real, np.array(threshold))
    if real.any():
        assert_upper_holds(slope, bias, low, high, real)


def test_the_vertex_check_can_fail() -> None:
    low, high, real = np.zeros(3), np.array([1.0, 2.0, 3.0]), np.ones(3, dtype=bool)
    planes = max_planes(low, high, real)
    with pytest.raises(AssertionError):
        assert_upper_holds(planes.upper_slope, np.nextafter(planes.upper_bias, -np.inf), low, high, real)


@given(boxes(), st.integers(0, 2**32 - 1))
def test_planes_hold_inside_the_box(box: tuple[Floats, Floats, Flags], seed: int) -> None:
    low, high, real = box
    if not real.any():
        return
    planes = max_planes(low, high, real)
    generator = np.random.default_rng(seed)
    for _ in range(8):
        parts = [Fraction(int(k), 64) for k in generator.integers(0, 65, len(low))]
        point = tuple(a + t * (b - a) for a, b, t in zip(rational(low), rational(high), parts, strict=True))
        value = max(x for x, there in zip(point, real, strict=True) if there)
        assert plane(planes.lower_slope, planes.lower_bias, point) <= value
        assert value <= plane(planes.upper_slope, planes.upper_bias, point)


@pytest.mark.parametrize("choose", NAMES)
def test_a_single_winner_is_exact(choose: str) -> None:
    low, high = np.array([0.1, 0.7, -3.0, 9.0]), np.array([0.7, 0.9, 0.2, 9.5])
    planes = max_planes(low, high, np.array([True, True, True, False]), choose)
    for slope, bias in ((planes.lower_slope, planes.lower_bias), (planes.upper_slope, planes.upper_bias)):
        assert slope.tolist() == [0.0, 1.0, 0.0, 0.0]
        assert bias == 0


@pytest.mark.parametrize("choose", NAMES)
def test_degenerate_windows(choose: str) -> None:
    """All cells are the same point, two of them; a window without a cell; one cell."""
    point = np.array([0.1, 0.1, 0.1])
    planes = max_planes(point, point, np.ones(3, dtype=bool), choose)
    assert sum(rational(planes.upper_slope)) == sum(rational(planes.lower_slope)) == 1
    assert planes.upper_bias == planes.lower_bias == 0
    empty = max_planes(np.full(3, np.nan), np.full(3, np.nan), np.zeros(3, dtype=bool), choose)
    assert [np.asarray(part).any() for part in empty] == [False] * 4
    one = max_planes(np.array([-1.0]), np.array([1.0]), np.array([True]), choose)
    assert one.upper_slope.tolist() == one.lower_slope.tolist() == [1.0]
    assert one.upper_bias == one.lower_bias == 0


@given(boxes())
def test_best_has_the_least_mean_gap(box: tuple[Floats, Floats, Flags]) -> None:
    """At the midpoint no upper plane is below (u1 + u2) / 2, and no lower one above the largest middle."""
    low, high, real = box
    spread = np.abs(np.concatenate([low, high]))
    if not real.any() or spread.max() > 1e6 or spread.max() < 1e-6:
        return
    middle = low / 2 + high / 2
    slack = 1e-13 * spread.max()

    def means(planes: Planes) -> tuple[float, float]:
        shown = np.where(real, middle, 0.0)
        return float(planes.lower_slope @ shown), float(planes.upper_slope @ shown + planes.upper_bias)

    best_lower, best_upper = means(max_planes(low, high, real))
    for choose in NAMES:
        lower, upper = means(max_planes(low, high, real, choose))
        assert best_lower >= lower - slack
        assert best_upper <= upper + slack
    planes = max_planes(low, high, real)
    if np.count_nonzero(planes.upper_slope == 1) != 1 or planes.upper_bias != 0:
        first, second = np.sort(high[real])[::-1][:2]
        assert best_upper <= first / 2 + second / 2 + slack
    assert best_lower >= middle[real].max() - slack


def test_known_planes() -> None:
    low, high, real = np.array([0.0, 0.0, 0.0]), np.array([4.0, 3.0, 1.0]), np.ones(3, dtype=bool)
    expected = {
        "deeppoly": ([0.0, 0.0, 0.0], 4.0, [1.0, 0.0, 0.0]),
        "maxlin": ([0.25, 0.0, 0.0], 3.0, [1.0, 0.0, 0.0]),
        "tilin": ([0.75, 2 / 3, 0.0], 1.0, [1.0, 0.0, 0.0]),
        "best": ([0.625, 0.5, 0.0], 1.5, [1.0, 0.0, 0.0]),
    }
    for choose, (slope, bias, weights) in expected.items():
        planes = max_planes(low, high, real, choose)
        assert planes.upper_slope.tolist() == slope
        assert planes.upper_bias == pytest.approx(bias, rel=1e-15)
        assert planes.lower_slope.tolist() == weights


def test_cnn_cert_slopes_sum_to_one() -> None:
    low, high = np.array([0.0, 0.0]), np.array([1.0, 1.0])
    planes = max_planes(low, high, np.array([True, True]), "cnn-cert")
    assert planes.upper_slope.tolist() == [0.5, 0.5]
    assert planes.upper_bias == 0.5
    assert planes.lower_slope.tolist() == [0.5, 0.5]


def test_many_windows_at_once_equal_one_by_one() -> None:
    generator = np.random.default_rng(3)
    ends = generator.normal(size=(2, 5, 4, 9))
    low, high = ends.min(axis=0), ends.max(axis=0)
    real = generator.random((5, 4, 9)) < 0.7
    for choose in NAMES:
        together = max_planes(low, high, real, choose)
        for index in np.ndindex(5, 4):
            alone = max_planes(low[index], high[index], real[index], choose)
            for all_parts, part in zip(together, alone, strict=True):
                np.testing.assert_array_equal(all_parts[index], part)


def test_values_near_overflow_stay_finite() -> None:
    low, high = np.array([-HUGE, -HUGE, 1.0]), np.array([HUGE, HUGE, 1.0])
    for choose in NAMES:
        planes = max_planes(low, high, np.ones(3, dtype=bool), choose)
        assert all(np.isfinite(part).all() for part in planes)
        assert_sound(planes, low, high, np.ones(3, dtype=bool))


@given(st.lists(st.floats(0, 1e300), min_size=1, max_size=20))
def test_convex_weights_sum_to_one(given_weights: list[float]) -> None:
    weights = convex_weights(np.array(given_weights), np.ones(len(given_weights), dtype=bool))
    assert (weights >= 0).all()
    assert sum(rational(weights)) == 1
    total = sum(Fraction(w) for w in given_weights)
    if total:
        shares = [Fraction(w) / total for w in given_weights]
        assert all(abs(a - b) < Fraction(1, 2**30) for a, b in zip(shares, rational(weights), strict=True))


def test_large_windows() -> None:
    generator = np.random.default_rng(5)
    low = generator.normal(size=5000)
    high = low + 1.0
    planes = max_planes(low, high, np.ones(5000, dtype=bool))
    assert sum(rational(planes.lower_slope)) == 1
    low[:] = 0.0
    high[:] = 1.0
    planes = max_planes(low, high, np.ones(5000, dtype=bool))
    assert sum(rational(planes.lower_slope)) == 1
    assert planes.upper_bias == 1.0
    assert not planes.upper_slope.any()
