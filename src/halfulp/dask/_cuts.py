"""How an axis is cut: which outputs belong to a chunk, and the piece of the input that they need.

Plain arithmetic over `geometry.Axis`, without Dask. A cut never changes a window: the operator that runs on a piece
gets a padding of its own, with which its windows are those of the whole array.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd

from halfulp.geometry import Axis

__all__ = ["Part", "bounds_of", "cut_bins", "cut_transposed", "cut_whole", "cut_window", "pieces"]


@dataclass(frozen=True, slots=True)
class Part:
    """One output chunk of an axis: ``count`` outputs that need the input cells [lo, hi).

    ``before`` and ``after`` are the padding of the operator on those cells; its first ``skip`` outputs are left out.
    """

    count: int
    lo: int
    hi: int
    before: int = 0
    after: int = 0
    skip: int = 0


def bounds_of(chunks: Iterable[int]) -> list[int]:
    """The ends of the chunks, from 0 on.

    >>> bounds_of((3, 0, 2))
    [0, 3, 3, 5]
    """
    ends = [0]
    for size in chunks:
        ends.append(ends[-1] + int(size))
    return ends


def cut_whole(count: int, size: int) -> list[Part]:
    """All outputs of an axis as one part."""
    return [Part(count, 0, size)]


def cut_window(axis: Axis, chunks: Sequence[int]) -> list[Part]:
    """The outputs of a sliding window: each belongs to the chunk that its window's middle lies in.

    >>> cut_window(Axis(size=6, kernel=3, before=1, after=1), (3, 3))
    [Part(count=3, lo=0, hi=4, before=1, after=0, skip=0), Part(count=3, lo=2, hi=6, before=0, after=1, skip=0)]
    """
    total, half = axis.output_size, (axis.extent - 1) // 2
    ends = [min(max(-((half - axis.before - end) // axis.stride), 0), total) for end in bounds_of(chunks)]
    ends[0], ends[-1] = 0, total
    return [_window_part(axis, start, stop) for start, stop in pairwise(ends) if stop > start]


def _window_part(axis: Axis, start: int, stop: int) -> Part:
    """The cells under the windows [start, stop), and the padding that makes them the windows of the piece."""
    stride, extent, before = axis.stride, axis.extent, axis.before
    # Windows that lie in the padding alone have no cells: the piece then reaches to the nearest window that has.
    first = min(start, (axis.size - 1 + before) // stride)
    last = max(stop - 1, -((extent - 1 - before) // stride))
    overhangs = last * stride + extent > axis.padded_size  # only ceil_mode does
    if overhangs:
        first = min(first, (axis.padded_size - extent) // stride)
    lo = max(0, first * stride - before)
    hi = min(axis.size, last * stride - before + extent)
    ahead = lo - (first * stride - before)
    padded = axis.padded_size - first * stride if overhangs else (last - first) * stride + extent
    behind = padded - ahead - (hi - lo)
    if axis.ceil_mode and not overhangs and (last - first) * stride >= ahead + hi - lo:
        behind += stride  # ceil_mode drops a last window past the input: one more for it to drop
    return Part(stop - start, lo, hi, ahead, behind, start - first)


def cut_bins(size: int, count: int, chunks: Sequence[int]) -> list[Part]:
    """The bins of an adaptive pooling, in whole periods: after ``size / gcd`` cells the bins repeat.

    >>> cut_bins(12, 4, (6, 6))
    [Part(count=2, lo=0, hi=6, before=0, after=0, skip=0), Part(count=2, lo=6, hi=12, before=0, after=0, skip=0)]
    """
    common = gcd(size, count)
    if not common:
        return cut_whole(count, size)
    cells, bins = size // common, count // common
    ends = [end // cells for end in bounds_of(chunks)]
    ends[-1] = common
    return [Part((b - a) * bins, a * cells, b * cells) for a, b in pairwise(ends) if b > a]


def cut_transposed(axis: Axis, size: int, chunks: Sequence[int]) -> list[Part]:
    """The outputs of a transposed convolution; ``axis`` is that of the convolution, ``size`` the input's size.

    ``skip`` counts from the first cell that the piece gives without padding.
    """
    stride, extent, before, total = axis.stride, axis.extent, axis.before, axis.size
    half = (extent - 1) // 2
    ends = [min(max(end * stride - before + half, 0), total) for end in bounds_of(chunks)]
    ends[0], ends[-1] = 0, total
    parts = []
    for start, stop in pairwise(ends):
        if stop > start:
            lo = min(max(0, -((extent - 1 - start - before) // stride) - 1), size - 1)
            hi = min(size, max((stop - 1 + before) // stride + 2, lo + 1))
            parts.append(Part(stop - start, lo, hi, skip=start + before - lo * stride))
    return parts


def pieces(ends: Sequence[int], lo: int, hi: int) -> list[tuple[int, int, int]]:
    """(chunk, start, stop) of every piece of [lo, hi), within its chunk.

    >>> pieces([0, 3, 3, 5], 2, 4)
    [(0, 2, 3), (2, 0, 1)]
    """
    found = []
    for index in range(bisect_right(ends, lo) - 1, bisect_left(ends, hi)):
        start, stop = ends[index], ends[index + 1]
        if stop > start:
            found.append((index, max(lo, start) - start, min(hi, stop) - start))
    return found or [(0, 0, 0)]
