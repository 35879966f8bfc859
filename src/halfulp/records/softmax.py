"""The records of softmax and log-softmax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from halfulp.errors import ShapeError
from halfulp.records._base import Operator, Shape, is_integer
from halfulp.records._curvature import LOG_SOFTMAX, SOFTMAX_OF_ROWS, Curvature
from halfulp.records._declaration import Draw, declare
from halfulp.records._products import given_shapes


class SoftmaxOperator(Operator):
    """What softmax and log-softmax share: one input, and the axis that is summed over."""

    required: ClassVar[int] = 1
    dim: Any

    def __post_init__(self) -> None:
        if not is_integer(self.dim):
            raise ShapeError(self.name, f"dim={self.dim!r}", "must be an integer, the axis that is summed over", "R6")
        object.__setattr__(self, "dim", int(self.dim))

    def output_shape(self, *input_shapes: Shape | None) -> Shape:
        (x,) = given_shapes(self.name, input_shapes, 1, ("input",))
        if not -len(x) <= self.dim < len(x):
            raise ShapeError(self.name, f"dim={self.dim}", f"must be an axis of an input of shape {x}", "R6")
        return tuple(x)


@dataclass(frozen=True, repr=False, eq=False)
class Softmax(SoftmaxOperator):
    """exp(x) / sum(exp(x)) along the axis ``dim``.

    >>> import numpy as np
    >>> Softmax()(np.array([0.0, 0.0, 0.0, 0.0]))
    array([0.25, 0.25, 0.25, 0.25])
    """

    dim: int = -1


@dataclass(frozen=True, repr=False, eq=False)
class LogSoftmax(SoftmaxOperator):
    """x - log(sum(exp(x))) along the axis ``dim``.

    >>> import numpy as np
    >>> LogSoftmax()(np.array([0.0, 0.0]))
    array([-0.69314718, -0.69314718])
    """

    dim: int = -1


def _drawn(record: Any) -> Any:
    def draw(choose: Any) -> tuple[Operator, tuple[Any, ...]]:
        sizes = {1: (1, 2, 5, 17, 33), 2: (1, 2, 3, 4, 5, 17), 3: (1, 2, 3, 4, 5)}[rank := choose((1, 2, 3, 3, 3))]
        shape = tuple(choose(sizes) for _ in range(rank))
        return record(choose(tuple(range(-len(shape), len(shape))))), (shape,)

    return draw


for _record, _curvature, _formula in (
    (Softmax, SOFTMAX_OF_ROWS, "exp(x) / sum(exp(x))"),
    (LogSoftmax, LOG_SOFTMAX, "x - log(sum(exp(x)))"),
):
    _rule: Curvature = _curvature
    declare(
        _record,
        kind="smooth",
        curvature=_rule,
        draw=Draw(_drawn(_record), terms=400),
        ranks=(),
        module=None,
        planar=False,
        form=("input", "dim", "_stacklevel", "dtype"),
        accepts=("_stacklevel: int = 3", "dtype: Any = None"),
        before="if dim is None:\n    dim = implied_axis(input)\ninput = in_dtype(input, dtype)",
        note="Without ``dim`` the axis is PyTorch's choice: 0 for 0, 1 or 3 axes, else 1. ``dtype`` is a type that the "
        "input is cast to first; ``_stacklevel`` is there as in PyTorch.",
        summary=f"``{_formula}`` along the axis ``dim``, correctly rounded as one operator",
        examples=("np.array([0.0, 0.0, 0.0, 0.0])",),
        onnx=(_record.__name__,),
    )
