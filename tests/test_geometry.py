"""Window arithmetic against brute force: a padded plane is laid out cell by cell, and windows are dropped onto it."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halfulp import ShapeError, geometry
from halfulp.geometry import Axis, Window
from tests import strategies as draw

REAL, PADDING, BEYOND = "real", "padding", "beyond"


def laid_out(axis: Axis) -> list[str]:
    """What every padded coordinate of an axis is; far enough that every window of the tests ends on it."""
    padded = [PADDING] * axis.before + [REAL] * axis.size + [PADDING] * axis.after
    return padded + [BEYOND] * (axis.stride + axis.extent + 1)


def brute_windows(axis: Axis) -> list[list[tuple[str, int]]]:
    """Every window of an axis as (what the cell is, its input coordinate), by sliding from the left."""
    starts = []
    start = 0
    while start + axis.extent <= axis.padded_size:
        starts.append(start)
        start += axis.stride
    if axis.ceil_mode:
        covered = starts[-1] + axis.extent
        if covered < axis.padded_size:
            starts.append(start)  # cells are left over, so one more window reaches past the padding
        if starts[-1] >= axis.before + axis.size:
            starts.pop()  # the last one starts past the input and its leading padding
    cells = laid_out(axis)
    return [
        [(cells[s + w * axis.dilation], s + w * axis.dilation - axis.before) for w in range(axis.kernel)]
        for s in starts
    ]


def room(axis: Axis) -> int:
    return axis.padded_size - axis.extent


@st.composite
def axes(draw_: st.DrawFn) -> Axis:
    kernel, dilation = draw_(st.integers(1, 5)), draw_(st.integers(1, 4))
    before, after = draw_(st.integers(0, 6)), draw_(st.integers(0, 6))
    least = max(0, dilation * (kernel - 1) + 1 - before - after)
    size = least + draw_(st.integers(0, 12))
    return Axis(size, kernel, draw_(st.integers(1, 6)), before, after, dilation, draw_(st.booleans()))


@given(axes())
def test_an_axis_has_the_windows_that_sliding_finds(axis: Axis) -> None:
    expected = brute_windows(axis)
    assert axis.output_size == len(expected)
    for o, window in enumerate(expected):
        assert [position for _, position in window] == list(axis.cells(o))
        assert [position for what, position in window if what == REAL] == list(axis.real_cells(o))
        assert sum(what != BEYOND for what, _ in window) == axis.counted(o)


@given(axes())
def test_floor_mode_is_the_count_of_windows_that_fit(axis: Axis) -> None:
    starts = range(0, room(axis) + 1, axis.stride)
    plain = Axis(axis.size, axis.kernel, axis.stride, axis.before, axis.after, axis.dilation)
    assert plain.output_size == len(starts)


@given(draw.windows(max_ndim=4, max_outputs=3))
def test_windows_of_a_plane_are_the_products_of_those_of_its_axes(window: draw.Window) -> None:
    arguments, sizes = window
    kernel = arguments["kernel_size"]
    stride = arguments["stride"] or kernel
    padding = arguments["padding"]
    if isinstance(padding, int):
        padding = ((padding, padding),) * len(kernel)
    plane = geometry.window_axes("test", sizes, kernel, stride, padding, arguments["dilation"], arguments["ceil_mode"])
    numbers = np.arange(int(np.prod(sizes))).reshape(sizes)
    expected = []
    for choice in product(*(brute_windows(axis) for axis in plane)):
        cells, padded = [], 0
        for taps in product(*choice):
            kinds = [what for what, _ in taps]
            if all(kind == REAL for kind in kinds):
                cells.append(int(numbers[tuple(position for _, position in taps)]))
            elif BEYOND not in kinds:
                padded += 1
        expected.append(Window(tuple(cells), padded))
    assert list(geometry.windows(plane)) == expected


@given(st.integers(0, 30), st.integers(1, 8), st.integers(1, 6), st.integers(1, 5))
def test_same_padding_gives_the_ceiling_of_size_over_stride(size: int, kernel: int, stride: int, dilation: int) -> None:
    for lower in (False, True):
        before, after = geometry.same_padding(size, kernel, stride, dilation, lower)
        assert Axis(size, kernel, stride, before, after, dilation).output_size == -(-size // stride)
        assert Axis(size, kernel, stride, before, after, dilation, True).output_size == -(-size // stride)
        assert (before - after if lower else after - before) in (0, 1)
        if size and before + after:  # and it is the least that does: one cell less loses a window
            short = Axis(size, kernel, stride, 0, before + after - 1, dilation)
            assert short.padded_size < short.extent or short.output_size < -(-size // stride)


@given(st.data())
def test_resolve_padding(data: Any) -> None:
    ndim = data.draw(st.integers(1, 4))
    sizes, kernel, stride, dilation = (
        data.draw(st.lists(st.integers(1, 6), min_size=ndim, max_size=ndim)) for _ in range(4)
    )
    assert geometry.resolve_padding("valid", sizes, kernel, stride, dilation) == ((0, 0),) * ndim
    given_pairs = ((1, 2),) * ndim
    assert geometry.resolve_padding(given_pairs, sizes, kernel, stride, dilation) == given_pairs
    same = geometry.resolve_padding("same", sizes, kernel, stride, dilation)
    lower = geometry.resolve_padding("same_lower", sizes, kernel, stride, dilation)
    assert lower == tuple((after, before) for before, after in same)
    assert [b + a for b, a in same] == [
        max(0, (-(-n // s) - 1) * s + d * (k - 1) + 1 - n)
        for n, k, s, d in zip(sizes, kernel, stride, dilation, strict=True)
    ]


@given(st.integers(0, 40), st.integers(1, 40))
def test_adaptive_bins_are_floor_and_ceiling_of_exact_fractions(size: int, bins: int) -> None:
    cells = [
        # cell c is in bin i exactly if the intervals [c, c + 1) and [i * size / bins, (i + 1) * size / bins) meet
        [c for c in range(size) if c * bins < (i + 1) * size and (c + 1) * bins > i * size]
        for i in range(bins)
    ]
    for i, expected in enumerate(cells):
        assert list(range(geometry.adaptive_start(size, bins, i), geometry.adaptive_end(size, bins, i))) == expected
    assert [list(w.cells) for w in geometry.adaptive_windows([size], [bins])] == cells
    assert all(w.padded == 0 for w in geometry.adaptive_windows([size], [bins]))


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=4))
def test_adaptive_bins_of_a_plane_cover_it(pairs: list[tuple[int, int]]) -> None:
    sizes, bins = zip(*pairs, strict=True)
    numbers = np.arange(int(np.prod(sizes))).reshape(sizes)
    found = list(geometry.adaptive_windows(sizes, bins))
    expected = []
    for index in np.ndindex(*bins):
        block = numbers[
            tuple(
                slice(geometry.adaptive_start(n, m, i), geometry.adaptive_end(n, m, i))
                for n, m, i in zip(sizes, bins, index, strict=True)
            )
        ]
        expected.append(tuple(block.ravel().tolist()))
    assert [w.cells for w in found] == expected
    assert set().union(*expected) == set(range(numbers.size))


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=4))
def test_flat_index_is_the_row_major_one(pairs: list[tuple[int, int]]) -> None:
    sizes = [n for n, _ in pairs]
    position = [p % n for n, p in pairs]
    assert geometry.flat_index(position, sizes) == int(np.ravel_multi_index(position, sizes))


@given(st.data())
def test_unpad_inverts_padding(data: Any) -> None:
    pairs = data.draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=4))
    leading = data.draw(st.sampled_from([(), (2,), (2, 3)]))
    inner = tuple(data.draw(st.integers(0, 3)) for _ in pairs)
    array = np.arange(int(np.prod(leading + inner))).reshape(leading + inner)
    padded = np.pad(array, [(0, 0)] * len(leading) + pairs, constant_values=-1)
    assert np.array_equal(geometry.unpad(padded, pairs), array)
    if all(before == after for before, after in pairs):
        assert np.array_equal(geometry.unpad(padded, [before for before, _ in pairs]), array)


def test_unpad_of_one_integer_means_an_image() -> None:
    channels = np.arange(2 * 5 * 6).reshape(2, 5, 6)
    assert np.array_equal(geometry.unpad(channels, 1), channels[:, 1:-1, 1:-1])
    assert np.array_equal(geometry.unpad(channels, 0), channels)


@pytest.mark.parametrize(
    ("array", "padding", "text"),
    [
        (np.zeros(3), 1, "unpad: padding=1: names 2 axes, but the array has 1 [W7]"),
        (np.zeros((3, 3)), -1, "unpad: padding=-1: every padding must be >= 0 [W2]"),
        (np.zeros((3, 3)), 2, "unpad: padding=2: removes more than the 3 cells of an axis [W5]"),
    ],
)
def test_unpad_refuses(array: Any, padding: Any, text: str) -> None:
    with pytest.raises(ShapeError) as caught:
        geometry.unpad(array, padding)
    assert str(caught.value) == text
