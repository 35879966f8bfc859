"""The laws of the operators, exact on rationals, over the full product of their parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from flint import fmpq
from hypothesis import assume, given
from hypothesis import strategies as st

import halfulp as hu
from tests import exact
from tests import strategies as draw
from tests.exact import Case, equal, inner, mapped, rationals


def tangents_for(case: Case, rng: np.random.Generator) -> tuple[Any, ...]:
    return case.inputs(rng)


def combination(a: Any, x: Any, b: Any, y: Any) -> Any:
    """a * x + b * y, input by input."""
    return tuple(None if p is None else mapped(lambda u, v: a * u + b * v, p, q) for p, q in zip(x, y, strict=True))


@given(exact.every_exact_operator, draw.seeds)
def test_adjointness(case: Case, seed: int) -> None:
    """<J t, g> = <t, J^T g>."""
    rng = np.random.default_rng(seed)
    primals, tangents, g = case.inputs(rng), tangents_for(case, rng), rationals(rng, case.output)
    output, jt = hu.spec.jvp(case.op, primals, tangents)
    pulled = hu.spec.vjp(case.op, primals, g)
    assert equal(output, hu.spec.forward(case.op, *primals))
    assert output.shape == jt.shape == case.output
    assert [None if p is None else p.shape for p in pulled] == list(case.shapes)
    assert inner(jt, g) == sum(
        (inner(t, p) for t, p in zip(tangents, pulled, strict=True) if t is not None and p is not None), fmpq(0)
    )


@given(exact.every_exact_operator, draw.seeds)
def test_derivatives_are_linear(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    primals, t, u = case.inputs(rng), tangents_for(case, rng), tangents_for(case, rng)
    a, b = fmpq(3, 2), fmpq(-5)
    _, jt = hu.spec.jvp(case.op, primals, t)
    _, ju = hu.spec.jvp(case.op, primals, u)
    _, both = hu.spec.jvp(case.op, primals, combination(a, t, b, u))
    assert equal(both, combination(a, (jt,), b, (ju,))[0])
    g, h = rationals(rng, case.output), rationals(rng, case.output)
    pulled = hu.spec.vjp(case.op, primals, combination(a, (g,), b, (h,))[0])
    parts = combination(a, hu.spec.vjp(case.op, primals, g), b, hu.spec.vjp(case.op, primals, h))
    assert all(equal(p, q) for p, q in zip(pulled, parts, strict=True) if p is not None)


@given(exact.linear_pools, draw.seeds)
def test_averages_are_linear_and_their_own_derivative(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    (x,), (y,) = case.inputs(rng), case.inputs(rng)
    a, b = fmpq(3, 2), fmpq(-5)
    (mixed,) = combination(a, (x,), b, (y,))
    fx, fy = hu.spec.forward(case.op, x), hu.spec.forward(case.op, y)
    assert equal(hu.spec.forward(case.op, mixed), combination(a, (fx,), b, (fy,))[0])
    assert equal(hu.spec.jvp(case.op, (x,), (y,))[1], fy)


@given(exact.convolutions(), draw.seeds)
def test_convolutions_are_linear_in_the_input_and_in_the_weight(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, weight, bias = case.inputs(rng)
    y, other, _ = case.inputs(rng)
    a, b = fmpq(3, 2), fmpq(-5)

    def f(p: Any, w: Any) -> Any:
        return hu.spec.forward(case.op, p, w)

    assert equal(f(combination(a, (x,), b, (y,))[0], weight), combination(a, (f(x, weight),), b, (f(y, weight),))[0])
    assert equal(f(x, combination(a, (weight,), b, (other,))[0]), combination(a, (f(x, weight),), b, (f(x, other),))[0])
    if bias is not None:
        added = bias.reshape(-1, *(1,) * case.op.ndim)
        assert equal(hu.spec.forward(case.op, x, weight, bias), f(x, weight) + added)


@given(exact.hard_maxima, draw.seeds)
def test_a_maximum_commutes_with_monotone_maps(case: Case, seed: int) -> None:
    """Maps that fix 0, which is the value of a window without cells."""
    rng = np.random.default_rng(seed)
    (x,) = case.inputs(rng)
    for increasing in (lambda v: v * v * v + 2 * v, lambda v: max(v, v * 0), lambda v: v / 3):
        assert equal(hu.spec.forward(case.op, mapped(increasing, x)), mapped(increasing, hu.spec.forward(case.op, x)))
    strictly = mapped(lambda v: v * v * v + 2 * v, x)
    assert np.array_equal(hu.spec.indices(case.op, strictly), hu.spec.indices(case.op, x))
    g = rationals(rng, case.output)
    assert equal(hu.spec.vjp(case.op, (strictly,), g)[0], hu.spec.vjp(case.op, (x,), g)[0])


@given(exact.hard_maxima, draw.seeds)
def test_values_and_indices_agree(case: Case, seed: int) -> None:
    (x,) = case.inputs(np.random.default_rng(seed))
    ndim = case.op.ndim
    planes = x.reshape(-1, int(np.prod(x.shape[x.ndim - ndim :], dtype=int)))
    indices = hu.spec.indices(case.op, x)
    flat = indices.reshape(planes.shape[0], -1) if planes.shape[0] else indices.reshape(0, 1)
    picked = [fmpq(0) if i < 0 else plane[i] for plane, row in zip(planes, flat, strict=True) for i in row]
    assert [v == p for v, p in zip(hu.spec.forward(case.op, x).ravel(), picked, strict=True)] == [True] * len(picked)


@given(exact.hard_maxima, draw.seeds)
def test_without_ties_every_policy_is_the_same(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, t = exact.distinct(rng, case.shapes[0] or ()), rationals(rng, case.shapes[0] or ())
    g = rationals(rng, case.output)
    results = [
        (hu.spec.jvp(op, (x,), (t,))[1], hu.spec.vjp(op, (x,), g)[0])
        for op in (replace(case.op, ties=ties) for ties in ("first", "last", "all", "split"))
    ]
    assert all(equal(jt, results[0][0]) and equal(pulled, results[0][1]) for jt, pulled in results)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), exact.leading, draw.seeds)
def test_adaptive_to_the_input_s_size_is_the_identity(sizes: list[int], leading: tuple[int, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rationals(rng, (*leading, *sizes))
    g = rationals(rng, x.shape)
    for output in (tuple(sizes), (None,) * len(sizes)):
        for op in (hu.AdaptiveAvgPool(output), *(hu.AdaptiveMaxPool(output, ties=t) for t in ("first", "split"))):
            assert equal(hu.spec.forward(op, x), x)
            assert equal(hu.spec.jvp(op, (x,), (g,))[1], g)
            assert equal(hu.spec.vjp(op, (x,), g)[0], g)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), exact.leading, draw.ties, draw.seeds)
def test_global_is_adaptive_to_one_is_a_window_over_everything(
    sizes: list[int], leading: tuple[int, ...], ties: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    ndim, kernel, ones = len(sizes), tuple(sizes), (1,) * len(sizes)
    x = rationals(rng, (*leading, *sizes))
    t, g = rationals(rng, x.shape), rationals(rng, (*leading, *ones))
    averages = [hu.GlobalAvgPool(ndim), hu.AdaptiveAvgPool(ones), hu.AvgPool(kernel)]
    maxima = [hu.GlobalMaxPool(ndim, ties=ties), hu.AdaptiveMaxPool(ones, ties=ties), hu.MaxPool(kernel, ties=ties)]
    for family in (averages, maxima):
        results = []
        for op in family:
            output, jt = hu.spec.jvp(op, (x,), (t,))
            results.append((output, jt, hu.spec.vjp(op, (x,), g)[0]))
        assert all(equal(p, q) for other in results[1:] for p, q in zip(other, results[0], strict=True))
    flat = hu.GlobalMaxPool(ndim, keepdims=False, ties=ties)
    assert equal(hu.spec.forward(flat, x), hu.spec.forward(maxima[0], x).reshape(leading))
    assert equal(hu.spec.vjp(flat, (x,), g.reshape(leading))[0], hu.spec.vjp(maxima[0], (x,), g)[0])


@given(exact.convolutions(transposed=True), draw.seeds)
def test_a_transposed_convolution_is_the_transpose_of_the_convolution(case: Case, seed: int) -> None:
    """<conv(y), x> = <y, conv_transpose(x)>, where conv is as deep as x: output_padding adds cells, no terms."""
    rng = np.random.default_rng(seed)
    op = case.op
    x, weight, _ = case.inputs(rng)
    y = rationals(rng, case.output)
    padding = tuple((axis.before, axis.after) for axis in op.axes(x.shape[-op.ndim :], weight.shape[2:]))
    conv = hu.Conv(op.ndim, op.stride, padding, op.dilation, op.groups)
    seen = hu.spec.forward(conv, y, weight)
    assert all(a >= b for a, b in zip(seen.shape, x.shape, strict=True))
    # the convolution has at least x's positions; those of x are the leading ones
    leading = seen[tuple(slice(n) for n in x.shape)]
    assert inner(leading, x) == inner(y, hu.spec.forward(op, x, weight))


@given(exact.convolutions(transposed=False), draw.seeds)
def test_the_pullback_of_a_convolution_is_the_transposed_convolution(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    op = case.op
    assume(not isinstance(op.padding, str))
    x, weight, _ = case.inputs(rng)
    g = rationals(rng, case.output)
    axes = op.axes(x.shape[-op.ndim :], weight.shape[2:])
    lost = [(axis.padded_size - axis.extent) % axis.stride for axis in axes]
    transposed = hu.ConvTranspose(op.ndim, op.stride, op.padding, lost, op.dilation, op.groups)
    assert equal(hu.spec.forward(transposed, g, weight), hu.spec.vjp(op, (x, weight), g)[0])
