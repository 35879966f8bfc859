"""The records of sums, means and variances over axes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from halfulp.errors import ShapeError
from halfulp.records import _arguments as arguments
from halfulp.records._base import Operator, Shape, is_integer
from halfulp.records._curvature import QUADRATIC
from halfulp.records._declaration import Draw, declare
from halfulp.records._products import given_shapes

Axes = Any
"""None for every axis, an integer, or a sequence of them; a built record holds None or a tuple."""


class ReductionOperator(Operator):
    """A linear reduction over the axes ``dim``."""

    required: ClassVar[int] = 1
    dim: Any
    keepdim: Any

    def __post_init__(self) -> None:
        given = self.dim
        if given is not None:
            axes = tuple(given) if arguments.is_sequence(given) else (given,)
            if not all(is_integer(axis) for axis in axes):
                raise ShapeError(self.name, f"dim={given!r}", "must be None, an integer or a sequence of them", "R6")
            object.__setattr__(self, "dim", tuple(int(axis) for axis in axes) or None)
        object.__setattr__(self, "keepdim", arguments.flag(self.name, "keepdim", self.keepdim))

    def axes_of(self, shape: Shape) -> tuple[int, ...]:
        """The axes that are reduced, in order."""
        if self.dim is None:
            return tuple(range(len(shape)))
        axes = tuple(sorted(axis + len(shape) if axis < 0 else axis for axis in self.dim))
        if len(set(axes)) < len(axes) or not all(0 <= axis < len(shape) for axis in axes):
            raise ShapeError(self.name, f"dim={self.dim}", f"must name different axes of a shape {shape}", "R6")
        return axes

    def divisor(self, shape: Shape) -> int:
        """What the sum is divided by."""
        return 1

    def output_shape(self, *input_shapes: Shape | None) -> Shape:
        (x,) = given_shapes(self.name, input_shapes, 1, ("input",))
        axes = self.axes_of(x)
        return tuple(1 if i in axes else n for i, n in enumerate(x) if self.keepdim or i not in axes)


@dataclass(frozen=True, repr=False, eq=False)
class Sum(ReductionOperator):
    """The sum over the axes ``dim``, None for all; of no cells, 0.

    >>> import numpy as np
    >>> Sum()(np.array([1e16, 1.0, -1e16]))
    array(1.)
    """

    dim: Axes = None
    keepdim: bool = False


@dataclass(frozen=True, repr=False, eq=False)
class Mean(ReductionOperator):
    """The mean over the axes ``dim``, None for all.

    >>> import numpy as np
    >>> Mean(1)(np.array([[1.0, 2.0], [3.0, 6.0]]))
    array([1.5, 4.5])
    """

    dim: Axes = None
    keepdim: bool = False

    def divisor(self, shape: Shape) -> int:
        return math.prod(shape[axis] for axis in self.axes_of(shape))

    def output_shape(self, *input_shapes: Shape | None) -> Shape:
        shape = super().output_shape(*input_shapes)
        x = input_shapes[0]
        assert x is not None
        if self.divisor(tuple(x)) == 0:
            raise ShapeError(self.name, f"input shape={tuple(x)}", "there is no mean of no cells", "R6")
        return shape


@dataclass(frozen=True, repr=False, eq=False)
class Var(ReductionOperator):
    """The variance over the axes ``dim``, None for all: squared distances from the mean, over n - ``correction``.

    >>> import numpy as np
    >>> Var()(np.array([1.0, 2.0, 6.0])), Var(correction=0)(np.array([1.0, 3.0]))
    (array(7.), array(1.))
    """

    dim: Axes = None
    correction: int = 1
    keepdim: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_integer(self.correction) or self.correction < 0:
            raise ShapeError(self.name, f"correction={self.correction!r}", "must be an integer >= 0", "Z8")
        object.__setattr__(self, "correction", int(self.correction))

    def divisor(self, shape: Shape) -> int:
        return math.prod(shape[axis] for axis in self.axes_of(shape)) - self.correction

    def output_shape(self, *input_shapes: Shape | None) -> Shape:
        shape = super().output_shape(*input_shapes)
        x = input_shapes[0]
        assert x is not None
        if self.divisor(tuple(x)) < 1:
            text = f"there must be more than correction={self.correction} cells"
            raise ShapeError(self.name, f"input shape={tuple(x)}", text, "Z8")
        return shape


def _drawn_var(choose: Any) -> tuple[Operator, tuple[Any, ...]]:
    sizes = {1: (2, 5, 17, 65), 2: (2, 3, 17), 3: (2, 3)}[rank := choose((1, 2, 2, 3))]
    shape = tuple(choose(sizes) for _ in range(rank))
    axes = choose((None, 0, -1, tuple(range(len(shape)))))
    return Var(axes, choose((1, 0)), choose((False, True))), (shape,)


def _drawn(record: Any) -> Any:
    def draw(choose: Any) -> tuple[Operator, tuple[Any, ...]]:
        sizes = {1: (1, 2, 5, 17, 65), 2: (1, 2, 3, 4, 17, 33), 3: (1, 2, 3, 4)}[rank := choose((1, 2, 2, 3, 3))]
        shape = tuple(choose(sizes) for _ in range(rank))
        axes = choose((None, 0, -1, (0,), tuple(range(len(shape)))))
        return record(axes, choose((False, True))), (shape,)

    return draw


for _record, _what in ((Sum, "sum"), (Mean, "mean")):
    declare(
        _record,
        kind="linear",
        curvature="linear",
        draw=Draw(_drawn(_record)),
        ranks=(),
        module=None,
        planar=False,
        torch=False,
        summary=f"The {_what} over the axes ``dim``, None for all of them, correctly rounded",
        examples=("np.array([[1.0, 2.0], [3.0, 6.0]]), 1",),
        onnx=("ReduceSum",) if _record is Sum else ("ReduceMean",),
    )
declare(
    Var,
    kind="smooth",
    curvature=QUADRATIC,
    draw=Draw(_drawn_var, terms=400),
    ranks=(),
    module=None,
    planar=False,
    torch=False,
    summary="The variance over the axes ``dim``, None for all of them, correctly rounded as one operator",
    note="The divisor is the number of cells less ``correction``.",
    examples=("np.array([[1.0, 3.0], [3.0, 7.0]]), 1",),
)
