"""Outputs in arrays of the caller's: the same bits as without, in every layout, and refusals that leave it alone."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
from tests import strategies as draw
from tests.strategies import assert_same_bits, in_layout, random_array

SMOOTH = hu.SmoothMaxPool((3, 2), 1.5, stride=2, padding=1)
CONV = hu.Conv(2, padding=1)
POOLINGS: list[Any] = [
    hu.MaxPool((3, 2), stride=2, padding=1),
    hu.AvgPool((3, 2), stride=2, padding=1),
    SMOOTH,
    hu.AdaptiveMaxPool((2, 3)),
    hu.AdaptiveAvgPool((2, 3)),
    hu.GlobalMaxPool(2),
    hu.GlobalAvgPool(2),
    hu.GlobalMaxPool(2, keepdims=False),
    hu.GlobalAvgPool(2, keepdims=False),
]
WRITEABLE = [layout for layout in draw.LAYOUTS if layout != "read_only"]


def inputs_of(op: Any, rng: np.random.Generator, dtype: np.dtype[Any], layout: str = "c") -> tuple[Any, ...]:
    x = in_layout(random_array(rng, (2, 4, 6, 7), dtype), layout)
    if op.arity == 1:
        return (x,)
    weight = (3, 4, 3, 2) if isinstance(op, hu.Conv) else (4, 3, 3, 2)
    return x, *(random_array(rng, shape, dtype) for shape in (weight, (3,)))


@given(
    op=st.sampled_from([*POOLINGS, CONV, hu.ConvTranspose(2, stride=2)]),
    dtype=draw.float_dtypes,
    layout=draw.layouts,
    into=st.sampled_from(WRITEABLE),
    seed=draw.seeds,
)
def test_the_same_bits_in_every_layout(op: Any, dtype: np.dtype[Any], layout: str, into: str, seed: int) -> None:
    inputs = inputs_of(op, np.random.default_rng(seed), dtype, layout)
    expected = op(*inputs)
    out = in_layout(np.full(expected.shape, 77, dtype), into)
    assert op(*inputs, out=out) is out
    assert_same_bits(out.astype(dtype), expected)


@pytest.mark.parametrize("layout", ["c", "channels_last"])
@pytest.mark.parametrize("op", [*POOLINGS, CONV], ids=repr)
def test_an_array_like_the_output_is_written_in_place(op: Any, layout: str) -> None:
    inputs = inputs_of(op, np.random.default_rng(0), np.dtype("float32"), layout)
    arrays = [np.array(a, order="K") for a in inputs]
    out = np.empty_like(op(*arrays))
    assert hu.kernels.forward(op, tuple(arrays), out) is out
    backwards = np.empty_like(out)[::-1]
    assert hu.kernels.forward(op, tuple(arrays), backwards) is not backwards


@pytest.mark.parametrize("dtype", draw.INTEGERS)
def test_hard_max_of_integers(dtype: np.dtype[Any]) -> None:
    x = random_array(np.random.default_rng(3), (2, 3, 5, 9), dtype)
    op = hu.MaxPool((2, 3))
    out = np.empty((2, 3, 2, 3), dtype)
    assert op(x, out=out) is out
    assert np.array_equal(out, hu.spec.forward(op, x))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("op", [hu.MaxPool((3, 3), stride=2, padding=1), hu.AvgPool((3, 3), stride=2, padding=1)])
def test_large_outputs_at_any_address(op: Any, threads: int, restore: None) -> None:
    """Large outputs are written past the caches, by whole vectors: from every element on, and no element too many."""
    hu.set_num_threads(threads)
    x = np.random.default_rng(1).standard_normal((9, 64, 128, 128), dtype=np.float32)
    expected = op(x)
    memory = np.full(expected.size + 32, 77, np.float32)
    for start in (1, 15):
        memory[...] = 77
        out = memory[start : start + expected.size].reshape(expected.shape)
        assert op(x, out=out) is out
        assert np.array_equal(out, expected)
        assert (memory[:start] == 77).all()
        assert (memory[start + expected.size :] == 77).all()


@pytest.mark.parametrize("op", POOLINGS, ids=repr)
def test_exact_numbers(op: Any) -> None:
    if isinstance(op, hu.SmoothMaxPool):
        x: Any = hu.exact(np.zeros((1, 1)))
        op = hu.SmoothMaxPool((1, 1), Fraction(1))
    else:
        x = hu.exact(random_array(np.random.default_rng(5), (2, 6, 7), np.dtype("int8")).astype(np.float32))
    expected = op(x)
    out = np.zeros_like(expected)
    assert op(x, out=out) is out
    assert np.array_equal(out, expected)
    same = np.array(x)
    assert np.array_equal(hu.MaxPool((1, 1))(same, out=same), x)


@pytest.mark.parametrize("shift", [-1, 0, 1])
@pytest.mark.parametrize("op", [hu.MaxPool((1, 3), 1, (0, 1)), hu.AvgPool((1, 3), 1, (0, 1))], ids=repr)
def test_an_input_may_overlap_the_output(op: Any, shift: int) -> None:
    memory = np.random.default_rng(2).standard_normal((4, 50)).astype(np.float32)
    x, out = memory[1:3], memory[1 + shift : 3 + shift]
    expected = op(x.copy())
    assert op(x, out=out) is out
    assert_same_bits(out, expected)


def test_a_weight_may_overlap_the_output() -> None:
    weight = np.array([[[[2.0]]]])
    expected = hu.conv2d(np.full((1, 1, 1, 1), 3.0), weight)
    assert hu.conv2d(np.full((1, 1, 1, 1), 3.0), weight, out=weight) is weight
    assert_same_bits(weight, expected)


def test_every_function_takes_it() -> None:
    x = np.random.default_rng(4).standard_normal((1, 2, 4, 4, 4))
    w: Any = np.ones((2, 2, 2, 2, 2))
    calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
    for rank in (1, 2, 3):
        size, weight = (2,) * rank, w[(..., *(0,) * (3 - rank))]
        cells = x[(0,) * (3 - rank)] if rank == 3 else x.reshape((1, 2, -1, *(4,) * (rank - 1)))
        for suffix, k in ((f"{rank}d", 2), ("", size)):
            calls += [(getattr(hu, f"{name}_pool{suffix}"), (cells, k), {}) for name in ("max", "avg")]
            calls += [(getattr(hu, f"adaptive_{name}_pool{suffix}"), (cells, k), {}) for name in ("max", "avg")]
            calls += [(getattr(hu, f"smooth_max_pool{suffix}"), (cells, k, 1.0), {})]
            ndim = {} if suffix else {"ndim": rank}
            calls += [(getattr(hu, f"global_{name}_pool{suffix}"), (cells,), ndim) for name in ("max", "avg")]
            calls += [(getattr(hu, f"{name}{suffix}"), (cells, weight), {}) for name in ("conv", "conv_transpose")]
    for function, arguments, named in calls:
        expected = function(*arguments, **named)
        out = np.empty_like(expected)
        assert function(*arguments, **named, out=out) is out, function.__name__
        assert_same_bits(out, expected, function.__name__)


@pytest.mark.parametrize("function", [hu.max_pool2d, hu.adaptive_max_pool2d])
def test_values_with_indices(function: Any) -> None:
    x = np.random.default_rng(6).standard_normal((2, 4, 4))
    values, where = function(x, 2, return_indices=True)
    out = np.empty_like(values)
    result, same = function(x, 2, return_indices=True, out=out)
    assert result is out
    assert_same_bits(out, values)
    assert np.array_equal(where, same)
    with pytest.raises(hu.ShapeError, match=r"out is read-only.*\[I6\]"):
        function(x, 2, return_indices=True, out=np.broadcast_to(out, out.shape))


@pytest.mark.parametrize("op", POOLINGS, ids=repr)
def test_what_cannot_take_the_output_is_refused_I6(op: Any) -> None:
    x = np.zeros((2, 4, 6, 7), np.float32)
    good = op(x)
    read_only = good.copy()
    read_only.flags.writeable = False
    for out, error, message in [
        (good.tolist(), hu.DTypeError, "out of type list: must be a NumPy array [I6]"),
        (read_only, hu.ShapeError, "out is read-only: must be writeable [I6]"),
        (
            good.astype(np.float64),
            hu.DTypeError,
            "out dtype=float64: must be float32, the element type of the output [I6]",
        ),
        (good[None].copy(), hu.ShapeError, f"out shape={(1, *good.shape)}: must be {good.shape}, the shape of the"),
    ]:
        before = np.array(out)
        with pytest.raises(error) as caught:
            op(x, out=out)
        assert message in str(caught.value)
        assert str(caught.value).endswith("[I6]")
        assert np.array_equal(out, before)


def test_a_traced_value_has_no_memory_I6() -> None:
    op, out = hu.MaxPool((2,)), np.zeros(1)
    with pytest.raises(hu.DTypeError, match=r"traced value has no memory to write to \[I6\]"):
        hu.vjp(lambda x: op(x, out=out), np.zeros(2))
