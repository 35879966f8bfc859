"""What there is to see: cells, windows, winners, ties, and where a cotangent flows, computed by the specification."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from halfulp import spec
from halfulp.geometry import adaptive_end, adaptive_start
from halfulp.records import (
    AdaptiveOperator,
    Array,
    Conv,
    ConvolutionOperator,
    GlobalOperator,
    Operator,
    Shape,
    WindowOperator,
)

__all__ = ["Scene", "View", "make_scene"]

Position = tuple[int, ...]


@dataclass(frozen=True)
class View:
    """One window: its output cell and value, the cells it spans, and each cell's share of the cotangent."""

    output: Position
    value: float
    cells: tuple[Position, ...]
    shares: dict[Position, float]
    tied: frozenset[Position]


@dataclass(frozen=True)
class Scene:
    """An operator on a plane of one or two axes."""

    op: Operator
    x: Array
    output: Array
    cotangent: Array
    back: Array
    views: tuple[View, ...]
    before: Shape
    after: Shape

    def tied(self) -> set[Position]:
        """Cells that are one of several maxima of some window."""
        return {cell for view in self.views for cell in view.tied}

    def flowing(self) -> set[Position]:
        """Cells that get a share of some cotangent."""
        return {cell for view in self.views for cell in view.shares}


def make_scene(op: Any, x: Array, weight: Array | None = None, cotangent: Array | None = None) -> Scene:
    """Evaluate an operator on a plane and take its derivative apart, window by window.

    >>> from halfulp import MaxPool
    >>> scene = make_scene(MaxPool((2,), stride=1), np.array([1.0, 3.0, 3.0]))
    >>> scene.views[1].tied == {(1,), (2,)}, scene.views[1].shares
    (True, {(1,): 1.0})
    """
    inputs = (x,) if weight is None else (x[None, None], weight[None, None], None)
    plane: Position = (0, 0) if weight is not None else ()
    output = np.asarray(spec.forward(op, *inputs))
    shape = output.shape[len(plane) :]
    given = np.ones(shape) if cotangent is None else np.broadcast_to(cotangent, shape).astype(float)
    windows = _windows(op, x.shape, () if weight is None else weight.shape, shape)
    views = []
    for position in product(*(range(n) for n in shape)):
        one = np.zeros(output.shape)
        place = plane + position
        one[place] = 1.0
        share = np.asarray(spec.vjp(op, inputs, one)[0])[plane]
        shares = {tuple(map(int, c)): float(share[tuple(c)]) for c in np.argwhere(share != 0)}
        value = float(output[place])
        cells = windows.get(position, tuple(shares))
        views.append(View(position, value, cells, shares, _tied(op, x, cells, value)))
    back = np.asarray(spec.vjp(op, inputs, given[(None,) * len(plane)])[0])[plane]
    before, after = _margins(x.shape, [view.cells for view in views])
    return Scene(op, x, output[plane], given, back, tuple(views), before, after)


def _windows(op: Any, sizes: Shape, kernel: Shape, outputs: Shape) -> dict[Position, tuple[Position, ...]]:
    """The cells of every window, padding included; nothing for a transposed convolution, which has none."""
    if isinstance(op, GlobalOperator):
        return dict.fromkeys(
            product(*(range(n) for n in outputs)) if outputs else [()], tuple(product(*(range(n) for n in sizes)))
        )
    if isinstance(op, AdaptiveOperator):
        axes = [
            [range(adaptive_start(n, m, i), adaptive_end(n, m, i)) for i in range(m)]
            for n, m in zip(sizes, outputs, strict=True)
        ]
    elif isinstance(op, (WindowOperator, Conv)):
        found = op.axes(sizes) if isinstance(op, WindowOperator) else op.axes(sizes, kernel)
        axes = [[axis.cells(o) for o in range(axis.output_size)] for axis in found]
    else:
        return {}
    return {
        position: tuple(product(*(axis[i] for axis, i in zip(axes, position, strict=True))))
        for position in product(*(range(n) for n in outputs))
    }


def _tied(op: Any, x: Array, cells: tuple[Position, ...], value: float) -> frozenset[Position]:
    """The maxima of a window, if there are several."""
    if not hasattr(op, "ties") or isinstance(op, ConvolutionOperator):
        return frozenset()
    real = [c for c in cells if all(0 <= i < n for i, n in zip(c, x.shape, strict=True))]
    best = [c for c in real if x[c] == value or (np.isnan(x[c]) and np.isnan(value))]
    return frozenset(best) if len(best) > 1 else frozenset()


def _margins(sizes: Shape, windows: list[tuple[Position, ...]]) -> tuple[Shape, Shape]:
    """How far windows reach out of the input on each side."""
    cells = [cell for window in windows for cell in window]
    before = tuple(max([0, *(-c[axis] for c in cells)]) for axis in range(len(sizes)))
    after = tuple(max([0, *(c[axis] - n + 1 for c in cells)]) for axis, n in enumerate(sizes))
    return before, after
