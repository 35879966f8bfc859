"""Records are values: equal by content, hashable, frozen, and printed as the call that makes them."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, fields, replace
from fractions import Fraction
from typing import Any

import flint
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import halfulp as hu
from halfulp.geometry import Axis
from tests import strategies as draw

NAMES = {name: getattr(hu, name) for name in hu.__all__} | {"Fraction": Fraction}

READABLE = [
    (hu.MaxPool((2, 2)), "MaxPool((2, 2))"),
    (hu.MaxPool((2, 2), 2), "MaxPool((2, 2))"),
    (hu.MaxPool([3, 3], stride=2, padding=1), "MaxPool((3, 3), stride=2, padding=1)"),
    (hu.MaxPool((3, 2), stride=(1, 2), padding=(1, 0)), "MaxPool((3, 2), stride=(1, 2), padding=(1, 0))"),
    (hu.MaxPool((3,), padding=[(1, 2)], ties="last"), "MaxPool((3,), padding=((1, 2),), ties='last')"),
    (hu.MaxPool((3,), padding="same", nan="ignore"), "MaxPool((3,), padding='same', nan='ignore')"),
    (hu.AvgPool(3, padding=(1, 1), ceil_mode=True), "AvgPool((3, 3), padding=1, ceil_mode=True)"),
    (
        hu.AvgPool((2,), count_include_pad=False, divisor_override=3, dilation=2),
        "AvgPool((2,), count_include_pad=False, divisor_override=3, dilation=2)",
    ),
    (hu.SmoothMaxPool((2, 2), 0.5), "SmoothMaxPool((2, 2), beta=0.5)"),
    (hu.SmoothMaxPool((2,), flint.fmpq(1, 3)), "SmoothMaxPool((2,), beta=Fraction(1, 3))"),
    (hu.AdaptiveAvgPool((3, None)), "AdaptiveAvgPool((3, None))"),
    (hu.AdaptiveMaxPool([1], ties="split"), "AdaptiveMaxPool((1,), ties='split')"),
    (hu.GlobalAvgPool(2, keepdims=False), "GlobalAvgPool(2, keepdims=False)"),
    (hu.GlobalMaxPool(3, ties="first"), "GlobalMaxPool(3, ties='first')"),
    (hu.Conv(2, padding=1, groups=2), "Conv(2, padding=1, groups=2)"),
    (hu.Conv(1, padding="same_lower", precision="fast"), "Conv(1, padding='same_lower', precision='fast')"),
    (hu.ConvTranspose(2, stride=2, output_padding=1), "ConvTranspose(2, stride=2, output_padding=1)"),
    (
        hu.ConvTranspose(2, stride=(2, 3), output_padding=(1, 0)),
        "ConvTranspose(2, stride=(2, 3), output_padding=(1, 0))",
    ),
]


@pytest.mark.parametrize(("op", "text"), READABLE)
def test_repr_is_the_shortest_call(op: hu.Operator, text: str) -> None:
    assert repr(op) == text
    assert eval(text, dict(NAMES)) == op


@pytest.mark.parametrize("op", [op for op, _ in READABLE])
def test_frozen_hashable_and_picklable(op: Any) -> None:
    name = fields(op)[0].name
    with pytest.raises(FrozenInstanceError):
        setattr(op, name, 1)
    same = replace(op)
    assert same == op
    assert hash(same) == hash(op)
    assert {op: 1}[same] == 1
    assert pickle.loads(pickle.dumps(op)) == op


def test_equality_is_of_content_and_of_type() -> None:
    assert hu.MaxPool((2, 2), stride=2) == hu.MaxPool(2, stride=(2, 2)) == hu.MaxPool(np.array([2, 2]))
    assert hu.MaxPool((2, 2), padding=1) == hu.MaxPool((2, 2), padding=((1, 1), (1, 1)))
    assert hu.MaxPool((2, 2)) != hu.MaxPool((2, 2), ties="last")
    assert hu.MaxPool((2, 2)) != hu.AvgPool((2, 2))
    assert hu.GlobalAvgPool(2) != hu.GlobalMaxPool(2)
    assert len({op for op, _ in READABLE}) == len(READABLE) - 1  # the first two are one


@given(draw.windows(max_ndim=4), draw.ties, draw.nan_policies)
def test_any_window_record_evaluates_back_and_has_normal_fields(window: draw.Window, ties: str, nan: str) -> None:
    op = hu.MaxPool(**window.arguments, ties=ties, nan=nan)
    assert eval(repr(op), dict(NAMES)) == op
    ndim = len(window.spatial)
    assert op.ndim == ndim
    assert op.name == (f"max_pool{ndim}d" if ndim < 4 else "max_pool")
    for value in (op.kernel_size, op.stride, op.dilation):
        assert len(value) == ndim
        assert all(type(item) is int for item in value)
    assert isinstance(op.padding, str) or all(len(pair) == 2 for pair in op.padding)
    average = hu.AvgPool(**window.arguments, count_include_pad=ties == "all")
    smooth = hu.SmoothMaxPool(**window.arguments, beta=2.5)
    assert eval(repr(average), dict(NAMES)) == average
    assert eval(repr(smooth), dict(NAMES)) == smooth
    assert op.output_shape((5, *window.spatial)) == average.output_shape((5, *window.spatial))


@given(draw.windows(max_ndim=4), draw.leading_axes)
def test_output_shape_of_windows(window: draw.Window, leading: tuple[int, ...]) -> None:
    op = hu.MaxPool(**window.arguments)
    axes = op.axes(window.spatial)
    assert op.output_shape(leading + window.spatial) == leading + tuple(axis.output_size for axis in axes)
    assert all(isinstance(axis, Axis) for axis in axes)
    assert op.output_shape(leading + window.spatial) == hu.spec.forward(op, np.zeros(leading + window.spatial)).shape


@given(st.lists(st.tuples(st.integers(0, 6), st.none() | st.integers(1, 6)), min_size=1, max_size=4))
def test_output_shape_of_adaptive_and_global(pairs: list[tuple[int, int | None]]) -> None:
    sizes = tuple(n for n, _ in pairs)
    wanted = tuple(m for _, m in pairs)
    expected = tuple(n if m is None else m for n, m in pairs)
    assert hu.AdaptiveAvgPool(wanted).output_shape((2, *sizes)) == (2, *expected)
    assert hu.AdaptiveMaxPool(wanted).output_shape(sizes) == expected
    ones = (1,) * len(pairs)
    for record in (hu.GlobalAvgPool, hu.GlobalMaxPool):
        assert record(len(pairs)).output_shape((2, *sizes)) == (2, *ones)
        assert record(len(pairs), keepdims=False).output_shape((2, *sizes)) == (2,)


@given(st.data())
def test_output_shape_of_convolutions(data: Any) -> None:
    ndim = data.draw(st.integers(1, 4))
    numbers = [
        tuple(data.draw(st.integers(low, high)) for _ in range(ndim))
        for low, high in ((1, 3), (1, 3), (1, 3), (0, 2), (1, 9))
    ]
    kernel, stride, dilation, padding, extra = numbers
    groups = data.draw(st.integers(1, 3))
    spatial = tuple(d * (k - 1) + e for d, k, e in zip(dilation, kernel, extra, strict=True))
    leading = data.draw(st.sampled_from([(), (2,), (0,)]))
    x, weight = (*leading, 2 * groups, *spatial), (3 * groups, 2, *kernel)
    op = hu.Conv(ndim, stride, padding, dilation, groups)
    output = op.output_shape(x, weight, (3 * groups,))
    sizes = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip(spatial, padding, dilation, kernel, stride, strict=True)
    ]
    assert output == (*leading, 3 * groups, *sizes)
    # the transposed convolution leads back, with as much output padding as the floor above took away
    lost = [
        (n + 2 * p - d * (k - 1) - 1) % s
        for n, p, d, k, s in zip(spatial, padding, dilation, kernel, stride, strict=True)
    ]
    back = hu.ConvTranspose(ndim, stride, padding, lost, dilation, groups)
    assert back.output_shape(output, weight) == x
    assert back.name == (f"conv_transpose{ndim}d" if ndim < 4 else "conv_transpose")


def test_same_padding_of_convolutions() -> None:
    assert hu.Conv(1, stride=2, padding="same").output_shape((1, 7), (1, 1, 3)) == (1, 4)
    assert hu.ConvTranspose(1, stride=2, padding="same").output_shape((1, 7), (1, 1, 3)) == (1, 14)
    assert hu.ConvTranspose(1, stride=2, padding="same_lower").output_shape((1, 7), (1, 1, 4)) == (1, 14)
    assert hu.Conv(2, padding="valid") != hu.Conv(2)
    assert hu.Conv(2, padding="valid").output_shape((1, 4, 4), (1, 1, 3, 3)) == (1, 2, 2)
