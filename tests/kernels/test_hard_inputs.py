"""Arrays that no one should pass but someone will: each gets the right answer or a clear error, and life goes on."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import halfulp as hu
from tests import strategies as draw

WEIGHT = np.random.default_rng(8).standard_normal((4, 2, 3, 3)).astype(np.float32)
OPERATORS: list[tuple[Any, tuple[Any, ...]]] = [
    (hu.MaxPool((3, 3), stride=2, padding=1), ()),
    (hu.MaxPool((3, 3), stride=1, padding=1, ties="split"), ()),
    (hu.MaxPool((9, 9), stride=1, padding=4, nan="ignore"), ()),
    (hu.AvgPool((3, 3), stride=2, padding=1), ()),
    (hu.AvgPool((9, 9), stride=1, padding=4, count_include_pad=False), ()),
    (hu.SmoothMaxPool((2, 2), 1.5), ()),
    (hu.AdaptiveMaxPool((3, 2)), ()),
    (hu.AdaptiveAvgPool((3, 2)), ()),
    (hu.GlobalMaxPool(2), ()),
    (hu.GlobalAvgPool(2), ()),
    (hu.Conv(2, padding=1), (WEIGHT, None)),
    (hu.ConvTranspose(2, stride=2, groups=2), (WEIGHT.reshape(2, 4, 3, 3), None)),
]
every_operator = pytest.mark.parametrize(("op", "rest"), OPERATORS, ids=[str(op) for op, _ in OPERATORS])


def everything(op: Any, x: Any, rest: tuple[Any, ...]) -> list[Any]:
    """The value, the tangent and the cotangent of x."""
    tangents = tuple(None if value is None else np.zeros_like(value) for value in rest)
    output, tangent = op.jvp((x, *rest), (x, *tangents))
    _, pullback = op.vjp(x, *rest)
    return [op(x, *rest), output, tangent, pullback(output)[0]]


@every_operator
def test_views_that_repeat_cells_are_read_like_their_copies(op: Any, rest: tuple[Any, ...]) -> None:
    rng = np.random.default_rng(3)
    row = rng.standard_normal((1, 2, 1, 40)).astype(np.float32)
    line = rng.standard_normal(400).astype(np.float32)
    for view in (np.broadcast_to(row, (2, 2, 11, 40)), as_strided(line, (2, 2, 11, 40), (80, 40, 12, 4))):
        expected = everything(op, np.array(view, order="C"), rest)
        for number, result in enumerate(everything(op, view, rest)):
            draw.assert_same_bits(result, expected[number], f"{op}, result {number}")
            assert result.flags.writeable
            assert not np.shares_memory(result, view)


@every_operator
def test_an_array_without_memory_has_an_output_without_cells(op: Any, rest: tuple[Any, ...]) -> None:
    interface = {"shape": (0, 2, 8, 8), "typestr": "<f4", "data": (0, True), "version": 3}
    empty = np.asarray(SimpleNamespace(__array_interface__=interface))
    assert empty.size == 0
    output = op(empty, *rest)
    assert output.shape == op.output_shape(empty.shape, *(getattr(value, "shape", None) for value in rest))
    assert output.size == 0


@every_operator
@pytest.mark.parametrize(
    "cells",
    [[1, "a", None, 2.5], [b"1", 2, 3, 4], [object(), 1, 2, 3], [[1], [2, 3], 4, 5]],
    ids=["strings", "bytes", "objects", "lists"],
)
def test_i1_objects_of_mixed_kinds_are_refused(op: Any, rest: tuple[Any, ...], cells: list[Any]) -> None:
    x = np.empty((1, 2, 8, 8), object)
    x[...] = 1
    for place, cell in enumerate(cells):
        x[0, 0, 0, place] = cell
    with pytest.raises(hu.HalfulpError):
        op(x, *rest)


@every_operator
def test_an_array_that_changes_during_the_call_harms_nobody(op: Any, rest: tuple[Any, ...]) -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((1, 2, 12, 40)).astype(np.float32)
    before = x.copy()
    expected = everything(op, before, rest)
    values = rng.permutation(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 1e-45, 3e38], np.float32).repeat(120))
    stop = threading.Event()

    def disturb() -> None:
        while not stop.is_set():
            x.ravel()[:] = values
            x[...] = before

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for _ in range(10):
            for result, right in zip(everything(op, x, rest), expected, strict=True):
                assert result.shape == right.shape
            if isinstance(op, (hu.MaxPool, hu.AdaptiveMaxPool, hu.GlobalMaxPool)):
                indices = hu.kernels.forward_with_indices(op, x)[1]
                assert indices.min() >= -1
                assert indices.max() < 12 * 40
    finally:
        stop.set()
        thread.join()
    for result, right in zip(everything(op, before, rest), expected, strict=True):
        draw.assert_same_bits(result, right, f"{op} afterwards")


@every_operator
def test_sixteen_threads_at_once_get_the_same_bits(op: Any, rest: tuple[Any, ...]) -> None:
    inputs = [draw._sprinkled(np.random.default_rng(seed), (1, 2, 13, 21), np.dtype("f4")) for seed in range(4)]
    expected = [everything(op, x, rest) for x in inputs]

    def call(number: int) -> None:
        for result, right in zip(everything(op, inputs[number % 4], rest), expected[number % 4], strict=True):
            draw.assert_same_bits(result, right, f"{op} in a thread")

    with ThreadPoolExecutor(16) as pool:
        assert len(list(pool.map(call, range(64)))) == 64


def test_windows_far_larger_than_the_array_need_no_memory_for_it() -> None:
    far = 10**9
    x = np.array([3.0, -1.0, 2.0], np.float32)
    for record in (hu.MaxPool, hu.AvgPool):
        op = record((2,), stride=far, padding=far, dilation=far)
        draw.assert_same_bits(op(x), hu.spec.forward(op, x), str(op))
        output, pullback = op.vjp(x)
        draw.assert_same_bits(pullback(output)[0], hu.spec.vjp(op, (x,), output)[0], f"vjp of {op}")


def test_more_cells_than_31_bits_count() -> None:
    x = np.zeros(2**31 + 6, np.int8)  # untouched pages need no memory
    x[-3] = 5
    x[7] = -1
    output, indices = hu.kernels.forward_with_indices(hu.MaxPool((2**30,), stride=2**30, ceil_mode=True), x)
    assert output.tolist() == [0, 0, 5]
    assert indices.tolist() == [0, 2**30, 2**31 + 3]
    assert hu.GlobalMaxPool(1)(x).tolist() == [5]
