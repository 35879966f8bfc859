"""Normalisation and softmax of float32 in double against the same cells as float64, which take pairs of doubles.

Rounding a float64 result to float32 is rounding the exact one, unless it lies within 2^-53 of a boundary: none of the
fixed cells here does. Every path in double is met on each instruction set: planes, rows, channels-last, columns, tails.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import halfulp as hu
from halfulp import _core

NORMS: list[tuple[Any, tuple[int, ...]]] = [
    (hu.LayerNorm((1,)), (3, 1)),
    (hu.LayerNorm((7,)), (19, 7)),
    (hu.LayerNorm((65,)), (33, 65)),
    (hu.LayerNorm((768,)), (41, 768)),
    (hu.LayerNorm((3, 11)), (2, 9, 3, 11)),
    (hu.GroupNorm(3), (4, 6, 5, 7)),
    (hu.GroupNorm(2), (3, 64, 9)),
    (hu.InstanceNorm(), (4, 5, 13, 11)),
    (hu.BatchNorm(True), (9, 5, 14, 14)),
    (hu.BatchNorm(True), (3, 2, 700)),
    (hu.BatchNorm(True), (130, 37)),
    (hu.BatchNorm(True), (50, 8)),
    (hu.BatchNorm(), (5, 7, 12, 12)),
    (hu.BatchNorm(), (40, 19)),
]
AXES = [
    ((10, 1000), -1),
    ((7, 128), -1),
    ((30, 17), 0),
    ((5, 33, 21), 1),
    ((3, 200, 16), 1),
    ((6, 5), -1),
    ((4, 1), -1),
]


@pytest.fixture(params=_core.available_isas())
def isa(request: Any) -> Iterator[str]:
    """Every instruction set that this machine has, one after the other."""
    before = _core.get_isa()
    _core.set_isa(request.param)
    yield request.param
    _core.set_isa(before)


def same(a: Any, b: Any) -> bool:
    return bool(np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes())


def wide(arrays: Any) -> tuple[Any, ...]:
    return tuple(None if a is None else a.astype(np.float64) for a in arrays)


def cotangents(rng: np.random.Generator, shape: Any) -> Iterator[Any]:
    normal = rng.standard_normal(shape).astype(np.float32)
    yield normal
    yield np.where(rng.random(shape) < 0.8, np.float32(0), normal)
    yield np.full(shape, 0.3, np.float32)
    yield (normal * 2.0**-130).astype(np.float32)


def drawn(op: Any, shape: Any, rng: np.random.Generator, offset: float) -> tuple[Any, ...]:
    weight = op.weight_shape(shape)
    x = (rng.standard_normal(shape) + offset).astype(np.float32)
    w, b = (rng.standard_normal(weight).astype(np.float32) for _ in range(2))
    w.flat[0], b.flat[0] = 0.0, 0.0
    if isinstance(op, hu.BatchNorm) and not op.training:
        return x, w, b, w * 3, np.abs(b) + np.float32(0.1)
    return x, w, b


def layouts(op: Any, x: Any) -> list[Any]:
    if not isinstance(op, hu.BatchNorm) or x.ndim < 3:
        return [x]
    return [x, np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)]


@pytest.mark.parametrize(("op", "shape"), NORMS, ids=str)
def test_norms_in_double_have_the_bits_of_pairs(op: Any, shape: Any, isa: str) -> None:
    rng = np.random.default_rng(5)
    for offset in (0.0, 300.0):
        x, *others = drawn(op, shape, rng, offset)
        exact, exact_pull = op.vjp(*wide((x, *others)))
        tangents = tuple(rng.standard_normal(a.shape).astype(np.float32) for a in (x, *others[:2]))
        pushed = op.jvp(wide((x, *others)), wide(tangents))[1]
        gs = list(cotangents(rng, shape))
        pulled = [exact_pull(g.astype(np.float64))[:3] for g in gs]
        for view in layouts(op, x):
            value, pull = op.vjp(view, *others)
            assert same(value, exact.astype(np.float32))
            assert same(op.jvp((view, *others), tangents)[1], pushed.astype(np.float32))
            for g, expected in zip(gs, pulled, strict=True):
                found = pull(g)[:3]
                assert all(same(a, b.astype(np.float32)) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("record", [hu.Softmax, hu.LogSoftmax])
@pytest.mark.parametrize(("shape", "dim"), AXES, ids=str)
def test_softmax_in_double_has_the_bits_of_pairs(record: Any, shape: Any, dim: int, isa: str) -> None:
    rng = np.random.default_rng(6)
    op = record(dim)
    for spread in (1.0, 3.0):  # with a wider one a logarithm vanishes beside a difference
        x = (rng.standard_normal(shape) * spread).astype(np.float32)
        masked = -np.inf if spread > 1 and x.size < 1000 else -90.0
        x.flat[rng.random(x.size) < 0.1] = masked
        x.flat[0] = 0.0
        exact, exact_pull = op.vjp(x.astype(np.float64))
        value, pull = op.vjp(x)
        assert same(value, exact.astype(np.float32))
        for g in cotangents(rng, shape):
            assert same(pull(g)[0], exact_pull(g.astype(np.float64))[0].astype(np.float32))
            tangent = op.jvp((x.astype(np.float64),), (g.astype(np.float64),))[1]
            assert same(op.jvp((x,), (g,))[1], tangent.astype(np.float32))


def test_running_statistics_do_not_depend_on_the_layout(isa: str) -> None:
    rng = np.random.default_rng(7)
    x = (rng.standard_normal((6, 5, 9, 9)) + 4).astype(np.float32)
    results = []
    for view in layouts(hu.BatchNorm(True), x):
        mean, variance = np.zeros(5, np.float32), np.ones(5, np.float32)
        hu.batch_norm(view, mean, variance, training=True)
        results.append((mean.tobytes(), variance.tobytes()))
    wide_mean, wide_variance = np.zeros(5), np.ones(5)
    hu.batch_norm(x.astype(np.float64), wide_mean, wide_variance, training=True)
    results.append((wide_mean.astype(np.float32).tobytes(), wide_variance.astype(np.float32).tobytes()))
    assert len(set(results)) == 1


def test_an_empty_batch_and_one_cell() -> None:
    for shape in ((0, 3, 4), (0, 3)):
        x = np.empty(shape, np.float32)
        value, pull = hu.BatchNorm(True).vjp(x, np.ones(3, np.float32), np.ones(3, np.float32))
        dx, dw, db = pull(x)[:3]
        assert value.shape == dx.shape == shape
        assert dw.tolist() == db.tolist() == [0, 0, 0]
    one = np.array([[5.0]], np.float32)
    assert hu.BatchNorm(True)(one).tolist() == [[0.0]]
    assert hu.softmax(one, 0).tolist() == [[1.0]]
    assert np.isnan(hu.BatchNorm(True, eps=0.0)(one)).all()
