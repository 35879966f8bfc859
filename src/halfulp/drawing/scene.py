"""The content of a picture: cells, windows, winners, ties, and cotangents.

Small inputs are evaluated by the specification on exact numbers, so that a picture shows 8/9 and not 0.889. Operators
with roots or exponentials, and inputs of more than ``EXACT_CELLS`` cells, are evaluated on floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise, product
from typing import Any, Final

import numpy as np

from halfulp import spec
from halfulp.geometry import adaptive_end, adaptive_start
from halfulp.numbers import Extended, flint, lift
from halfulp.records import (
    AdaptiveOperator,
    Array,
    Conv,
    GlobalOperator,
    Operator,
    Shape,
    WindowOperator,
    declaration_of,
)

__all__ = ["Position", "Scene", "View", "fits", "make_scene", "real", "span"]

Position = tuple[int, ...]
EXACT_CELLS: Final = 1024


@dataclass(frozen=True)
class View:
    """One window: its output cell and value, the cells it spans, and each cell's share of the cotangent."""

    output: Position
    value: Any
    cells: tuple[Position, ...]
    shares: dict[Position, Any]
    tied: frozenset[Position]


@dataclass(frozen=True)
class Scene:
    """An operator on a plane of one or two axes, with one window picked out."""

    op: Operator
    x: Array
    weight: Array | None
    output: Array
    cotangent: Array
    back: Array
    axes: tuple[tuple[range, ...], ...]
    """Per axis, the cells of every window; empty for a transposed convolution, which has no windows."""
    share: Callable[[Position], Array]
    reach: Callable[[Position], Array]
    chosen: Position

    @property
    def selects(self) -> bool:
        """Whether the operator takes cells as they are, so that there are winners and ties."""
        return declaration_of(self.op).kind == "selecting"

    @property
    def positions(self) -> list[Position]:
        """The positions of the output, in order."""
        return list(product(*(range(n) for n in self.output.shape)))

    @property
    def before(self) -> Shape:
        """How far windows reach out of the input at its start."""
        return tuple(max([0, *(-r.start for r in axis)]) for axis in self.axes) or (0,) * self.x.ndim

    @property
    def after(self) -> Shape:
        """How far windows reach out of the input at its end."""
        reached = (max([0, *(r[-1] - n + 1 for r in axis)]) for axis, n in zip(self.axes, self.x.shape, strict=False))
        return tuple(reached) or (0,) * self.x.ndim

    @cached_property
    def disjoint(self) -> bool:
        """Whether no two windows share a cell."""
        return bool(self.axes) and all(a[-1] < b.start for axis in self.axes for a, b in pairwise(axis))

    def part(self, room: Sequence[int]) -> tuple[range, ...]:
        """The part of the input, padding included, that is shown where there is room for so many rows and columns."""
        spans = [span([c[axis] for c in self.cells(self.chosen)]) for axis in range(self.x.ndim)]
        sides = zip(self.x.shape, self.before, self.after, room[-self.x.ndim :], spans, strict=True)
        return tuple(fits(-before, n + after, limit, focus) for n, before, after, limit, focus in sides)

    def cells(self, position: Position) -> tuple[Position, ...]:
        """The cells of the window of an output, those outside the input included."""
        if self.axes:  # a global operator that drops its axes has one output without a position
            output = position or (0,) * len(self.axes)
            return tuple(product(*(axis[i] for axis, i in zip(self.axes, output, strict=True))))
        return _nonzero(self.reach(position))

    def view(self, position: Position) -> View:
        """A window taken apart."""
        share = self.share(position)
        cells, value = self.cells(position), self.output[position]
        return View(position, value, cells, {c: share[c] for c in _nonzero(share)}, self._tied(cells, value))

    def _tied(self, cells: tuple[Position, ...], value: Any) -> frozenset[Position]:
        """The cells that have the value of their window, if there are several."""
        if not self.selects:
            return frozenset()
        best = [c for c in cells if real(c, self.x.shape) and _same(self.x[c], value)]
        return frozenset(best) if len(best) > 1 else frozenset()

    def flowing(self) -> set[Position]:
        """The cells that get some cotangent."""
        return set(_nonzero(self.back))

    def tied(self, shown: Sequence[range]) -> set[Position]:
        """The cells that tie in a window that reaches into the shown part."""
        if not (self.selects and self.axes):
            return set()
        touching = [
            [i for i, r in enumerate(axis) if r.start < part.stop and r[-1] >= part.start]
            for axis, part in zip(self.axes, shown, strict=True)
        ]
        outputs = [()] if not self.output.ndim else product(*touching)
        return {cell for o in outputs for cell in self._tied(self.cells(o), self.output[o])}


def span(indices: Sequence[int]) -> range:
    """From the first of some indices to the last."""
    return range(min(indices), max(indices) + 1) if indices else range(1)


def fits(low: int, high: int, room: int, focus: range) -> range:
    """At most ``room`` of the indices from ``low`` to ``high``: the first ones, or others where ``focus`` is.

    >>> fits(0, 30, 10, range(2, 5)), fits(0, 30, 10, range(12, 15)), fits(-1, 5, 10, range(0, 2))
    (range(0, 10), range(11, 21), range(-1, 5))
    """
    if high - low <= room:
        return range(low, high)
    start = low
    if focus.stop > low + room:
        start = max(low, min(focus.start - 1, high - room))
    return range(start, start + room)


def real(cell: Position, shape: Shape) -> bool:
    """Whether a cell is part of the input, and not padding."""
    return all(0 <= i < n for i, n in zip(cell, shape, strict=True))


