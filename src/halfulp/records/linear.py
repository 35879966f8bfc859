"""The records of a linear layer and of the matrix product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from halfulp.errors import ShapeError
from halfulp.records._base import Operator, Shape
from halfulp.records._declaration import Draw, declare
from halfulp.records._missing import normalise_policies
from halfulp.records._products import given_shapes, matrix_shape


@dataclass(frozen=True, repr=False, eq=False)
class Linear(Operator):
    """x times the transposed weight, plus a bias: y[…, o] = bias[o] + sum of weight[o, i] * x[…, i].

    ``precision="correct"`` rounds the exact value once; ``"fast"`` accumulates in the input's own precision (half types
    in float32).

    >>> import numpy as np
    >>> Linear()(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]), np.array([0.5]))
    array([[11.5]])
    """

    precision: str = "correct"
    arity: ClassVar[int] = 3
    required: ClassVar[int] = 2

    def __post_init__(self) -> None:
        normalise_policies(self)

    def output_shape(self, *input_shapes: Shape | None) -> Shape:
        x, weight, bias = given_shapes(self.name, input_shapes, 2, self.input_names)
        if len(weight) != 2:
            raise ShapeError(self.name, f"weight shape={weight}", "must be (outputs, inputs)", "M3")
        if not x or x[-1] != weight[1]:
            text = f"the last axis must have the weight's {weight[1]} inputs"
            raise ShapeError(self.name, f"input shape={x}", text, "M1")
        if bias is not None and bias != weight[:1]:
            raise ShapeError(self.name, f"bias shape={bias}", f"must be {weight[:1]}, one per output, or None", "M3")
        return (*x[:-1], weight[0])


@dataclass(frozen=True, repr=False, eq=False)
class Matmul(Operator):
    """The matrix product of the last two axes, leading axes broadcast; a vector is a row left, a column right.

    ``precision`` as :class:`halfulp.Linear` has it.

    >>> import numpy as np
    >>> Matmul()(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]))
    array([[11.]])
    """

    precision: str = "correct"
    arity: ClassVar[int] = 2
    required: ClassVar[int] = 2
    input_names: ClassVar[tuple[str, ...]] = ("input", "other")

    def __post_init__(self) -> None:
        normalise_policies(self)

    def output_shape(self, *input_shapes: Shape | None) -> Shape:
        a, b = given_shapes(self.name, input_shapes, 2, self.input_names)
        return matrix_shape(self.name, a, b)


_LEADING = (((), ()), ((2,), (2,)), ((3,), ()), ((), (2,)), ((2, 1), (3,)), ((1, 2), (2, 2)), ((1,), (3,)))


def _drawn_linear(choose: Any) -> tuple[Linear, tuple[Any, ...]]:
    inputs, outputs = choose((3, 1, 8, 33)), choose((2, 1, 5, 17))
    leading = choose(((2,), (), (1,), (5,), (2, 3)))
    return Linear(), ((*leading, inputs), (outputs, inputs), choose(((outputs,), None)))


def _drawn_matmul(choose: Any) -> tuple[Matmul, tuple[Any, ...]]:
    rows, inner, columns = (choose((2, 1, 3, 9)) for _ in range(3))
    a, b = choose(_LEADING)
    vectors = choose((None, "left", "right", "both")) if not a and not b else None
    left = (inner,) if vectors in ("left", "both") else (*a, rows, inner)
    right = (inner,) if vectors in ("right", "both") else (*b, inner, columns)
    return Matmul(), (left, right)


declare(
    Linear,
    kind="bilinear",
    curvature="bilinear",
    draw=Draw(_drawn_linear),
    optional=1,
    ranks=(),
    keywords=("precision",),
    summary='``input`` times the transposed ``weight`` plus ``bias``, correctly rounded unless ``precision="fast"``',
    note="``input`` is (…, inputs), ``weight`` (outputs, inputs), ``bias`` (outputs) or None.",
    examples=("np.array([1.0, 2.0]), np.array([[3.0, 4.0]])",),
    module=None,
    planar=False,
    onnx=("Gemm",),
)
declare(
    Matmul,
    kind="bilinear",
    curvature="bilinear",
    draw=Draw(_drawn_matmul),
    ranks=(),
    keywords=("precision",),
    summary='The matrix product of the last two axes, correctly rounded unless ``precision="fast"``',
    note="Leading axes are broadcast; a vector is a row on the left and a column on the right.",
    examples=("np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]])",),
    torch=False,
    module=None,
    planar=False,
    onnx=("MatMul",),
)
