"""Every transform of JAX gives the bits of ``halfulp`` on NumPy arrays."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import halfulp as hu
import halfulp.jax

POOLS = [
    hu.MaxPool((3, 2), stride=(2, 1), padding=1, dilation=2, ceil_mode=True),
    hu.MaxPool((2, 3), padding="same", stride=1, ties="split"),
    hu.MaxPool((2, 2), stride=1, ties="all", nan="ignore"),
    hu.MaxPool((2, 2), stride=1, ties="last"),
    hu.AvgPool((3, 3), stride=2, padding=((0, 1), (1, 0)), ceil_mode=True, count_include_pad=False),
    hu.AvgPool((2, 2), stride=1, padding=1, divisor_override=3, dilation=2),
    hu.SmoothMaxPool((2, 2), beta=1.5, padding=1),
    hu.AdaptiveAvgPool((2, 3)),
    hu.AdaptiveMaxPool((None, 2), ties="split"),
    hu.GlobalAvgPool(2),
    hu.GlobalAvgPool(2, keepdims=False),
    hu.GlobalMaxPool(2, keepdims=False),
]
SHAPE = (2, 2, 5, 4)


def data(shape, seed=0, dtype=np.float32):
    """Numbers with ties and signed zeros, exactly representable in every float type."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-6, 7, shape) / 4
    return np.where(rng.random(shape) < 0.1, -0.0, values).astype(dtype)


@pytest.mark.parametrize("op", POOLS, ids=repr)
def test_pooling_under_jit_jvp_vjp_vmap_and_jacobians(op, same):
    x, t = data(SHAPE), data(SHAPE, 1)
    output, pullback = op.vjp(x)
    g = data(output.shape, 2)
    f = lambda x: halfulp.jax.apply(op, x)  # noqa: E731

    assert same(f(jnp.asarray(x)), output)
    assert same(jax.jit(f)(x), output)
    value, tangent = jax.jit(lambda x, t: jax.jvp(f, (x,), (t,)))(x, t)
    assert same(value, output)
    assert same(tangent, op.jvp((x,), (t,))[1])
    (dx,) = jax.jit(lambda x, g: jax.vjp(f, x)[1](g))(x, g)
    assert same(dx, pullback(g)[0])
    assert same(jax.jit(jax.vmap(f))(x), output)
    assert same(jax.vmap(f, in_axes=1, out_axes=1)(x), output)
    per_image = jax.jit(jax.vmap(lambda x, g: jax.vjp(f, x)[1](g)[0]))(x, g)
    assert same(per_image, pullback(g)[0])

    image = x[0, :1]
    out = op(image)
    forward = jax.jit(jax.jacfwd(f))(image)
    columns = [op.jvp((image,), (unit.reshape(image.shape),))[1] for unit in np.eye(image.size, dtype=np.float32)]
    assert same(forward, np.stack([c.ravel() for c in columns], -1).reshape(*out.shape, *image.shape))
    backward = jax.jit(jax.jacrev(f))(image)
    rows = [op.vjp(image)[1](unit.reshape(out.shape))[0] for unit in np.eye(out.size, dtype=np.float32)]
    assert same(backward, np.stack(rows).reshape(*out.shape, *image.shape))


