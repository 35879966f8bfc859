"""The gradient of dilated max pooling in JAX, which JAX itself does not have.

python examples/jax_dilated_gradient.py
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import halfulp as hu
import halfulp.jax as hj


def loss(x: jax.Array) -> jax.Array:
    """A sum of squares behind a dilated max pooling."""
    return (hj.max_pool2d(x, 3, stride=1, dilation=2) ** 2).sum()


def main() -> None:
    """Differentiate under jit, and compare with the specification."""
    x = np.random.default_rng(0).standard_normal((2, 4, 9, 9)).astype(np.float32)

    def theirs(x: jax.Array) -> jax.Array:
        window, dilation = (1, 1, 3, 3), (1, 1, 2, 2)
        pooled = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, (1, 1, 1, 1), "VALID", None, dilation)
        return (pooled**2).sum()

    try:
        jax.grad(theirs)(x)
        print("JAX differentiates it by now")
    except (NotImplementedError, ValueError, TypeError) as error:
        print(f"JAX: {type(error).__name__}: {str(error).splitlines()[0]}")

    gradient = np.asarray(jax.jit(jax.grad(loss))(x))
    op = hu.MaxPool((3, 3), stride=1, dilation=2)
    (exact,) = hu.spec.vjp(op, (x,), 2 * hu.spec.forward(op, x))
    assert np.array_equal(gradient, exact)
    print("halfulp.jax under jit and the exact gradient, rounded once: equal, bit for bit")


if __name__ == "__main__":
    main()
