"""The fast convolution over rationals is the plain sum over links: one number, two ways."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from flint import fmpq
from hypothesis import given

import halfulp as hu
from halfulp.spec import _convolution, _integer_matrices, conv, conv_transpose
from tests import exact
from tests import strategies as draw
from tests.exact import Array, Case, equal, mapped, rationals


def plain(array: Array) -> Array:
    """The same numbers in a type that the integer matrices do not take, so that the plain sums run."""
    return mapped(lambda v: None if v is None else Fraction(int(v.p), int(v.q)), array)


def forms(case: Case, inputs: Any) -> tuple[_convolution.Form, Array, Array, Array]:
    """The bilinear form, and the flat arrays at cells, at positions, and of weights."""
    rng = np.random.default_rng(0)
    transposed = isinstance(case.op, hu.ConvTranspose)
    form = (conv_transpose if transposed else conv).form_of(case.op, inputs)
    x, y = _convolution.flat(inputs[0], case.op.ndim), _convolution.flat(rationals(rng, case.output), case.op.ndim)
    cells, positions = (y, x) if transposed else (x, y)
    return form, cells, positions, _convolution.flat_weight(inputs[1])


@given(exact.convolutions().filter(lambda case: 0 not in case.shapes[0]), draw.seeds)
def test_all_three_sums(case: Case, seed: int) -> None:
    form, cells, positions, weight = forms(case, case.inputs(np.random.default_rng(seed)))
    pairs = [
        (_integer_matrices.at_positions(form, weight, cells), form.at_positions(plain(weight), plain(cells))),
        (_integer_matrices.at_cells(form, weight, positions), form.at_cells(plain(weight), plain(positions))),
        (_integer_matrices.at_taps(form, positions, cells), form.at_taps(plain(positions), plain(cells))),
    ]
    for fast, slow in pairs:
        assert all(isinstance(v, Fraction) for v in slow.ravel() if v is not None)
        assert equal(plain(fast), slow)  # None, where there is no term, included


@given(exact.convolutions(), draw.seeds)
def test_whole_convolutions(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs, tangents, g = case.inputs(rng), case.inputs(rng), rationals(rng, case.output)
    slow_inputs, slow_tangents = (tuple(None if a is None else plain(a) for a in row) for row in (inputs, tangents))
    for fast, slow in (
        (hu.spec.jvp(case.op, inputs, tangents), hu.spec.jvp(case.op, slow_inputs, slow_tangents)),
        (hu.spec.vjp(case.op, inputs, g), hu.spec.vjp(case.op, slow_inputs, plain(g))),
    ):
        for a, b in zip(fast, slow, strict=True):
            assert (a is None) == (b is None)
            assert a is None or b is None or equal(plain(a), b)


def test_rationals_take_the_fast_way_and_others_do_not(monkeypatch: Any) -> None:
    calls = []
    monkeypatch.setattr(_integer_matrices, "at_positions", lambda *a: calls.append(1) or np.full((1, 1, 2), fmpq(0)))
    x, weight = rationals(np.random.default_rng(0), (1, 3)), rationals(np.random.default_rng(1), (1, 1, 2))
    hu.spec.forward(hu.Conv(1), plain(x), plain(weight))
    assert not calls
    hu.spec.forward(hu.Conv(1), x, weight)
    assert calls