@pytest.mark.parametrize("op", POOLS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
def test_half_types(op, dtype, same):
    x = data(SHAPE, dtype=dtype)
    output, pullback = op.vjp(x)
    assert same(jax.jit(lambda x: halfulp.jax.apply(op, x))(x), output)
    (dx,) = jax.jit(lambda x: jax.vjp(lambda x: halfulp.jax.apply(op, x), x)[1](jnp.ones(output.shape, dtype)))(x)
    assert same(dx, pullback(np.ones(output.shape, dtype))[0])


def test_second_derivatives_of_a_hard_max_are_zero(same):
    x = data((1, 4, 4))
    f = lambda x: (halfulp.jax.max_pool2d(x, 2, 1) ** 2).sum()  # noqa: E731
    # f is the sum of squares of the winners: its Hessian counts, on the diagonal, the windows that a cell wins.
    _, pullback = hu.MaxPool((2, 2), 1).vjp(x)
    wins = 2 * pullback(np.ones((1, 3, 3), np.float32))[0]
    hessian = np.asarray(jax.jit(jax.hessian(f))(x)).reshape(16, 16)
    assert same(hessian, np.diag(wins.ravel()))
    assert same(np.asarray(jax.jacrev(jax.jacrev(f))(x)).reshape(16, 16), np.diag(wins.ravel()))


@pytest.mark.parametrize("outer", [jax.jacfwd, jax.jacrev])
@pytest.mark.parametrize("inner", [jax.jacfwd, jax.jacrev])
def test_hessian_of_a_smooth_max(outer, inner):
    """In exact arithmetic the Hessian of log-sum-exp is beta * (diag(p) - p pᵀ) over every window."""
    x = np.array([1.0, 2.0, -1.0, 0.5], np.float32)
    op = hu.SmoothMaxPool((2,), beta=2.0, stride=1)
    found = np.asarray(outer(inner(lambda x: halfulp.jax.apply(op, x).sum()))(x), np.float64)
    expected = np.zeros((4, 4))
    for start in range(3):
        e = np.exp(2.0 * x[start : start + 2].astype(np.float64))
        p = e / e.sum()
        expected[start : start + 2, start : start + 2] += 2.0 * (np.diag(p) - np.outer(p, p))
    # The second derivative is a formula of a few rounded steps, not one rounding: a few units in the last place of 1.
    assert np.abs(found - expected).max() <= 8 * 2.0**-24


def test_grad_of_dilated_max_pooling(same):
    """JAX's own reduce_window has no such derivative."""
    x = data((1, 2, 9, 9))
    op = hu.MaxPool((3, 3), stride=2, padding=2, dilation=2)
    grad = jax.jit(jax.grad(lambda x: halfulp.jax.max_pool2d(x, 3, 2, 2, 2).sum()))(x)
    assert same(grad, op.vjp(x)[1](np.ones(op.output_shape(x.shape), np.float32))[0])


def test_integers_and_indices(same):
    x = np.random.default_rng(0).integers(0, 9, (2, 6, 6))
    for dtype in (np.int8, np.uint8, np.int32, np.bool_):
        values = x.astype(dtype)
        assert same(jax.jit(lambda v: halfulp.jax.max_pool2d(v, 3, 2, 1))(values), hu.max_pool2d(values, 3, 2, 1))
    value, found = jax.jit(lambda v: halfulp.jax.max_pool2d(v, 2, return_indices=True))(x.astype(np.float32))
    expected = hu.max_pool2d(x.astype(np.float32), 2, return_indices=True)
    assert same(value, expected[0])
    assert same(found, expected[1].astype(np.int32))
    f = lambda v: halfulp.jax.max_pool2d(v, 2, return_indices=True)[0].sum()  # noqa: E731
    assert same(
        jax.vmap(jax.grad(f))(x.astype(np.float32)),
        hu.MaxPool((2, 2)).vjp(x.astype(np.float32))[1](np.ones((2, 3, 3), np.float32))[0],
    )


def test_empty_batches(same):
    x = np.zeros((0, 3, 4, 4), np.float32)
    for op in (hu.MaxPool((2, 2)), hu.AvgPool((2, 2))):
        assert same(jax.jit(lambda x, op=op: halfulp.jax.apply(op, x))(x), op(x))
        assert jax.grad(lambda x, op=op: halfulp.jax.apply(op, x).sum())(x).shape == x.shape


def test_shapes_may_be_polymorphic_up_to_tracing():
    """One function, traced anew for each shape, as JAX users expect; eval_shape needs no data."""
    f = jax.jit(lambda x: halfulp.jax.max_pool2d(x, 3, 2, 1))
    assert [f(jnp.zeros((1, n, n))).shape for n in (5, 6, 9)] == [(1, 3, 3), (1, 3, 3), (1, 5, 5)]
    assert jax.eval_shape(f, jax.ShapeDtypeStruct((8, 64, 112, 112), jnp.float32)).shape == (8, 64, 56, 56)
    with pytest.raises(hu.ShapeError, match="W5"):
        jax.eval_shape(lambda x: halfulp.jax.max_pool2d(x, 9), jax.ShapeDtypeStruct((4, 4), jnp.float32))


def test_an_average_whose_divisors_have_no_common_denominator(same):
    """Its transpose is found with exact numbers, also under jit."""
    op = hu.AvgPool((60,), stride=1, padding=30, count_include_pad=False)
    x = np.random.default_rng(0).standard_normal((2, 64)).astype(np.float32)
    output, pullback = op.vjp(x)
    g = np.random.default_rng(1).standard_normal(output.shape).astype(np.float32)
    (dx,) = jax.jit(lambda x, g: jax.vjp(lambda x: halfulp.jax.apply(op, x), x)[1](g))(x, g)
    assert same(dx, pullback(g)[0])


def test_scan_checkpoint_and_cond(same):
    """Control flow and rematerialization see ordinary primitives."""
    x = data((1, 8, 8))
    op = hu.MaxPool((3, 3), stride=1, padding=1)

    def thrice(x):
        return jax.lax.scan(
            lambda x, _: (jax.checkpoint(lambda x: halfulp.jax.apply(op, x))(x), None), x, None, length=3
        )[0]

    first, pull_first = op.vjp(x)
    second, pull_second = op.vjp(first)
    third, pull_third = op.vjp(second)
    g = data(third.shape, 1)
    value, pullback = jax.vjp(jax.jit(thrice), x)
    assert same(value, third)
    assert same(pullback(g)[0], pull_first(pull_second(pull_third(g)[0])[0])[0])
    chosen = jax.jit(lambda flag, x: jax.lax.cond(flag, lambda x: halfulp.jax.apply(op, x), lambda x: x, x))
    assert same(chosen(True, x), first)
    assert same(chosen(False, x), x)
