"""Planes around a maximum of cells that depend on each other, in rationals, at every vertex of the inputs."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
import halfulp.bounds as hb
from halfulp import ops
from halfulp.bounds._difference_relaxation import box_gaps, difference_planes, remaining
from halfulp.bounds._exact_planes import window_biases
from halfulp.numbers import exact
from tests.bounds.test_max_relaxation import assert_sound, boxes

INPUTS = 3
small = st.integers(-6, 6)


@st.composite
def windows(draw: st.DrawFn) -> tuple[Any, Any]:
    """Cells x = a z + b of up to nine cells, z in [-1, 1] each, with equal, nested and constant cells; 1/8 steps."""
    cells = draw(st.integers(1, 9))
    rows = []
    for _ in range(cells):
        if rows and draw(st.integers(0, 3)) == 0:
            row = list(draw(st.sampled_from(rows)))
            row[-1] += draw(st.sampled_from([0, 0, 1, -8]))
        else:
            row = [draw(small) for _ in range(INPUTS + 1)]
            if draw(st.integers(0, 5)) == 0:
                row[:-1] = [0] * INPUTS
        rows.append(row)
    table = np.array(rows, dtype=np.float64) / 8
    return table[:, :-1], table[:, -1]


def described(a: Any, b: Any) -> tuple[Any, Any, Any]:
    """Bounds of the cells and of their differences, exact in float64."""
    reach = np.abs(a).sum(axis=1)
    gaps = (b[:, None] - b) + np.abs(a[:, None] - a).sum(axis=-1)
    return b - reach, b + reach, np.where(np.eye(len(b)) > 0, 0.0, gaps)


def vertices(a: Any, b: Any) -> list[list[Fraction]]:
    lines = [[Fraction(v) for v in (*row, c)] for row, c in zip(a.tolist(), b.tolist(), strict=True)]
    corners = itertools.product((-1, 1), repeat=INPUTS)
    return [[sum((p * z for p, z in zip(line, (*z, 1), strict=True)), Fraction(0)) for line in lines] for z in corners]


@given(windows(), st.booleans())
def test_planes_hold_exactly_at_every_vertex(window: tuple[Any, Any], loose: bool) -> None:
    low, high, gaps = described(*window)
    gaps = np.where(np.arange(gaps.size).reshape(gaps.shape) % 3 == 0, np.inf, gaps) if loose else gaps
    planes = difference_planes(low, high, np.ones(len(low), dtype=bool), gaps)
    above, below = ([Fraction(v) for v in s.tolist()] for s in (planes.upper_slope, planes.lower_slope))
    assert sum(below) == 1
    assert min(below) >= 0
    assert planes.lower_bias == 0
    for cells in vertices(*window):
        plane = sum((s * x for s, x in zip(above, cells, strict=True)), Fraction(float(planes.upper_bias)))
        assert plane >= max(cells)
        assert sum((s * x for s, x in zip(below, cells, strict=True)), Fraction(0)) <= max(cells)


@given(boxes())
def test_without_differences_the_box_remains(box: tuple[Any, Any, Any]) -> None:
    low = box[0]
    assert_sound(difference_planes(*box, np.full((len(low), len(low)), np.inf)), *box)


@given(windows())
def test_the_checker_accepts_the_bias(window: tuple[Any, Any]) -> None:
    low, high, gaps = described(*window)
    planes = difference_planes(low, high, np.ones(len(low), dtype=bool), gaps)
    columns = [exact(np.asarray(v)).tolist() for v in (low, high, planes.lower_slope, planes.upper_slope)]
    known = {(k, j): exact(gaps)[k, j] for k, j in itertools.permutations(range(len(low)), 2)}
    least, most = window_biases(list(zip(*columns, strict=True)), known)
    assert least >= 0
    assert most <= exact(np.asarray(planes.upper_bias)[None])[0]


def test_the_vertex_check_can_fail() -> None:
    low, high, gaps = described(np.array([[1.0, 0, 0], [-1.0, 0, 0]]), np.zeros(2))
    planes = difference_planes(low, high, np.ones(2, dtype=bool), gaps)
    assert float(planes.upper_bias) == 1.0
    assert (planes.upper_slope @ np.array([1.0, -1.0])) + np.nextafter(planes.upper_bias, 0) < 1.0


def test_cells_that_are_equal_leave_one() -> None:
    assert remaining(np.zeros((3, 3)), np.ones(3, dtype=bool)).tolist() == [False, False, True]
    cycle = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])  # 0 <= 1 <= 2 <= 0
    assert remaining(cycle, np.ones(3, dtype=bool)).any()


def test_a_shifted_copy_is_dominated_and_the_maximum_exact() -> None:
    """x, x - 1/4: the boxes overlap, the difference does not."""
    low, high, gaps = described(np.array([[1.0, 0, 0], [1.0, 0, 0]]), np.array([0.0, -0.25]))
    assert (box_gaps(low, high, np.ones(2, dtype=bool)) > 0).sum() == 2
    planes = difference_planes(low, high, np.ones(2, dtype=bool), gaps)
    assert planes.upper_slope.tolist() == [1.0, 0.0]
    assert float(planes.upper_bias) == 0.0


@pytest.mark.parametrize("arithmetic", ["real", "halfulp", "any-order"])
def test_pooling_behind_a_convolution_is_tighter_and_its_certificate_replays(arithmetic: str) -> None:
    rng = np.random.default_rng(5)
    kernel = rng.normal(size=(3, 1, 3, 3)).astype(np.float32)
    full = rng.normal(size=(2, 48)).astype(np.float32)

    def function(x: Any) -> Any:
        x = hu.max_pool2d(ops.relu(hu.conv2d(x, kernel, padding=1)), 3, 2, 1)
        return ops.linear(ops.reshape(x, (48,)), full)

    network = hb.from_function(function, (1, 8, 8))
    box = hb.Box.around(rng.normal(size=(1, 8, 8)), 0.125)
    wide = hb.bounds(network, box, "crown", arithmetic, relaxation="maxlin")
    found = hb.bounds(network, box, "crown", arithmetic)
    assert ((found.upper - found.lower) < 0.99 * (wide.upper - wide.lower)).all()
    content = found.certificate.content
    assert content["root"]["differences"]
    assert hb.replay(found.certificate, network).endswith("proved exactly")
    claim = next(iter(content["root"]["differences"].values()))
    claim["values"][0] = (float.fromhex(claim["values"][0]) - 0.5).hex()
    with pytest.raises(hu.CertificateError, match=r"of cells \(\d+, \d+\) below node 'max_pool2d': is not proved"):
        hb.replay(_resealed(content), network)


def _resealed(content: dict[str, Any]) -> hb.Certificate:
    from halfulp.bounds._certificate import sealed

    return sealed({k: v for k, v in content.items() if k != "checksum"})