def _same(a: Any, b: Any) -> bool:
    return bool(a == b or (_is_nan(a) and _is_nan(b)))


def _is_nan(value: Any) -> bool:
    return bool(value.is_nan) if isinstance(value, Extended) else bool(value != value)


def _nonzero(array: Array) -> tuple[Position, ...]:
    return tuple(position for position, value in np.ndenumerate(array) if value != 0)


def make_scene(
    op: Operator,
    x: Array,
    weight: Array | None = None,
    cotangent: Array | None = None,
    chosen: Position | None = None,
) -> Scene:
    """Evaluate an operator on a plane; ``chosen`` is the output whose window is picked out, else the middle one.

    Inputs are arrays of floats, or of ``Fraction`` and floats that are infinite or NaN.

    >>> from halfulp import AvgPool
    >>> scene = make_scene(AvgPool((3,), stride=1), np.array([1.0, 3.0, 3.0, 2.0]), chosen=(1,))
    >>> scene.output
    array([Extended(7/3), Extended(8/3)], dtype=object)
    >>> scene.view((1,)).shares
    {(1,): Extended(1/3), (2,): Extended(1/3), (3,): Extended(1/3)}
    """
    x, weight = np.asarray(x), None if weight is None else np.asarray(weight)
    large, smooth = x.size > EXACT_CELLS, declaration_of(op).kind == "smooth"
    if large or smooth:
        floats = _short_floats if large and smooth else _floats  # three digits are shown, and roots of many cells cost
        return _scene(op, x, weight, cotangent, chosen, floats, lambda op, *given: op(*given), _pulled)
    return _scene(op, x, weight, cotangent, chosen, _exact, spec.forward, spec.vjp)


def _exact(values: Any) -> Array:
    array = np.asarray(values)
    if array.dtype != object:
        return lift(array.astype(np.float64))
    exact = np.empty(array.shape, dtype=object)
    for place, value in np.ndenumerate(array):
        finite = isinstance(value, Fraction) and value
        exact[place] = Extended(flint.fmpq(value.numerator, value.denominator)) if finite else Extended.of(float(value))
    return exact


def _floats(values: Any) -> Array:
    return np.asarray(values).astype(np.float64)


def _short_floats(values: Any) -> Array:
    return np.asarray(values).astype(np.float32)


def _pulled(op: Operator, primals: tuple[Any, ...], cotangent: Array) -> tuple[Any, ...]:
    return op.vjp(*primals)[1](cotangent)


def _scene(
    op: Operator,
    plain: Array,
    kernel: Array | None,
    cotangent: Array | None,
    chosen: Position | None,
    convert: Callable[[Any], Array],
    forward: Callable[..., Any],
    vjp: Callable[..., Any],
) -> Scene:
    """The scene on one kind of number. Convolutions get one image of one channel."""
    x, weight = convert(plain), None if kernel is None else convert(kernel)
    plane: Position = () if weight is None else (0, 0)

    def inputs(taps: Array | None) -> tuple[Any, ...]:
        return (x,) if taps is None else (x[None, None], taps[None, None], None)

    output = np.asarray(forward(op, *inputs(weight)))
    shape = output.shape[len(plane) :]

    def pulled(given: Array, taps: Array | None) -> Array:
        back: Array = np.asarray(vjp(op, inputs(taps), given[(None,) * len(plane)])[0])[plane]
        return back

    def one(position: Position) -> Array:
        single = np.zeros(shape)
        single[position] = 1.0
        return convert(single)

    given = _given_cotangent(op, cotangent, shape)
    ones = None if weight is None else convert(np.ones(weight.shape))
    return Scene(
        op,
        x,
        weight,
        output[plane] if plane else output,
        convert(given),
        pulled(convert(given), weight),
        _windows(op, x.shape, () if weight is None else weight.shape, shape),
        lambda position: pulled(one(position), weight),
        lambda position: pulled(one(position), ones),
        _chosen_place(chosen, shape),
    )


def _given_cotangent(op: Operator, cotangent: Array | None, shape: Shape) -> Array:
    if cotangent is None:
        return np.ones(shape)
    try:
        return np.broadcast_to(cotangent, shape)
    except ValueError:
        raise ValueError(f"{op.name}: a cotangent of shape {np.shape(cotangent)} for an output of {shape}") from None


def _chosen_place(chosen: Position | None, shape: Shape) -> Position:
    if chosen is None:
        return tuple(n // 2 for n in shape)
    if len(chosen) != len(shape) or not real(chosen, shape):
        raise ValueError(f"window {chosen}: the output has shape {shape}, counted from 0")
    return chosen


def _windows(op: Any, sizes: Shape, kernel: Shape, outputs: Shape) -> tuple[tuple[range, ...], ...]:
    """Per axis, the cells of every window, padding included; nothing for a transposed convolution."""
    if isinstance(op, GlobalOperator):
        return tuple((range(n),) for n in sizes)
    if isinstance(op, AdaptiveOperator):
        return tuple(
            tuple(range(adaptive_start(n, m, i), adaptive_end(n, m, i)) for i in range(m))
            for n, m in zip(sizes, outputs, strict=True)
        )
    if isinstance(op, (WindowOperator, Conv)):
        found = op.axes(sizes) if isinstance(op, WindowOperator) else op.axes(sizes, kernel)
        return tuple(tuple(axis.cells(o) for o in range(axis.output_size)) for axis in found)
    return ()
