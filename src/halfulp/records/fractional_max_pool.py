"""The record of fractional max pooling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from halfulp.errors import DTypeError, ShapeError
from halfulp.numbers import is_float
from halfulp.records import _arguments as arguments
from halfulp.records._base import Array, Operator, PerAxis, Shape, ranked
from halfulp.records._declaration import NAN_DRAWN, Draw, declare
from halfulp.records._missing import normalise_policies


@dataclass(frozen=True, repr=False, eq=False)
class FractionalMaxPool(Operator):
    """The maxima of ``output_size`` windows at positions given by random samples, one per plane and axis.

    The inputs are x and the samples, numbers in [0, 1) of shape (leading axes of x, ndim). With
    alpha = (in - kernel) / (out - 1), window i < out - 1 of an axis starts at trunc((i + u) * alpha) - trunc(u * alpha)
    and the last at in - kernel, in the arithmetic of the samples' type. In rank 2 the first sample is that of the last
    axis; in other ranks sample d is that of axis d. Both as PyTorch has them.

    >>> import numpy as np
    >>> FractionalMaxPool((2,), (3,))(np.arange(8.0), np.array([0.5]))
    array([1., 4., 7.])
    """

    kernel_size: PerAxis
    output_size: PerAxis
    ties: str = "first"
    nan: str = "propagate"
    arity: ClassVar[int] = 2
    input_names: ClassVar[tuple[str, ...]] = ("input", "samples")
    constants: ClassVar[tuple[str, ...]] = ("samples",)

    def __post_init__(self) -> None:
        ndim = arguments.rank_of(self.base_name, kernel_size=self.kernel_size, output_size=self.output_size)
        name = ranked(self.base_name, ndim)
        kernel = arguments.per_axis(name, "kernel_size", self.kernel_size, ndim, 1, "W1")
        output = arguments.per_axis(name, "output_size", self.output_size, ndim, 1, "D1")
        object.__setattr__(self, "kernel_size", kernel)
        object.__setattr__(self, "output_size", output)
        normalise_policies(self)

    @property
    def ndim(self) -> int:
        """The number of spatial axes."""
        return len(self.kernel_size)

    def sample_of(self, axis: int) -> int:
        """The position of an axis's sample among those of its plane."""
        return 1 - axis if self.ndim == 2 else axis

    def output_shape(self, *input_shapes: Shape) -> Shape:
        if len(input_shapes) != 2:
            raise ShapeError(self.name, f"{len(input_shapes)} inputs", "takes x and the samples", "I3")
        shape, samples = (tuple(s) for s in input_shapes)
        at = len(shape) - self.ndim
        if at < 0:
            text = f"the last {self.ndim} axes are spatial, but there are {len(shape)}"
            raise ShapeError(self.name, f"input shape={shape}", text, "W7")
        leading, spatial = shape[:at], shape[at:]
        if samples != (*leading, self.ndim):
            text = f"must be {(*leading, self.ndim)}: one sample per plane and spatial axis"
            raise ShapeError(self.name, f"samples shape={samples}", text, "F1")
        if any(m + k - 1 > n for n, m, k in zip(spatial, self.output_size, self.kernel_size, strict=True)):
            kernel = self.kernel_size
            text = f"with kernel_size={kernel} needs at least output_size + kernel_size - 1 cells, not {spatial}"
            raise ShapeError(self.name, f"output_size={self.output_size}", text, "F2")
        return leading + tuple(self.output_size)

    def constant(self, name: str, array: Array) -> Array:
        """The samples, which are floats or exact numbers in [0, 1)."""
        if not is_float(array.dtype) and array.dtype.kind != "O":
            text = "must be float16, bfloat16, float32, float64 or objects (exact numbers)"
            raise DTypeError(self.name, f"samples dtype={array.dtype}", text, "F1")
        if not all(0 <= sample < 1 for sample in array.ravel().tolist()):
            raise ShapeError(self.name, "samples", "every sample must be at least 0 and below 1", "F1")
        return array


def _drawn(choose: Any) -> tuple[FractionalMaxPool, tuple[Shape, ...]]:
    """Windows that fit, over one or two axes."""
    ndim = choose((1, 2))
    kernel, outputs = (choose((1, 2, 3)),) * ndim, tuple(choose((1, 2, 3)) for _ in range(ndim))
    op = FractionalMaxPool(kernel, outputs, ties=choose(arguments.TIES), nan=choose(NAN_DRAWN))
    leading = choose(((), (2,), (1, 2)))
    sizes = tuple(m + k - 1 + choose((0, 1, 3)) for m, k in zip(outputs, kernel, strict=True))
    return op, ((*leading, *sizes), (*leading, ndim))


def _samples(op: FractionalMaxPool, shapes: tuple[Shape, ...], rng: Any) -> tuple[Any, ...]:
    return (rng.random(shapes[1]),)


declare(
    FractionalMaxPool,
    kind="selecting",
    curvature="none",
    draw=Draw(_drawn, constants=_samples),
    integers=True,
    indices=True,
    keywords=("ties", "nan"),
    trailing=("samples",),
    renamed={"samples": "random_samples"},
    ranks=(2, 3),
    examples=(
        "np.arange(8.0), (2,), (3,), random_samples=np.array([0.5])",
        "np.arange(16.0).reshape(4, 4), 2, 2, random_samples=np.array([0.5, 0.5])",
        "np.arange(27.0).reshape(3, 3, 3), 2, 1, random_samples=np.array([0.5, 0.5, 0.5])",
    ),
    summary="The maxima of ``output_size`` windows at positions given by random samples",
    note="``random_samples`` are numbers in [0, 1), one for every plane and spatial axis.",
)
