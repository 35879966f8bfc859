"""The base of elementwise functions: any shape, one result for every element."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar

from halfulp.errors import PolicyError, ShapeError
from halfulp.numbers import flint
from halfulp.records._base import Operator, Shape
from halfulp.records._declaration import Draw, declare
from halfulp.records._elementwise_curvature import Bend, bent

SIZES = {
    1: (0, 1, 2, 7, 15, 16, 17, 33, 64, 65),
    2: (0, 1, 2, 3, 5, 17, 33),
    3: (1, 2, 3, 5, 7),
    4: (1, 2, 3, 4),
    5: (1, 2, 3),
}
"""Sizes that the lab draws for an array of so many axes: around the length of vectors, single elements, none."""


@dataclass(frozen=True, repr=False, eq=False)
class ElementwiseOperator(Operator):
    """A function of single numbers, applied to every element of an array of any shape.

    >>> from halfulp import Exp
    >>> Exp().output_shape((2, 3))
    (2, 3)
    """

    elementwise: ClassVar[bool] = True

    @property
    def function(self) -> str:
        """The function's name in :mod:`halfulp.numbers`."""
        return self.base_name

    def __post_init__(self) -> None:
        for name in self._numbers():
            self._check_number(name)

    @property
    def parameters(self) -> tuple[Fraction, ...]:
        """The function's parameters, exactly."""
        return tuple(self._ratio(name) for name in self._numbers())

    def _numbers(self) -> list[str]:
        """The fields that are numbers."""
        return [f.name for f in fields(self) if f.type == "float"]

    def output_shape(self, *input_shapes: Shape) -> Shape:
        if len(input_shapes) != 1:
            raise ShapeError(self.name, f"{len(input_shapes)} inputs", "takes one input", "I3")
        return tuple(input_shapes[0])

    def _ratio(self, field: str) -> Fraction:
        """A field as the rational that it means."""
        value = getattr(self, field)
        if isinstance(value, (int, float, Fraction)):  # flint is loaded only for its own numbers
            return Fraction(value)
        return Fraction(int(value.p), int(value.q))

    def _check_number(self, field: str) -> None:
        """A parameter is a finite number with an exact value."""
        value = getattr(self, field)
        if isinstance(value, (int, float, Fraction)):  # flint is loaded only for what is none of these
            number = not isinstance(value, bool)
        else:
            number = isinstance(value, flint.fmpq)
        if not number or (isinstance(value, float) and not math.isfinite(value)):
            raise PolicyError(self.name, f"{field}={value!r}", "must be a finite float, integer or fraction", "H1")


def drawn(record: type[ElementwiseOperator], **choices: tuple[Any, ...]) -> Draw:
    """How the lab draws an elementwise function: one of its parameters' values, and a shape."""

    def draw(choose: Callable[[Any], Any]) -> tuple[Operator, tuple[Any, ...]]:
        sizes = SIZES[rank := choose((1, 2, 3, 3, 4, 4, 5, 5))]
        shape = tuple(choose(sizes) for _ in range(rank))
        return record(**{name: choose(values) for name, values in choices.items()}), (shape,)

    return Draw(draw)


def declare_function(
    record: type[ElementwiseOperator],
    second: Bend | None,
    summary: str,
    choices: dict[str, tuple[Any, ...]] | None = None,
    *,
    example: str = "np.array([-1.0, 0.0, 2.0])",
    onnx: str = "",
    module: str | None = None,
    inplace: bool = False,
) -> None:
    """Declare an elementwise function: ``second`` is its second derivative, None if it is piecewise linear.

    ``inplace``: PyTorch's function has an argument of this name.
    """
    declare(
        record,
        kind="selecting" if second is None else "smooth",
        curvature="none" if second is None else bent(record.base_name, second),
        draw=drawn(record, **(choices or {})),
        ranks=(),
        planar=False,
        summary=summary,
        examples=(example,),
        onnx=(onnx,) if onnx else (),
        module=module,
        accepts=("inplace: bool = False",) if inplace else (),
        before=f'if inplace:\n    out = in_place("{record.base_name}", input)' if inplace else "",
    )
