"""Window arithmetic, for any number of spatial axes.

One axis of a window is an :class:`Axis`; a whole window is a sequence of them. Coordinates along an axis:
the padded coordinate of offset ``w`` in window ``o`` is ``o * stride + w * dilation``; the input cell is that minus
``before``. A padded coordinate is *real* if its input cell exists, *padding* if it lies in the padding around the
input, and *beyond* if only ``ceil_mode`` reaches it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from numpy.typing import NDArray

from halfulp.errors import ShapeError

__all__ = [
    "Axis",
    "Padding",
    "PaddingMode",
    "Window",
    "adaptive_end",
    "adaptive_start",
    "adaptive_windows",
    "flat_index",
    "fractional_starts",
    "resolve_padding",
    "same_padding",
    "unpad",
    "windows",
]

PaddingMode: TypeAlias = Literal["valid", "same", "same_lower"]
Padding: TypeAlias = tuple[tuple[int, int], ...] | PaddingMode
"""Padding of a record: a pair (before, after) per axis, or a mode that depends on the input's size."""

PADDING_MODES: Final = ("valid", "same", "same_lower")
_LARGEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Axis:
    """One spatial axis of a window operator.

    >>> Axis(size=5, kernel=3, stride=2, before=1, after=1).output_size
    3
    >>> list(Axis(size=5, kernel=3, stride=2, before=1, after=1).cells(0))
    [-1, 0, 1]
    """

    size: int
    kernel: int
    stride: int = 1
    before: int = 0
    after: int = 0
    dilation: int = 1
    ceil_mode: bool = False

    @property
    def extent(self) -> int:
        """How many cells the window spans, dilation included."""
        return self.dilation * (self.kernel - 1) + 1

    @property
    def padded_size(self) -> int:
        """The input's size with its padding."""
        return self.before + self.size + self.after

    @property
    def output_size(self) -> int:
        """The number of windows.

        floor((padded_size - extent) / stride) + 1; ceil_mode takes the ceiling and then drops a last window that
        would start past the input and its leading padding.
        """
        room = self.padded_size - self.extent
        if not self.ceil_mode:
            return room // self.stride + 1
        count = -(-room // self.stride) + 1
        return count - 1 if (count - 1) * self.stride >= self.size + self.before else count

    def cells(self, output: int) -> range:
        """The input coordinates of window ``output``; those outside [0, size) are padding or beyond it."""
        start = output * self.stride - self.before
        return range(start, start + self.extent, self.dilation)

    def real_cells(self, output: int) -> range:
        """The coordinates of :meth:`cells` that are input cells."""
        start = output * self.stride - self.before
        first = max(0, -(start // self.dilation))
        stop = min(self.kernel, -((start - self.size) // self.dilation))
        if first >= stop:
            return range(0)
        return range(start + first * self.dilation, start + (stop - 1) * self.dilation + 1, self.dilation)

    def counted(self, output: int) -> int:
        """How many cells of the window lie in the input or its padding, not beyond."""
        start = output * self.stride
        return min(self.kernel, -((start - self.padded_size) // self.dilation))


class Window(NamedTuple):
    """One window: the flat indices of its real cells in row-major order, and how many of its cells are padding."""

    cells: tuple[int, ...]
    padded: int


def same_padding(size: int, kernel: int, stride: int, dilation: int, lower: bool = False) -> tuple[int, int]:
    """The (before, after) that makes the output ceil(size / stride); the odd cell goes after, or before if ``lower``.

    >>> same_padding(size=6, kernel=3, stride=2, dilation=1)
    (0, 1)
    >>> same_padding(size=6, kernel=3, stride=2, dilation=1, lower=True)
    (1, 0)
    """
    output = -(-size // stride)
    total = max(0, (output - 1) * stride + dilation * (kernel - 1) + 1 - size)
    small, large = total // 2, total - total // 2
    return (large, small) if lower else (small, large)


def resolve_padding(
    padding: Padding,
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
) -> tuple[tuple[int, int], ...]:
    """The pairs that a record's padding means for an input of these sizes.

    >>> resolve_padding("same", (5, 6), (2, 2), (1, 1), (1, 1))
    ((0, 1), (0, 1))
    """
    if not isinstance(padding, str):
        return padding
    if padding == "valid":
        return ((0, 0),) * len(sizes)
    lower = padding == "same_lower"
    return tuple(same_padding(n, k, s, d, lower) for n, k, s, d in zip(sizes, kernel, stride, dilation, strict=True))


def window_axes(
    operator: str,
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Padding,
    dilation: Sequence[int],
    ceil_mode: bool = False,
) -> tuple[Axis, ...]:
    """The axes of a window operator on an input of these sizes; a window that does not fit is an error."""
    pairs = resolve_padding(padding, sizes, kernel, stride, dilation)
    axes = tuple(
        Axis(n, k, s, before, after, d, ceil_mode)
        for n, k, s, (before, after), d in zip(sizes, kernel, stride, pairs, dilation, strict=True)
    )
    for axis in axes:
        if axis.padded_size + axis.extent + axis.stride > _LARGEST:
            raise ShapeError(
                operator, f"spatial shape={tuple(sizes)}", "the window arithmetic must fit in 64 bits", "I7"
            )
        if axis.extent > axis.padded_size and padding not in ("same", "same_lower"):
            raise ShapeError(
                operator,
                f"kernel_size={tuple(kernel)}, dilation={tuple(dilation)}",
                f"the window spans {tuple(a.extent for a in axes)} cells, but the padded input has only "
                f"{tuple(a.padded_size for a in axes)}",
                "W5",
            )
    return axes


def windows(axes: Sequence[Axis]) -> Iterator[Window]:
    """Every window of a plane, in row-major order of the outputs.

    >>> list(windows([Axis(size=3, kernel=2, stride=2, before=1)]))
    [Window(cells=(0,), padded=1), Window(cells=(1, 2), padded=0)]
    """
    sizes = tuple(axis.size for axis in axes)
    per_axis = [[(axis.real_cells(o), axis.counted(o)) for o in range(axis.output_size)] for axis in axes]
    for choice in product(*per_axis):
        ranges = [real for real, _ in choice]
        cells = tuple(flat_index(position, sizes) for position in product(*ranges))
        yield Window(cells, math.prod(counted for _, counted in choice) - len(cells))


def adaptive_start(input_size: int, output_size: int, index: int) -> int:
    """The first cell of adaptive bin ``index``: floor(index * input_size / output_size).

    >>> [adaptive_start(7, 3, i) for i in range(3)]
    [0, 2, 4]
    """
    return index * input_size // output_size


def adaptive_end(input_size: int, output_size: int, index: int) -> int:
    """One past the last cell of adaptive bin ``index``: ceil((index + 1) * input_size / output_size).

    >>> [adaptive_end(7, 3, i) for i in range(3)]
    [3, 5, 7]
    """
    return -(-(index + 1) * input_size // output_size)


def adaptive_windows(sizes: Sequence[int], output_sizes: Sequence[int]) -> Iterator[Window]:
    """Every adaptive bin of a plane, in row-major order of the outputs.

    >>> [w.cells for w in adaptive_windows([3], [2])]
    [(0, 1), (1, 2)]
    """
    per_axis = [
        [range(adaptive_start(n, m, i), adaptive_end(n, m, i)) for i in range(m)]
        for n, m in zip(sizes, output_sizes, strict=True)
    ]
    for ranges in product(*per_axis):
        yield Window(tuple(flat_index(position, sizes) for position in product(*ranges)), 0)


def fractional_starts(sample: Any, input_size: int, output_size: int, kernel: int) -> list[int]:
    """The first cells of the windows of fractional max pooling along one axis, in the arithmetic of the sample's type.

    A start that a narrow type rounds beyond the last window is that of the last window.

    >>> fractional_starts(0.5, 10, 4, 2)
    [0, 3, 5, 8]
    """
    last = input_size - kernel
    if output_size == 1:
        return [last]
    number = type(sample)
    alpha = number(last) / number(output_size - 1)
    first = _truncated(sample * alpha, last)
    starts = [_truncated((number(i) + sample) * alpha, last + first) - first for i in range(output_size - 1)]
    return [min(max(start, 0), last) for start in starts] + [last]


def _truncated(value: Any, most: int) -> int:
    """The integer part of a number >= 0; ``most`` if it is larger than that or not a number at all."""
    return math.floor(value) if value <= most else most


def flat_index(position: Iterable[int], sizes: Sequence[int]) -> int:
    """The row-major index of a position in a plane of these sizes.

    >>> flat_index((1, 2), (3, 4))
    6
    """
    index = 0
    for coordinate, size in zip(position, sizes, strict=True):
        index = index * size + coordinate
    return index


def unpad(array: NDArray[Any], padding: int | Sequence[int | tuple[int, int]]) -> NDArray[Any]:
    """Remove padding from the last axes of an array: the inverse of padding it.

    ``padding`` is one integer or pair per spatial axis; an integer alone means the last two axes, as for an image.

    >>> unpad(np.arange(16).reshape(4, 4), 1)
    array([[ 5,  6],
           [ 9, 10]])
    >>> unpad(np.arange(5), [(1, 2)])
    array([1, 2])
    """
    given: Sequence[int | tuple[int, int]] = (padding, padding) if isinstance(padding, int) else padding
    pairs = [(p, p) if isinstance(p, int) else p for p in given]
    if len(pairs) > array.ndim:
        raise ShapeError(
            "unpad", f"padding={padding}", f"names {len(pairs)} axes, but the array has {array.ndim}", "W7"
        )
    sizes = array.shape[array.ndim - len(pairs) :]
    for size, (before, after) in zip(sizes, pairs, strict=True):
        if before < 0 or after < 0:
            raise ShapeError("unpad", f"padding={padding}", "every padding must be >= 0", "W2")
        if before + after > size:
            raise ShapeError("unpad", f"padding={padding}", f"removes more than the {size} cells of an axis", "W5")
    kept = (slice(before, size - after) for size, (before, after) in zip(sizes, pairs, strict=True))
    index: Any = (Ellipsis, *kept)
    view: NDArray[Any] = array[index]
    return view
