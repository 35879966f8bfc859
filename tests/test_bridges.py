"""Every declared operator in PyTorch and JAX, drawn from the registry: the bits of the kernels, both derivatives."""

from __future__ import annotations

import random
from typing import Any

import jax
import numpy as np
import pytest
import torch

import halfulp as hu
import halfulp.jax as hj
import halfulp.torch as ht
from halfulp.conformance.build import small
from halfulp.records import Declaration, declarations
from halfulp.torch._bridge import bridge_of

OWN = [d for d in declarations() if d.record.__module__.startswith("halfulp.")]
every_operator = pytest.mark.parametrize("declaration", OWN, ids=lambda d: d.name)


def cases(declaration: Declaration, count: int, seed: int) -> Any:
    """(record, inputs, cotangent) with float32 numbers."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    for _ in range(count):
        op, shapes = small(declaration, rng)
        made = declaration.draw.constants
        given = () if made is None else made(op, shapes, numbers)
        given = tuple(a if a is None or a.dtype.kind != "f" else a.astype(np.float32) for a in given)
        moving = shapes[: len(shapes) - len(given)]
        floats = [None if s is None else numbers.standard_normal(s).astype(np.float32) for s in moving]
        inputs = (*floats, *given)
        shape = op.output_shape(*(None if a is None else a.shape for a in inputs))
        yield op, inputs, numbers.standard_normal(shape).astype(np.float32)


def same(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@every_operator
def test_jax_gives_the_bits_of_the_kernels(declaration: Declaration) -> None:
    for op, inputs, g in cases(declaration, 6, 0):
        moving = [
            i for i, a in enumerate(inputs) if a is not None and declaration.inputs[i] not in declaration.constant
        ]

        def function(*xs: Any, op: Any = op, inputs: Any = inputs, moving: Any = moving) -> Any:
            given = list(inputs)
            for i, x in zip(moving, xs, strict=True):
                given[i] = x
            return hj.apply(op, *given)

        expected, pullback = op.vjp(*inputs)
        found, pulled = jax.vjp(function, *(inputs[i] for i in moving))
        assert same(found, expected), op
        answers = pullback(g)
        assert all(same(x, answers[i]) for i, x in zip(moving, pulled(g), strict=True)), op


@pytest.mark.parametrize("declaration", [d for d in OWN if not d.several and not d.convolution], ids=lambda d: d.name)
def test_pytorch_gives_the_bits_of_the_kernels(declaration: Declaration) -> None:
    """Only what both take: PyTorch has no padding modes, no pairs of padding, and one or two leading axes."""
    bridge, tried = bridge_of(declaration.record), 0
    for op, inputs, g in cases(declaration, 60, 1):
        ndim = getattr(op, "ndim", 0)
        fields = {name: getattr(op, name) for name in bridge.fields}
        padding = getattr(op, "padding", ())
        plain = not isinstance(padding, str) and all(b == a for b, a in padding)
        axes = inputs[0].ndim - (1 if declaration.name == "fold" else ndim)
        if not plain or axes not in (1, 2) or inputs[0].size == 0:
            continue
        if "padding" in fields:
            fields["padding"] = tuple(before for before, _ in padding)
        tensors = tuple(torch.from_numpy(np.array(a)) for a in inputs)
        x = tensors[0].requires_grad_()
        pairs = zip(fields.get("padding", ()), fields.get("kernel_size", ()), strict=False)
        if declaration.torch and "ceil_mode" in fields and any(2 * p > k for p, k in pairs):
            with pytest.raises(ht.TorchShapeError, match="B1"):
                bridge(ndim, tensors, False, *fields.values())
            continue
        found = bridge(ndim, tensors, False, *fields.values())
        tried += 1
        expected, pullback = op.vjp(*inputs)
        assert same(found.detach(), expected), op
        (pulled,) = torch.autograd.grad(found, x, torch.from_numpy(g))
        assert same(pulled, pullback(g)[0]), op
    assert tried >= 3


@pytest.mark.parametrize("declaration", [d for d in OWN if d.several], ids=lambda d: d.name)
def test_pytorch_gives_the_bits_of_the_kernels_in_every_input(declaration: Declaration) -> None:
    """Matrix products, norms, softmax and sums: value, and the cotangent of every input with a derivative."""
    bridge, tried = bridge_of(declaration.record), 0
    for op, inputs, g in cases(declaration, 20, 1):
        if inputs[0].size == 0 or getattr(op, "training", False):  # training moves running statistics, too
            continue
        tensors = [None if a is None else torch.from_numpy(np.array(a)) for a in inputs]
        named = zip(declaration.inputs, tensors, strict=False)
        moving = [i for i, (name, t) in enumerate(named) if t is not None and name not in declaration.constant]
        for i in moving:
            tensors[i].requires_grad_()
        found = bridge(None, tuple(tensors), False, *(getattr(op, name) for name in bridge.fields))
        expected, pullback = op.vjp(*inputs)
        assert same(found.detach(), expected), op
        answers = pullback(g)
        pulled = torch.autograd.grad(found, [tensors[i] for i in moving], torch.from_numpy(g))
        assert all(same(p, answers[i]) for i, p in zip(moving, pulled, strict=True)), op
        tried += 1
    assert tried >= 3


@pytest.mark.parametrize("p", [1, 1.5, 2, 3, float("inf")])
def test_the_norm_s_second_derivatives_agree_in_all_bridges(p: float) -> None:
    x, v = np.array([[1.5, -2.0, 0.25, 3.0]]), np.array([[1.0, -1.0, 2.0, 0.5]])
    expected = hu.hvp(lambda x: hu.ops.sum(hu.lp_pool1d(x, p, 2) * hu.lp_pool1d(x, p, 2)), (x,), (v,))
    t = torch.from_numpy(x).requires_grad_()
    (gradient,) = torch.autograd.grad((ht.lp_pool1d(t, p, 2) ** 2).sum(), t, create_graph=True)
    (found,) = torch.autograd.grad(gradient, t, torch.from_numpy(v))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        square = jax.grad(lambda x: (hj.lp_pool1d(x, p, 2) ** 2).sum())
        np.testing.assert_allclose(jax.jvp(square, (x,), (v,))[1], expected, rtol=1e-12, atol=1e-12)


def test_a_fractional_max_pooling_has_one_size_F3() -> None:
    x = torch.zeros(1, 4, 4)
    with pytest.raises(ht.TorchPolicyError, match=r"exactly one must be given \[F3\]"):
        ht.fractional_max_pool2d(x, 2)
    assert ht.fractional_max_pool2d(x, 2, output_ratio=0.5).shape == (1, 2, 2)


NORMS = {
    "layer": (hu.LayerNorm((3,)), (4, 3), (3,)),
    "group": (hu.GroupNorm(2), (2, 4, 3), (4,)),
    "instance": (hu.InstanceNorm(), (2, 3, 5), (3,)),
    "batch": (hu.BatchNorm(True), (4, 3, 2), (3,)),
}


@pytest.mark.parametrize("given", [1, 2, 3])
@pytest.mark.parametrize("name", NORMS)
def test_the_second_derivatives_of_norms_agree_with_and_without_weights(name: str, given: int) -> None:
    op, shape, weight = NORMS[name]
    rng = np.random.default_rng(given)
    points = tuple(rng.standard_normal(s).astype(np.float32) for s in (shape, weight, weight)[:given])
    directions = tuple(rng.standard_normal(p.shape).astype(np.float32) for p in points)
    g = rng.standard_normal(shape).astype(np.float32)
    expected = hu.hvp(lambda *xs: hu.ops.sum(hu.ops.mul(op(*xs), g)), points, directions)
    found = jax.jvp(
        jax.grad(lambda *xs: (hj.apply(op, *xs) * g).sum(), argnums=tuple(range(given))), points, directions
    )[1]
    for a, b in zip(found, expected if given > 1 else (expected,), strict=True):
        np.testing.assert_allclose(a, np.zeros_like(a) if b is None else b, rtol=2e-4, atol=2e-4)
