"""Convolution under JAX: values and derivatives have halfulp's bits, batching loses none of them."""

import jax
import numpy as np
import pytest

import halfulp as hu
import halfulp.jax

CASES = [
    (hu.Conv(2, stride=2, padding=1, groups=2), (2, 4, 5, 4), (6, 2, 3, 2), 6),
    (hu.Conv(1, padding="same", dilation=2), (3, 6), (2, 3, 3), 2),
    (hu.ConvTranspose(2, stride=2, padding=1, output_padding=1, groups=2), (2, 4, 3, 3), (4, 3, 3, 2), 6),
    (hu.ConvTranspose(1, stride=2), (2, 4), (2, 3, 3), 3),
]


def data(shape, seed):
    """Numbers whose sums of products are not exact in float32, so that a second rounding would show."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("op", "x", "weight", "bias"), CASES, ids=lambda v: repr(v) if isinstance(v, hu.Operator) else ""
)
def test_value_jvp_vjp_and_vmap(op, x, weight, bias, same):
    primals = (data(x, 0), data(weight, 1), data((bias,), 2))
    tangents = (data(x, 3), data(weight, 4), data((bias,), 5))
    output, pullback = op.vjp(*primals)
    g = data(output.shape, 6)
    f = lambda *inputs: halfulp.jax.apply(op, *inputs)  # noqa: E731

    assert same(jax.jit(f)(*primals), output)
    assert same(jax.jit(f)(*primals[:2]), op(*primals[:2]))
    assert same(jax.jit(lambda p, t: jax.jvp(f, p, t))(primals, tangents)[1], op.jvp(primals, tangents)[1])
    some = jax.jvp(lambda w: f(primals[0], w, primals[2]), (primals[1],), (tangents[1],))[1]
    assert same(some, op.jvp(primals, (None, tangents[1], None))[1])
    for found, expected in zip(jax.jit(lambda p, g: jax.vjp(f, *p)[1](g))(primals, g), pullback(g), strict=True):
        assert same(found, expected)


@pytest.mark.parametrize(
    ("op", "x", "weight", "bias"), CASES, ids=lambda v: repr(v) if isinstance(v, hu.Operator) else ""
)
@pytest.mark.parametrize("axes", [(0, None, None), (None, 0, None), (None, None, 0), (1, 0, 0), (0, 1, None)], ids=str)
def test_vmap_has_the_bits_of_separate_calls(op, x, weight, bias, axes, same):
    shapes = (x, weight, (bias,))
    size = 3
    batched = [data((size, *s) if a is not None else s, i) for i, (s, a) in enumerate(zip(shapes, axes, strict=True))]
    arguments = [b if a in (None, 0) else np.moveaxis(b, 0, a) for b, a in zip(batched, axes, strict=True)]
    single = [[b if a is None else b[i] for b, a in zip(batched, axes, strict=True)] for i in range(size)]
    f = lambda *inputs: halfulp.jax.apply(op, *inputs)  # noqa: E731
    assert same(jax.jit(jax.vmap(f, axes))(*arguments), np.stack([op(*s) for s in single]))

    g = data(op(*single[0]).shape, 9)
    pull = lambda *inputs: jax.vjp(f, *inputs)[1](g)  # noqa: E731
    found = jax.jit(jax.vmap(pull, axes))(*arguments)
    expected = [op.vjp(*s)[1](g) for s in single]
    for i in range(3):
        assert same(found[i], np.stack([e[i] for e in expected]))
    push = lambda *inputs: jax.jvp(f, inputs, inputs)[1]  # noqa: E731
    assert same(jax.jit(jax.vmap(push, axes))(*arguments), np.stack([op.jvp(s, s)[1] for s in single]))


def test_hessians_in_all_four_modes(same):
    """On small integers everything is exact, so the Hessians are those of JAX's own convolution, bit for bit."""
    rng = np.random.default_rng(0)
    x, weight, bias = (rng.integers(-2, 3, s).astype(np.float32) for s in ((1, 2, 3, 3), (2, 1, 2, 2), (2,)))

    def ours(x, weight, bias):
        return (halfulp.jax.conv2d(x, weight, bias, padding=1, groups=2) ** 2).sum()

    def theirs(x, weight, bias):
        out = jax.lax.conv_general_dilated(x, weight, (1, 1), ((1, 1), (1, 1)), feature_group_count=2)
        return ((out + bias[:, None, None]) ** 2).sum()

    every = (0, 1, 2)
    expected = jax.jit(jax.hessian(theirs, every))(x, weight, bias)
    for outer in (jax.jacfwd, jax.jacrev):
        for inner in (jax.jacfwd, jax.jacrev):
            found = jax.jit(outer(inner(ours, every), every))(x, weight, bias)
            for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
                assert same(a + 0.0, b + 0.0)


def test_linear_transpose(same):
    x, weight = data((1, 2, 5), 0), data((3, 2, 2), 1)
    op = hu.Conv(1, padding=1)
    g = data(op.output_shape(x.shape, weight.shape), 2)
    _, pullback = op.vjp(x, weight)
    assert same(jax.linear_transpose(lambda x: halfulp.jax.apply(op, x, weight), x)(g)[0], pullback(g)[0])
    assert same(jax.linear_transpose(lambda w: halfulp.jax.apply(op, x, w), weight)(g)[0], pullback(g)[1])
    pool = hu.AvgPool((2,), padding=1)
    cotangent = data(pool.output_shape(x.shape), 3)
    transposed = jax.linear_transpose(lambda x: halfulp.jax.apply(pool, x), x)
    assert same(transposed(cotangent)[0], pool.vjp(x)[1](cotangent)[0])
