"""Normalisation and softmax of float32 in double against the same cells as float64, which take pairs of doubles.

Rounding a float64 result to float32 is rounding the exact one, unless it lies within 2^-53 of a boundary: none of the
fixed cells here does. Every path in double is met on each instruction set: planes, rows, channels-last, columns, tails.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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


def kept_sizes() -> Iterator[Any]:
    """Inputs with and without exponentials that the value keeps: ends of vectors, ragged tiles, short rows."""
    for length in (15, 16, 17, 31, 40, 70, 128, 1000):
        yield (37, length), -1
    for inner in (1, 7, 8, 15, 16, 17, 35):
        yield (2, 20, inner), 1


@pytest.mark.parametrize("record", [hu.Softmax, hu.LogSoftmax])
def test_pullbacks_of_kept_exponentials_have_the_bits_of_tangents_and_pairs(record: Any, isa: str) -> None:
    """A tangent of softmax is its cotangent, and computes its exponentials."""
    rng = np.random.default_rng(12)
    for shape, dim in kept_sizes():
        op = record(dim)
        normal = rng.standard_normal(shape)
        far = np.where(rng.random(shape) < 0.3, normal - 150, normal)
        masked = np.where(rng.random(shape) < 0.3, -np.inf, normal)
        for x in (normal, far, masked, normal * 9):
            x = x.astype(np.float32)
            value, pull = op.vjp(x.copy())
            assert same(value, op(x))
            for g in cotangents(rng, shape):
                found = pull(g)[0]
                assert same(found, pull(g)[0])  # may be called again
                if record is hu.Softmax:
                    assert same(found, op.jvp((x,), (g,))[1])
                else:
                    exact = op.vjp(x.astype(np.float64))[1](g.astype(np.float64))[0]
                    assert same(found, exact.astype(np.float32))


def test_a_pullback_keeps_what_it_was_made_from(isa: str) -> None:
    rng = np.random.default_rng(13)
    for shape, dim in (((50, 128), -1), ((2, 60, 19), 1), ((40, 33), 0)):
        for record in (hu.Softmax, hu.LogSoftmax):
            x, g = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
            x.flat[::7], g.flat[::5] = 0.25, 0.0
            value, pull = record(dim).vjp(x)
            first = pull(g)[0]
            equal = pull(np.ones(shape, np.float32))[0]  # undecided in double: the input itself is needed
            x[...], value[...] = 7.0, 3.0
            with ThreadPoolExecutor(4) as pool:
                assert all(same(first, found[0]) for found in pool.map(pull, [g] * 8))
            assert same(equal, pull(np.ones(shape, np.float32))[0])


def test_rows_without_an_answer_are_nan_in_kept_pullbacks(isa: str) -> None:
    rng = np.random.default_rng(14)
    for shape, dim in (((6, 64), -1), ((64, 24), 0)):
        for hard in (np.nan, np.inf, -np.inf):
            x, g = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
            row: Any = (2, slice(None)) if dim == -1 else (slice(None), 2)
            x[row] = hard if hard == -np.inf else np.where(np.arange(64) == 9, hard, x[row])
            for record in (hu.Softmax, hu.LogSoftmax):
                op = record(dim)
                pull = op.vjp(x)[1]
                found = pull(g)[0]
                assert np.isnan(found[row]).all()
                others = np.delete(found, 2, 0 if dim == -1 else 1)
                assert np.isfinite(others).all()
                g_bad = np.where(g == g[row][9], np.float32(hard), g)
                assert np.isnan(pull(g_bad)[0][row]).all()


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


@pytest.mark.parametrize("shift", [0.0, 3.0])
@pytest.mark.parametrize("size", [1e-40, 1e-30, 1.0, 1e30])
def test_layer_norm_of_any_size_without_epsilon(size: float, shift: float, isa: str) -> None:
    """The scale of tiny rows is larger than any float32; rows far from zero need another pivot than the others."""
    rng = np.random.default_rng(11)
    x = ((rng.standard_normal((9, 140)) + shift * (np.arange(9)[:, None] % 3)) * size).astype(np.float32)
    for weight in (np.ones(140, np.float32), rng.uniform(-0.99, 0.99, 140).astype(np.float32)):
        bias = rng.standard_normal(140).astype(np.float32)
        for op, shape in ((hu.LayerNorm((140,), eps=0.0), x.shape), (hu.BatchNorm(True, eps=0.0), (9, 140, 1))):
            value, pullback = op.vjp(x.reshape(shape), weight, bias)
            expected, wide_pullback = op.vjp(*wide([x.reshape(shape), weight, bias]))
            assert same(value, expected.astype(np.float32))
            g = rng.standard_normal(shape).astype(np.float32)
            with np.errstate(over="ignore"):
                expected_g = wide_pullback(g.astype(np.float64))[0].astype(np.float32)
            assert same(pullback(g)[0], expected_g)


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
