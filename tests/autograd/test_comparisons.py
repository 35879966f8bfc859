"""A traced value compares as its array does, so that a function takes the same branches under every transform."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flint import fmpq
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
from halfulp import ops

COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
UFUNCS = [np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal]
NUMBERS = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 1.0, 3.0, np.inf, np.nan])


def under_transforms(look: Callable[[Any], Any], x: Any) -> list[Any]:
    """What ``look`` sees of x plain, and under each transform and nesting."""
    seen: list[Any] = []

    def f(v: Any) -> Any:
        seen.append(look(v))
        return ops.sum(v * v)

    f(x)
    hu.grad(f)(x)
    hu.vjp(f, x)
    hu.jvp(f, (x,), (x,))
    hu.hvp(f, (x,), (x,))
    hu.grad(lambda v: ops.sum(hu.grad(f)(v)))(x)
    hu.jvp(lambda v: hu.jvp(f, (v,), (v,))[1], (x,), (x,))
    assert len(seen) == 7
    return seen


@given(
    st.lists(NUMBERS, min_size=1, max_size=4),
    NUMBERS,
    st.sampled_from(range(6)),
    st.sampled_from(["number", "numpy scalar", "array", "self"]),
    st.booleans(),
    st.sampled_from([np.float16, np.float32, np.float64]),
)
def test_comparisons(values: Any, other: float, which: int, kind: str, on_the_right: bool, dtype: Any) -> None:
    x = np.array(values, dtype)
    given_as = {"number": other, "numpy scalar": dtype(other), "array": np.array([other], dtype)}

    def look(v: Any) -> Any:
        y = v if kind == "self" else given_as[kind]
        pair = (y, v) if on_the_right else (v, y)
        return COMPARISONS[which](*pair), UFUNCS[which](*pair)

    with np.errstate(all="ignore"):
        first, *others = under_transforms(look, x)
    for found in others:
        for mine, plain in zip(found, first, strict=True):
            assert type(mine) is type(plain)
            assert np.array_equal(mine, plain)


@pytest.mark.parametrize("value", [3.0, 2.0])
def test_a_branch_on_equality(value: float) -> None:
    def f(x: Any) -> Any:
        return x * x if x == 3 else -x

    x, one = np.array(value), np.array(1.0)
    expected = 6.0 if value == 3 else -1.0
    assert hu.grad(f)(x) == expected
    assert hu.jvp(f, (x,), (one,))[1] == expected
    assert hu.vjp(f, x)[1](one)[0] == expected
    assert hu.grad(lambda x: x * x if x != 3 else -x)(x) == (-1.0 if value == 3 else 2 * value)
    assert hu.grad(lambda x: x * x if np.float64(3) == x else -x)(x) == expected
    assert hu.grad(lambda x: x * x if x in (3, 5) else -x)(x) == expected
    assert hu.hvp(f, (x,), (one,)) == (2.0 if value == 3 else 0.0)
    assert hu.grad(lambda x: hu.grad(f)(x))(x) == (2.0 if value == 3 else 0.0)


@pytest.mark.parametrize(
    "look",
    [
        lambda v: 3 in v,
        lambda v: 7.5 in v,
        lambda v: [float(item) for item in v],
        lambda v: int(v[0]),
        lambda v: float(v[0]),
        lambda v: bool(v[1] == 0),
        lambda v: np.isnan(v).tolist(),
        lambda v: np.isfinite(v).tolist(),
        lambda v: np.signbit(v).tolist(),
        lambda v: (v == None).tolist(),  # noqa: E711
        lambda v: (v == v[0]).tolist(),
        lambda v: np.logical_not(v).tolist(),
    ],
)
def test_other_looks_at_a_value(look: Callable[[Any], Any]) -> None:
    first, *others = under_transforms(look, np.array([3.0, 0.0, -2.5]))
    assert all(found == first for found in others)


def test_exact_numbers_compare_too() -> None:
    x = np.array(fmpq(1, 3), dtype=object)
    assert hu.grad(lambda v: v * v if v == fmpq(1, 3) else -v)(x) == fmpq(2, 3)


def test_like_an_array_a_traced_value_has_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable type"):
        hu.grad(lambda x: x * len({x}))(np.array(3.0))
