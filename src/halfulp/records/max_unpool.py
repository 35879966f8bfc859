"""The record of max unpooling."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from halfulp.errors import DTypeError, ShapeError
from halfulp.records import _arguments as arguments
from halfulp.records._base import Array, Operator, PaddingLike, PerAxis, Shape, ranked
from halfulp.records._declaration import Draw, declare


@dataclass(frozen=True, repr=False, eq=False)
class MaxUnpool(Operator):
    """Values at the positions of the maxima of a max pooling; every other cell is 0.

    The inputs are the values and the flat index of each in its output plane, as ``return_indices`` gives them; -1 drops
    a value. Of values with the same index the last in row-major order counts, in the value and in both derivatives.
    An axis has (in - 1) * stride - before - after + kernel cells, or as many as ``output_size`` says.

    >>> import numpy as np
    >>> MaxUnpool((2,))(np.array([3.0, 5.0]), np.array([1, 2]))
    array([0., 3., 5., 0.])
    """

    kernel_size: PerAxis
    stride: PerAxis = None
    padding: PaddingLike = 0
    output_size: PerAxis = None
    arity: ClassVar[int] = 2
    input_names: ClassVar[tuple[str, ...]] = ("input", "indices")
    constants: ClassVar[tuple[str, ...]] = ("indices",)

    def __post_init__(self) -> None:
        sizes = {"kernel_size": self.kernel_size, "stride": self.stride, "padding": self.padding}
        ndim = arguments.rank_of(self.base_name, **sizes, output_size=self.output_size)
        name = ranked(self.base_name, ndim)
        kernel = arguments.per_axis(name, "kernel_size", self.kernel_size, ndim, 1, "W1")
        stride = kernel if self.stride is None else arguments.per_axis(name, "stride", self.stride, ndim, 1, "W3")
        padding = arguments.padding_of(name, self.padding, ndim)
        if isinstance(padding, str):
            text = "must be integers: a mode does not say how much an unpooling cuts off"
            raise ShapeError(name, f"padding={padding!r}", text, "W2")
        output = self.output_size
        if output is not None:
            output = arguments.per_axis(name, "output_size", output, ndim, 0, "U3")
        given = {"kernel_size": kernel, "stride": stride, "padding": padding, "output_size": output}
        for field, value in given.items():
            object.__setattr__(self, field, value)

    @property
    def ndim(self) -> int:
        """The number of spatial axes."""
        return len(self.kernel_size)

    def spatial_output(self, spatial: Shape) -> Shape:
        """The output's spatial sizes."""
        if self.output_size is not None:
            return tuple(self.output_size)
        return tuple(
            max(0, (n - 1) * s - before - after + k)
            for n, s, k, (before, after) in zip(spatial, self.stride, self.kernel_size, self.padding, strict=True)
        )

    def output_shape(self, *input_shapes: Shape) -> Shape:
        if len(input_shapes) != 2:
            raise ShapeError(self.name, f"{len(input_shapes)} inputs", "takes values and their indices", "I3")
        shape, indices = (tuple(s) for s in input_shapes)
        if len(shape) < self.ndim:
            text = f"the last {self.ndim} axes are spatial, but there are {len(shape)}"
            raise ShapeError(self.name, f"input shape={shape}", text, "W7")
        if indices != shape:
            raise ShapeError(self.name, f"indices shape={indices}", f"must be {shape}, the shape of the input", "U1")
        at = len(shape) - self.ndim
        return shape[:at] + self.spatial_output(shape[at:])

    def constant(self, name: str, array: Array) -> Array:
        """The indices, which are integers."""
        if array.dtype.kind not in "iu":
            raise DTypeError(self.name, f"indices dtype={array.dtype}", "must be an integer type", "U1")
        return array

    def refused_index(self, position: Any, index: int, cells: int) -> ShapeError:
        """The error for an index that is not a cell."""
        text = f"must be from 0 to {cells - 1}, a cell of the output's plane, or -1 for none"
        return ShapeError(self.name, f"index {index} at {tuple(int(i) for i in position)}", text, "U2")

    def _is_default(self, name: str, value: Any, default: Any) -> bool:
        if name == "stride":  # None means the kernel size
            return bool(value == self.kernel_size)
        return super()._is_default(name, value, default)


def _drawn(choose: Any) -> tuple[MaxUnpool, tuple[Shape, ...]]:
    """Planes of one or two axes, with more cells than values."""
    ndim = choose((1, 2))
    kernel = tuple(choose((2, 3, 4)) for _ in range(ndim))
    op = MaxUnpool(kernel, stride=choose((None, 1, 2)), padding=choose((0, 1)))
    shape = (*choose(((), (2,), (1, 2), (2, 3))), *(choose((2, 3, 4)) for _ in range(ndim)))
    return op, (shape, shape)


def _indices(op: MaxUnpool, shapes: tuple[Shape, ...], rng: Any) -> tuple[Any, ...]:
    """Any cells, the same one several times too, and none."""
    at = len(shapes[0]) - op.ndim
    return (rng.integers(-1, prod(op.spatial_output(shapes[0][at:])), shapes[0]),)


declare(
    MaxUnpool,
    kind="linear",
    curvature="linear",
    draw=Draw(_drawn, constants=_indices),
    integers=True,
    before="output_size = without_batch(output_size, {rank})",
    summary="Values at the positions of the maxima of a max pooling; every other cell is 0",
    note="``indices`` are those of ``return_indices=True``. Of values with the same index the last one counts.",
    examples=(
        "np.array([3.0, 5.0]), np.array([1, 2]), (2,)",
        "np.array([3.0, 5.0]), np.array([1, 2]), 2",
        "np.array([[7.0]]), np.array([[2]]), 2",
        "np.array([[[7.0]]]), np.array([[[0]]]), (1, 1, 2)",
    ),
    onnx=("MaxUnpool",),
)
