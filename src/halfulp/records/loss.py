"""The records of losses: squared error and cross entropy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from halfulp.errors import DTypeError, PolicyError, ShapeError
from halfulp.numbers import is_float
from halfulp.records import _arguments as arguments
from halfulp.records._base import Array, Operator, Shape, is_integer
from halfulp.records._curvature import ENTROPY, QUADRATIC
from halfulp.records._declaration import Draw, declare
from halfulp.records._products import given_shapes
from halfulp.records.softmax import Softmax

REDUCTIONS = ("mean", "sum", "none")


def _check_reduction(op: Any) -> None:
    arguments.choice(op.name, "reduction", op.reduction, REDUCTIONS, "Z4")


@dataclass(frozen=True, repr=False, eq=False)
class MSELoss(Operator):
    """(input - target) squared: its mean, its sum, or every square.

    >>> import numpy as np
    >>> MSELoss()(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    array(2.)
    """

    reduction: str = "mean"
    arity: ClassVar[int] = 2
    required: ClassVar[int] = 2
    input_names: ClassVar[tuple[str, ...]] = ("input", "target")

    def __post_init__(self) -> None:
        _check_reduction(self)

    def divisor(self, shape: Shape) -> int:
        """What the sum is divided by."""
        return math.prod(shape) if self.reduction == "mean" else 1

    def output_shape(self, *input_shapes: Shape | None) -> Shape:
        x, y = given_shapes(self.name, input_shapes, 2, self.input_names)
        if x != y:
            raise ShapeError(self.name, f"target shape={y}", f"must be {x}, the input's", "Z5")
        if self.divisor(x) == 0:
            raise ShapeError(self.name, f"input shape={x}", "there is no mean of no cells", "R6")
        return tuple(x) if self.reduction == "none" else ()


@dataclass(frozen=True, repr=False, eq=False)
class CrossEntropy(Operator):
    """-log(softmax(input)) at the target class of every sample: the mean, the sum, or every one.

    Classes lie along axis 1 of (batch, classes, …), or along the only axis. The target has one class index per sample,
    or the input's shape: a probability for every class. ``weight`` has one number per class; samples whose index is
    ``ignore_index`` have no part. With ``label_smoothing`` s a probability q becomes (1 - s) q + s / classes. The mean
    is weighted: the divisor is the sum of the weights of the target classes, or the number of samples if the target has
    probabilities. Target and weight have no derivative.

    >>> import numpy as np
    >>> CrossEntropy()(np.array([[0.0, 0.0], [0.0, 0.0]]), np.array([1, 0]))
    array(0.69314718)
    """

    ignore_index: int = -100
    reduction: str = "mean"
    label_smoothing: float = 0.0
    arity: ClassVar[int] = 3
    required: ClassVar[int] = 2
    input_names: ClassVar[tuple[str, ...]] = ("input", "target", "weight")
    constants: ClassVar[tuple[str, ...]] = ("target", "weight")

    def __post_init__(self) -> None:
        _check_reduction(self)
        if not is_integer(self.ignore_index):
            raise PolicyError(self.name, f"ignore_index={self.ignore_index!r}", "must be an integer", "Z4")
        object.__setattr__(self, "ignore_index", int(self.ignore_index))
        given = self.label_smoothing
        value = float(given) if isinstance(given, (int, float, np.floating)) else math.nan
        if isinstance(given, bool) or not 0 <= value <= 1:
            raise PolicyError(self.name, f"label_smoothing={given!r}", "must be a number from 0 to 1", "Z4")
        object.__setattr__(self, "label_smoothing", value)

    def class_axis(self, shape: Shape) -> int:
        """The axis of the classes."""
        if not shape:
            raise ShapeError(self.name, f"input shape={shape}", "must be (classes,) or (batch, classes, …)", "Z5")
        return 1 if len(shape) > 1 else 0

    def samples(self, shape: Shape) -> Shape:
        """The axes of the samples: those of the input without its classes."""
        axis = self.class_axis(shape)
        return (*shape[:axis], *shape[axis + 1 :])

    def constant(self, name: str, array: Array) -> Array:
        """A target is integers or numbers like the input, a weight numbers."""
        if (
            array.dtype.kind != "O"
            and not is_float(array.dtype)
            and not (name == "target" and array.dtype.kind in "iu")
        ):
            accepted = "integers, a float type or objects" if name == "target" else "a float type or objects"
            raise DTypeError(self.name, f"{name} dtype={array.dtype}", f"must be {accepted} (exact numbers)", "I1")
        return array

    def output_shape(self, *input_shapes: Shape | None) -> Shape:
        x, target, weight = given_shapes(self.name, input_shapes, 2, self.input_names)
        samples, classes = self.samples(x), x[self.class_axis(x)]
        if classes == 0:
            raise ShapeError(self.name, f"input shape={x}", "there must be at least one class", "Z5")
        if tuple(target) not in (samples, x):
            text = f"must be {samples}, a class for each sample, or {x}, probabilities"
            raise ShapeError(self.name, f"target shape={target}", text, "Z5")
        if weight is not None and weight != (classes,):
            raise ShapeError(self.name, f"weight shape={weight}", f"must be ({classes},), one per class, or None", "Z7")
        return samples if self.reduction == "none" else ()

    def labels(self, x_shape: Shape, target: Array) -> Array | None:
        """Class indices as int64 with -1 for samples that are left out; None if the target has probabilities."""
        if target.ndim == len(x_shape):
            if target.dtype.kind in "iu":
                text = "probabilities must be a float type or objects (exact numbers)"
                raise DTypeError(self.name, f"target dtype={target.dtype}", text, "I1")
            return None
        if target.dtype.kind not in "iu":
            raise DTypeError(self.name, f"target dtype={target.dtype}", "class indices must be integers", "I1")
        classes = x_shape[self.class_axis(x_shape)]
        wide = target.astype(np.int64)
        kept = wide != self.ignore_index
        wrong = kept & ((wide < 0) | (wide >= classes))
        if wrong.any():
            text = f"class indices must be in 0 … {classes - 1}, or ignore_index={self.ignore_index}"
            raise PolicyError(self.name, f"target={int(wide[wrong].flat[0])}", text, "Z6")
        return np.where(kept, wide, -1)

    def softmax(self, shape: Shape) -> Softmax:
        """The softmax over the classes."""
        return Softmax(self.class_axis(shape))

    def shares(self, c: Any, points: Any) -> Any:
        """In the arithmetic of a bridge: the sum of every sample's coefficients over the divisor, along one class."""
        x, target, weight = (*points, None)[:3]
        shape = tuple(int(n) for n in x.shape)  # the divisor is a number, also where a compiler traces sizes
        axis, classes = self.class_axis(shape), shape[self.class_axis(shape)]
        ones, smooth = c.ones(x), Fraction(self.label_smoothing)
        row = ones[(slice(None),) * axis + (slice(0, 1),)]
        target, weights = c.constant(target), None if weight is None else c.constant(weight)
        if len(target.shape) == len(shape):
            cells = c.scaled(ones * target, 1 - smooth) + c.scaled(ones, smooth / classes)
            if weights is not None:
                cells = cells * weights.reshape((-1, *(1,) * (len(shape) - axis - 1)))
            sums = cells.sum(axis=axis, keepdims=True)
            samples = math.prod(self.samples(shape))
            return c.scaled(sums, Fraction(1, samples)) if self.reduction == "mean" else sums
        kept = (target != self.ignore_index).reshape(row.shape)
        own = present = row * kept
        if weights is not None:
            own, present = own * weights[target.reshape(row.shape) * kept], present * weights.sum()
        else:
            present = c.scaled(present, classes)
        sums = c.scaled(own, 1 - smooth) + c.scaled(present, smooth / classes)
        return sums / own.sum() if self.reduction == "mean" else sums

    def finite(self, weight: Array | None) -> None:
        """Refuse weights that are not finite."""
        if weight is not None and weight.dtype.kind != "O" and not np.isfinite(weight.astype(np.float64)).all():
            raise PolicyError(self.name, "weight", "class weights must be finite", "Z7")


def _drawn_mse(choose: Any) -> tuple[Operator, tuple[Any, ...]]:
    sizes = {0: (), 1: (1, 2, 3, 17, 33, 65), 2: (1, 2, 3, 5, 17), 3: (1, 2, 3)}[rank := choose((0, 1, 2, 2, 3, 3))]
    shape = tuple(choose(sizes) for _ in range(rank))
    return MSELoss(choose(REDUCTIONS)), (shape, shape)


def _drawn_entropy(choose: Any) -> tuple[Operator, tuple[Any, ...]]:
    classes, samples = choose((3, 1, 2, 5, 17)), choose((None, (1,), (2,), (3,), (2, 2), (1, 2, 2)))
    shape = (classes,) if samples is None else (samples[0], classes, *samples[1:])
    kept = () if samples is None else samples
    op = CrossEntropy(choose((-100, 0)), choose(REDUCTIONS), choose((0.0, 0.0, 0.125, 0.1)))
    return op, (shape, choose((kept, kept, shape)), choose((None, (classes,))))


def _drawn_targets(op: Any, shapes: Any, rng: Any) -> tuple[Any, ...]:
    """Class indices, some of them left out, or probabilities, and weights, of numbers that every format holds."""
    x, target, weight = shapes
    classes = x[op.class_axis(x)]
    given = rng.integers(0, 9, target) / 8.0 if len(target) == len(x) else rng.integers(0, classes, target)
    return np.asarray(given), None if weight is None else rng.integers(1, 9, weight) / 4.0


_OLDER = ("size_average: bool | None = None", "reduce: bool | None = None")
_OLDER_FIRST = "reduction = older_reduction(size_average, reduce, reduction)"
declare(
    MSELoss,
    kind="smooth",
    curvature=QUADRATIC,
    draw=Draw(_drawn_mse, terms=400),
    ranks=(),
    module=None,
    planar=False,
    form=("input", "target", "size_average", "reduce", "reduction", "weight"),
    accepts=(*_OLDER, "weight: None = None"),
    before="no_weight(weight)\n" + _OLDER_FIRST,
    summary="The mean of ``(input - target) ** 2``, correctly rounded as one operator",
    note="``reduction`` is ``'mean'``, ``'sum'`` or ``'none'``; ``size_average`` and ``reduce`` are PyTorch's older "
    "words for it.",
    examples=("np.array([1.0, 2.0]), np.array([1.0, 4.0])",),
)
declare(
    CrossEntropy,
    kind="smooth",
    curvature=ENTROPY,
    draw=Draw(_drawn_entropy, terms=300, constants=_drawn_targets),
    optional=1,
    ranks=(),
    module=None,
    planar=False,
    form=(
        *("input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction"),
        "label_smoothing",
    ),
    accepts=_OLDER,
    before=_OLDER_FIRST,
    summary="The mean of ``-log(softmax(input))`` at the target classes, correctly rounded as one operator",
    note="Classes lie along axis 1, or along the only axis. ``target`` has class indices, or probabilities in the "
    "shape of ``input``; ``weight`` has one number per class.",
    examples=("np.array([[0.0, 0.0], [0.0, 0.0]]), np.array([1, 0])",),
    onnx=("SoftmaxCrossEntropyLoss",),
)
