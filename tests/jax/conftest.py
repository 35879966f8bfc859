"""What the tests of the JAX bridge share."""

import jax
import numpy as np
import pytest

jax.config.update("jax_platforms", "cpu")


def same_bits(actual, expected) -> bool:
    """Equal shapes, dtypes and bits; every NaN equals every other."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return False
    if actual.dtype.kind in "iub":
        return bool(np.array_equal(actual, expected))
    integer = {2: np.uint16, 4: np.uint32, 8: np.uint64}[actual.dtype.itemsize]
    nan = np.isnan(actual) & np.isnan(expected)
    return bool(
        (nan | (np.ascontiguousarray(actual).view(integer) == np.ascontiguousarray(expected).view(integer))).all()
    )


@pytest.fixture
def same():
    return same_bits
