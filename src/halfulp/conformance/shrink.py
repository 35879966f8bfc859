"""Making a failing case small: fewer cells, plainer parameters, simpler numbers, while it still fails the same way.

Greedy, in rounds: every simplification that keeps the failure is kept. Structure goes first, since it removes the most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from halfulp.conformance.cases import Arrays
from halfulp.errors import HalfulpError
from halfulp.records import Array, Conv, ConvTranspose, Operator, Shape

__all__ = ["Sample", "shrink"]


@dataclass(frozen=True)
class Sample:
    """A record with arrays, no longer tied to a setting."""

    op: Operator
    arrays: Arrays

    @property
    def weight(self) -> int:
        """How much there is to look at."""
        return sum(a.size for a in self.arrays.primals if a is not None)


def shrink(
    sample: Sample, fails: Callable[[Sample], bool], mode: str = "vjp", seconds: float = 2.0, tries: int = 600
) -> Sample:
    """The smallest sample found that still fails; the sample itself if it does not fail at all."""
    deadline = time.monotonic() + seconds
    left = tries
    if not fails(sample):
        return sample
    progress = True
    while progress:
        progress = False
        for candidate in _simpler(sample):
            if left <= 0 or time.monotonic() > deadline:
                return sample
            left -= 1
            if _still_fails(candidate, fails):
                sample, progress = candidate, True
                break
    return _with_simple_numbers(sample, fails, mode, deadline, left)


def _still_fails(candidate: Sample, fails: Callable[[Sample], bool]) -> bool:
    try:
        return fails(candidate)
    except (HalfulpError, ValueError, IndexError):  # a simplification that makes no sense here
        return False


def _simpler(sample: Sample) -> Iterator[Sample]:
    """Samples with less structure, the boldest first."""
    for op, arrays in (
        *_plain_layout(sample),
        *_fewer_planes(sample),
        *_plainer_records(sample),
        *_fewer_cells(sample),
    ):
        fitted = _fitted(op, arrays)
        if fitted is not None:
            yield fitted


def _fitted(op: Operator, arrays: Arrays) -> Sample | None:
    """The sample with a cotangent of the right shape, if the record takes these arrays at all."""
    try:
        shape = op.output_shape(*(None if a is None else a.shape for a in arrays.primals))  # type: ignore[arg-type]
    except HalfulpError:
        return None
    return Sample(op, replace(arrays, cotangent=_resized(arrays.cotangent, shape)))


def _resized(array: Array, shape: Shape) -> Array:
    """The array cut to a shape; where it has nothing, ones."""
    if array.shape == shape:
        return array
    grown = np.ones(shape, array.dtype)
    if array.ndim == len(shape):
        overlap = tuple(slice(min(a, b)) for a, b in zip(array.shape, shape, strict=True))
        grown[overlap] = array[overlap]
    return grown


def _sliced(arrays: Arrays, position: int, index: tuple[Any, ...]) -> Arrays:
    """One input and its tangent, cut alike; the order of the axes in memory stays."""

    def cut(given: tuple[Array | None, ...]) -> tuple[Array | None, ...]:
        return tuple(a[index].copy(order="K") if i == position and a is not None else a for i, a in enumerate(given))

    return replace(arrays, primals=cut(arrays.primals), tangents=cut(arrays.tangents))


def _plain_layout(sample: Sample) -> Iterator[tuple[Operator, Arrays]]:
    """The input in row-major order."""
    arrays = sample.arrays
    x, tangent = arrays.primals[0], arrays.tangents[0]
    if x is not None and tangent is not None and not x.flags.c_contiguous:
        yield (
            sample.op,
            replace(
                arrays,
                primals=(np.ascontiguousarray(x), *arrays.primals[1:]),
                tangents=(np.ascontiguousarray(tangent), *arrays.tangents[1:]),
            ),
        )


def _fewer_planes(sample: Sample) -> Iterator[tuple[Operator, Arrays]]:
    """One sample of the batch, one channel; for convolutions, fewer channels and no groups."""
    op, arrays = sample.op, sample.arrays
    x = arrays.primals[0]
    assert x is not None
    ndim = getattr(op, "ndim", 0)
    convolution = isinstance(op, (Conv, ConvTranspose))
    for axis in range(x.ndim - ndim - (1 if convolution else 0)):
        for part in _parts_of_axis(x.shape[axis]):
            index = (slice(None),) * axis + (part,)
            cut = _sliced(arrays, 0, index)
            same = arrays.cotangent.ndim > axis and arrays.cotangent.shape[axis] == x.shape[axis]
            yield op, replace(cut, cotangent=arrays.cotangent[index]) if same else cut
    if convolution:
        yield from _fewer_channels(op, arrays, x, ndim)


def _parts_of_axis(size: int) -> list[slice]:
    """Halves of a long axis, single indices of a short one."""
    if size > 4:
        return [slice(0, size // 2), slice(size // 2, size)]
    return [slice(i, i + 1) for i in range(size)] if size > 1 else []


def _fewer_channels(op: Any, arrays: Arrays, x: Array, ndim: int) -> Iterator[tuple[Operator, Arrays]]:
    weight = arrays.primals[1]
    assert weight is not None
    if len(arrays.primals) > 2 and arrays.primals[2] is not None:
        yield op, replace(arrays, primals=(*arrays.primals[:2], None), tangents=(*arrays.tangents[:2], None))
    if op.groups > 1:
        return
    inputs_axis, outputs_axis = (1, 0) if isinstance(op, Conv) else (0, 1)
    for keep in _parts_of_axis(weight.shape[inputs_axis]):
        smaller = _sliced(arrays, 0, (..., keep, *(slice(None),) * ndim))
        yield op, _sliced(smaller, 1, (slice(None),) * inputs_axis + (keep,))
    if weight.shape[outputs_axis] > 1:
        cut = _sliced(arrays, 1, (slice(None),) * outputs_axis + (slice(0, 1),))
        yield op, _sliced(cut, 2, (slice(0, 1),))


def _plainer_records(sample: Sample) -> Iterator[tuple[Operator, Arrays]]:
    """The same arrays under plainer parameters."""
    op: Any = sample.op
    known = {field.name for field in fields(op)}
    for field, plain in (
        ("ceil_mode", False),
        ("dilation", 1),
        ("stride", 1),
        ("padding", 0),
        ("output_padding", 0),
        ("divisor_override", None),
        ("count_include_pad", True),
        ("keepdims", True),
    ):
        if field in known:
            yield from _changed(op, field, plain, sample.arrays)
    for field in ("kernel_size", "output_size", "padding"):
        if field in known:
            yield from _smaller_field(op, field, sample.arrays)


def _changed(op: Any, field: str, value: Any, arrays: Arrays) -> Iterator[tuple[Operator, Arrays]]:
    try:
        plainer = replace(op, **{field: value})
    except HalfulpError:
        return
    if plainer != op:
        yield plainer, arrays


def _smaller_field(op: Any, field: str, arrays: Arrays) -> Iterator[tuple[Operator, Arrays]]:
    """One axis of a sequence at a time, one smaller."""
    sizes = getattr(op, field, None)
    if not isinstance(sizes, tuple):
        return
    for axis, size in enumerate(sizes):
        least = 0 if field == "padding" else 1
        lowered: list[Any] = []
        if isinstance(size, tuple):
            lowered = [tuple(max(0, side - 1) for side in size)]
        elif size is not None and size > least:
            lowered = [size - 1]
        for value in lowered:
            yield from _changed(op, field, (*sizes[:axis], value, *sizes[axis + 1 :]), arrays)


def _fewer_cells(sample: Sample) -> Iterator[tuple[Operator, Arrays]]:
    """Without the last, or the first, cell of an axis; for convolutions, of the kernel too."""
    op, arrays = sample.op, sample.arrays
    ndim = getattr(op, "ndim", 0)
    positions = (0, 1) if isinstance(op, (Conv, ConvTranspose)) else (0,)
    for position in positions:
        array = arrays.primals[position]
        assert array is not None
        for axis in range(array.ndim - ndim, array.ndim):
            if array.shape[axis] > 1:
                for cut in (slice(0, -1), slice(1, None)):
                    yield op, _sliced(arrays, position, (slice(None),) * axis + (cut,))


def _with_simple_numbers(
    sample: Sample, fails: Callable[[Sample], bool], mode: str, deadline: float, left: int
) -> Sample:
    """Zeros and ones wherever the failure allows, then numbers with few digits."""
    for part, position in _parts(sample, mode):
        zeros = _with_array(sample, part, position, np.zeros_like(_part(sample, part, position)))
        if _still_fails(zeros, fails):
            sample = zeros
            continue
        for flat in range(_part(sample, part, position).size):
            for value in _plainer_numbers(_part(sample, part, position).ravel()[flat]):
                if left <= 0 or time.monotonic() > deadline:
                    return sample
                left -= 1
                candidate = _with_number(sample, part, position, flat, value)
                if _still_fails(candidate, fails):
                    sample = candidate
                    break
    return sample


def _parts(sample: Sample, mode: str) -> list[tuple[str, int]]:
    """The arrays that a mode looks at."""
    parts = [("primals", i) for i, a in enumerate(sample.arrays.primals) if a is not None]
    if mode == "jvp":
        parts += [("tangents", i) for i, a in enumerate(sample.arrays.tangents) if a is not None]
    return [*parts, ("cotangent", 0)] if mode == "vjp" else parts


def _part(sample: Sample, part: str, position: int) -> Array:
    found = getattr(sample.arrays, part)
    return np.asarray(found if part == "cotangent" else found[position])


def _plainer_numbers(value: Any) -> list[float]:
    """Simpler numbers to try in place of one, the simplest first; nothing if it is simple already."""
    number = float(value)
    if number in (0.0, 1.0) and not np.signbit(value):
        return []
    candidates = [0.0, 1.0]
    if np.isfinite(number):
        candidates += [float(np.sign(number)), float(round(number)), float(f"{number:.2g}")]
    return [c for c in dict.fromkeys(candidates) if c != number]


def _with_number(sample: Sample, part: str, position: int, flat: int, value: float) -> Sample:
    array = np.array(_part(sample, part, position), order="K")
    array.flat[flat] = value
    return _with_array(sample, part, position, array)


def _with_array(sample: Sample, part: str, position: int, array: Array) -> Sample:
    if part == "cotangent":
        return replace(sample, arrays=replace(sample.arrays, cotangent=array))
    given = getattr(sample.arrays, part)
    changed = tuple(array if i == position else a for i, a in enumerate(given))
    arrays = sample.arrays
    arrays = replace(arrays, primals=changed) if part == "primals" else replace(arrays, tangents=changed)
    return replace(sample, arrays=arrays)
