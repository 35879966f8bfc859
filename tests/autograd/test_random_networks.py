"""Networks drawn by Hypothesis: against PyTorch in float64, and exactly against composed specifications."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.scaling import examples

import halfulp as hu
from halfulp.autograd import flatten

from . import networks

SEEDS = st.integers(0, 2**31 - 1)


@examples(60)
@given(networks.programs(), SEEDS)
def test_gradients_agree_with_pytorch_in_float64(program: Any, seed: int) -> None:
    # A tolerance is right here: PyTorch's float64 results are themselves rounded many times.
    parameters = networks.parameters(seed)
    value, gradient = hu.value_and_grad(lambda p: networks.run(program, p))(parameters)
    theirs = hu.tree_map(lambda a: torch.tensor(a, requires_grad=True), parameters)
    expected = networks.run_torch(program, theirs)
    if not torch.isfinite(expected):
        return
    np.testing.assert_allclose(value, expected.item(), rtol=1e-9, atol=1e-9)
    leaves = flatten(theirs)[0]
    grads = torch.autograd.grad(expected, leaves, allow_unused=True)
    for ours, reference in zip(flatten(gradient)[0], grads, strict=True):
        scale = 1.0 if reference is None else 1 + reference.abs().max().item()
        wanted = np.zeros(ours.shape) if reference is None else reference.numpy()
        np.testing.assert_allclose(ours, wanted, rtol=1e-8, atol=1e-9 * scale)


@examples(25)
@given(networks.programs(networks.RATIONAL, depth=5), SEEDS)
def test_rational_gradients_equal_the_composition_of_the_specification(program: Any, seed: int) -> None:
    parameters = networks.exact_parameters(seed)
    gradient = hu.grad(lambda p: networks.run(program, p))(parameters)
    expected = networks.spec_gradient(program, parameters)
    for name in ("x", "w", "b"):
        for ours, reference in zip(gradient[name], expected[name], strict=True):
            assert (ours == reference).all(), name


@examples(15)
@given(networks.programs(networks.RATIONAL, depth=4), SEEDS, st.sampled_from([np.float16, np.float32, np.float64]))
def test_float_gradients_equal_the_composition_of_the_specification(program: Any, seed: int, dtype: Any) -> None:
    # Thirds are no floats: every product and sum below is rounded, and both sides have to round it alike.
    parameters = hu.tree_map(lambda a: a / dtype(3), networks.parameters(seed, dtype))
    gradient = hu.grad(lambda p: networks.run(program, p))(parameters)
    with np.errstate(all="ignore"):
        expected = networks.spec_gradient(program, parameters)
    for name in ("x", "w", "b"):
        for ours, reference in zip(gradient[name], expected[name], strict=True):
            assert ours.dtype == reference.dtype == dtype
            assert np.array_equal(ours, reference, equal_nan=True), name


@examples(25)
@given(networks.programs(networks.RATIONAL, depth=5), SEEDS)
def test_jvp_and_vjp_of_whole_networks_are_adjoint_exactly(program: Any, seed: int) -> None:
    parameters, directions = networks.exact_parameters(seed), networks.exact_parameters(seed + 1)

    def network(p: Any) -> Any:
        return networks.run(program, p)

    _, change = hu.jvp(network, (parameters,), (directions,))
    gradient = hu.grad(network)(parameters)
    inner = sum((g * t).sum() for g, t in zip(flatten(gradient)[0], flatten(directions)[0], strict=True))
    assert change.item() == inner


@examples(15)
@given(networks.programs(depth=5), SEEDS, st.sampled_from([np.float32, np.float64]))
def test_the_tape_of_a_network_passes_its_own_check(program: Any, seed: int, dtype: Any) -> None:
    parameters = networks.parameters(seed, dtype)
    tape, _ = networks.record(program, parameters)
    assume(all(np.isfinite(node.value).all() for node in tape.nodes))
    tape.check(seed)


@examples(15)
@given(networks.programs(), SEEDS)
def test_the_tape_and_the_transforms_give_the_same_bits(program: Any, seed: int) -> None:
    parameters = networks.parameters(seed, np.float32)
    tape, leaves = networks.record(program, parameters)
    value, gradient = hu.value_and_grad(lambda p: networks.run(program, p))(parameters)
    assert tape.nodes[-1].value.tobytes() == value.tobytes()
    backward = tape.backward(len(tape) - 1)
    for id, expected in zip(leaves, flatten(gradient)[0], strict=True):
        found = backward.get(id, np.zeros_like(expected))
        assert np.array_equal(found, expected, equal_nan=True)


@examples(15)
@given(networks.programs(networks.RATIONAL, depth=4), SEEDS)
def test_hessian_of_rational_networks_is_exactly_symmetric_and_its_own_reverse(program: Any, seed: int) -> None:
    parameters = networks.exact_parameters(seed)
    first, second = networks.exact_parameters(seed + 1), networks.exact_parameters(seed + 2)

    def network(p: Any) -> Any:
        return networks.run(program, p)

    def inner(a: Any, b: Any) -> Any:
        return sum((x * y).sum() for x, y in zip(flatten(a)[0], flatten(b)[0], strict=True))

    forward = hu.hvp(network, (parameters,), (first,))
    assert inner(second, forward) == inner(first, hu.hvp(network, (parameters,), (second,)))
    # reverse over reverse takes a different road to the same numbers
    reverse = hu.grad(lambda p: inner(hu.grad(network)(p), first))(parameters)
    assert all((a == b).all() for a, b in zip(flatten(forward)[0], flatten(reverse)[0], strict=True))


@examples(20)
@given(networks.programs(depth=4), SEEDS)
def test_hessian_products_agree_with_pytorch_in_float64(program: Any, seed: int) -> None:
    parameters, directions = networks.parameters(seed), networks.parameters(seed + 1)
    ours = hu.hvp(lambda p: networks.run(program, p), (parameters,), (directions,))
    theirs = hu.tree_map(lambda a: torch.tensor(a, requires_grad=True), parameters)
    leaves = flatten(theirs)[0]
    value = networks.run_torch(program, theirs)
    if not torch.isfinite(value):
        return
    grads = torch.autograd.grad(value, leaves, create_graph=True, allow_unused=True)
    moving = [torch.tensor(t) for t in flatten(directions)[0]]
    slope = sum(((g * t).sum() for g, t in zip(grads, moving, strict=True) if g is not None), start=torch.zeros(()))
    products = [None] * len(leaves)
    if slope.requires_grad:
        products = list(torch.autograd.grad(slope, leaves, allow_unused=True))
    for mine, reference in zip(flatten(ours)[0], products, strict=True):
        wanted = np.zeros(mine.shape) if reference is None else reference.numpy()
        scale = 1 + np.abs(wanted).max()
        np.testing.assert_allclose(mine, wanted, rtol=1e-7, atol=1e-8 * scale)
