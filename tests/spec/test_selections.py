"""Max unpooling and fractional max pooling: exact adjointness, linearity, and what ties them to hard max pooling."""

from __future__ import annotations

from math import prod

import numpy as np
from flint import fmpq
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
from tests import strategies as draw
from tests.exact import equal, inner, rationals


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4)), min_size=1, max_size=4), draw.seeds)
def test_an_unpooling_s_derivatives_are_adjoint_and_it_is_its_own_derivative(
    axes: list[tuple[int, int]], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    spatial, cells = tuple(n for n, _ in axes), tuple(m for _, m in axes)
    op = hu.MaxUnpool((1,) * len(axes), output_size=cells)
    values, tangents = rationals(rng, (2, *spatial)), rationals(rng, (2, *spatial))
    indices = rng.integers(-1, prod(cells), values.shape)
    g = rationals(rng, (2, *cells))
    output, along = hu.spec.jvp(op, (values, indices), (tangents,))
    dv, nothing = hu.spec.vjp(op, (values, indices), g)
    assert nothing is None
    assert equal(output, hu.spec.forward(op, values, indices))
    assert equal(along, hu.spec.forward(op, tangents, indices))
    assert inner(along, g) == inner(tangents, dv)


@given(draw.seeds)
def test_unpooling_what_was_pooled_and_pooling_it_again_gives_it_back(seed: int) -> None:
    x = abs(rationals(np.random.default_rng(seed), (2, 4, 6)))
    pool = hu.MaxPool((2, 3))
    values = hu.spec.forward(pool, x)
    back = hu.spec.forward(hu.MaxUnpool((2, 3)), values, hu.spec.indices(pool, x))
    assert equal(hu.spec.forward(pool, back), values)


@given(
    st.lists(st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(0, 3)), min_size=1, max_size=3),
    draw.ties,
    draw.seeds,
)
def test_fractional_derivatives_are_adjoint(axes: list[tuple[int, int, int]], ties: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    op = hu.FractionalMaxPool(tuple(k for k, _, _ in axes), tuple(m for _, m, _ in axes), ties=ties)
    x = rationals(rng, (2, *(k + m - 1 + more for k, m, more in axes)))
    t, g = rationals(rng, x.shape), rationals(rng, (2, *op.output_size))
    samples = np.array([[fmpq(int(n), 7) for n in row] for row in rng.integers(0, 7, (2, len(axes)))], dtype=object)
    output, along = hu.spec.jvp(op, (x, samples), (t, None))
    dx, nothing = hu.spec.vjp(op, (x, samples), g)
    assert nothing is None
    assert equal(output, hu.spec.forward(op, x, samples))
    assert inner(along, g) == inner(t, dx)


def test_fractional_windows_without_freedom_are_those_of_max_pooling() -> None:
    x = rationals(np.random.default_rng(0), (3, 9))
    samples = np.full((3, 1), 0.5)
    windows = hu.FractionalMaxPool((3,), (7,))
    assert equal(hu.spec.forward(windows, x, samples), hu.spec.forward(hu.MaxPool((3,), stride=1), x))
