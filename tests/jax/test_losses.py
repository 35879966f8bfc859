"""Losses, variance and interpolation on JAX arrays: the bits of the records under jit, grad and vmap."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import halfulp as hu
import halfulp.jax as hj

X = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
LABELS = np.array([0, 2, -100, 1])
CALLS: dict[str, Any] = {
    "cross_entropy": lambda m, x: m.cross_entropy(x, LABELS, label_smoothing=0.1),
    "weighted": lambda m, x: m.cross_entropy(x, LABELS, np.array([1, 0.5, 2], np.float32), reduction="sum"),
    "probabilities": lambda m, x: m.cross_entropy(x, np.full((4, 3), 0.25, np.float32), reduction="none"),
    "mse_loss": lambda m, x: m.mse_loss(x, np.ones((4, 3), np.float32)),
    "var": lambda m, x: m.var(x, 1),
    "interpolate": lambda m, x: m.interpolate(x[None], 7, mode="linear"),
}


@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients_have_the_bits_of_the_records(name: str) -> None:
    call = CALLS[name]
    expected = np.asarray(call(hu, X))
    found = jax.jit(lambda x: call(hj, x))(jnp.asarray(X))
    assert np.asarray(found).tobytes() == expected.tobytes()
    gradient = jax.grad(lambda x: call(hj, x).sum())(jnp.asarray(X))
    assert np.asarray(gradient).tobytes() == np.asarray(hu.grad(lambda x: call(hu, x).sum())(X)).tobytes()
    along = jax.jvp(lambda x: call(hj, x), (jnp.asarray(X),), (jnp.ones((4, 3)),))[1]
    assert (
        np.asarray(along).tobytes() == np.asarray(hu.jvp(lambda x: call(hu, x), (X,), (np.ones_like(X),))[1]).tobytes()
    )


@pytest.mark.parametrize("name", CALLS)
def test_second_derivatives_and_batches(name: str) -> None:
    call = CALLS[name]

    def scalar(x: Any) -> Any:
        return (call(hj, x) ** 2).sum()

    hessian = jax.jacfwd(jax.grad(scalar))(jnp.asarray(X))
    other = jax.jacrev(jax.grad(scalar))(jnp.asarray(X))
    np.testing.assert_allclose(hessian, other, rtol=2e-4, atol=1e-5)
    many = jax.vmap(lambda x: call(hj, x))(jnp.stack([X, X * 2]))
    assert np.asarray(many[1]).tobytes() == np.asarray(call(hu, X * 2)).tobytes()
