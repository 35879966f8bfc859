"""The records of normalisations: batch, layer, group and instance norm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from halfulp.errors import DTypeError, PolicyError, ShapeError
from halfulp.numbers import is_float
from halfulp.records import _arguments as arguments
from halfulp.records._base import Array, Operator, Shape, is_integer
from halfulp.records._curvature import NORMALISATION
from halfulp.records._declaration import Draw, declare
from halfulp.records._products import given_shapes

Sizes = Any
"""One integer or a sequence of them; a built record holds a tuple."""


class Groups(NamedTuple):
    """An input as (blocks, groups, inner): which cells are normalised together, and which share a weight.

    A ``joint`` group takes the cells of all blocks, else every block has its own. Weights are ``per_cell`` of a group,
    or ``channels`` of them share a group's cells in equal runs.
    """

    blocks: int
    groups: int
    inner: int
    channels: int
    joint: bool
    per_cell: bool

    @property
    def cells(self) -> int:
        """How many cells a group has."""
        return self.inner * (self.blocks if self.joint else 1)


class NormalisationOperator(Operator):
    """y = weight * (x - mean) / sqrt(variance + eps) + bias, the moments over groups of cells."""

    arity: ClassVar[int] = 3
    required: ClassVar[int] = 1
    eps: Any

    @property
    def own_statistics(self) -> bool:
        """Whether mean and variance are those of the input."""
        return True

    def groups_of(self, shape: Shape) -> Groups:
        """The groups of an input of this shape."""
        raise AssertionError("every normalisation has groups")

    def grouping(self, shape: Shape) -> tuple[Shape, tuple[int, ...], int]:
        """(a shape with the cells of a group along some axes, these axes, the number of cells)."""
        g = self.groups_of(shape)
        return (g.blocks, g.groups, g.inner), (0, 2) if g.joint else (2,), g.cells

    def weight_shape(self, shape: Shape) -> Shape:
        """The shape of weight and bias."""
        g = self.groups_of(shape)
        return (g.groups * g.channels,)

    def output_shape(self, *input_shapes: Shape | None) -> Shape:
        x, *parameters = given_shapes(self.name, input_shapes, 1, self.input_names)
        self.groups_of(x)
        expected = self.weight_shape(x)
        for name, shape in zip(self.input_names[1:3], parameters, strict=False):
            if shape is not None and shape != expected:
                raise ShapeError(self.name, f"{name} shape={shape}", f"must be {expected}, or None", "R2")
        return tuple(x)

    def _check_eps(self) -> None:
        eps = float(self.eps) if isinstance(self.eps, (int, float, np.floating)) else math.nan
        if isinstance(self.eps, bool) or not 0 <= eps < math.inf:
            raise PolicyError(self.base_name, f"eps={self.eps!r}", "must be a finite number >= 0", "R1")
        object.__setattr__(self, "eps", eps)


def _channels(operator: str, shape: Shape, least: int) -> int:
    if len(shape) < least:
        axes = "(batch, channels)" if least == 2 else "(batch, channels, …)"
        raise ShapeError(operator, f"input shape={shape}", f"must be {axes} with at least {least} axes", "R3")
    return shape[1]


@dataclass(frozen=True, repr=False, eq=False)
class LayerNorm(NormalisationOperator):
    """Every slice of the last axes, ``normalized_shape``, normalised; weight and bias have that shape.

    >>> import numpy as np
    >>> LayerNorm((2,), eps=0.0)(np.array([[1.0, 3.0], [2.0, 10.0]]))
    array([[-1.,  1.],
           [-1.,  1.]])
    """

    normalized_shape: Sizes
    eps: float = 1e-5

    def __post_init__(self) -> None:
        given = self.normalized_shape
        sizes = tuple(given) if arguments.is_sequence(given) else (given,)
        if not sizes or not all(is_integer(n) and n >= 1 for n in sizes):
            text = "must be one integer >= 1 or a sequence of them"
            raise ShapeError(self.name, f"normalized_shape={given!r}", text, "R3")
        object.__setattr__(self, "normalized_shape", tuple(int(n) for n in sizes))
        self._check_eps()

    def groups_of(self, shape: Shape) -> Groups:
        sizes = self.normalized_shape
        if tuple(shape[max(0, len(shape) - len(sizes)) :]) != sizes:
            raise ShapeError(self.name, f"input shape={shape}", f"the last axes must be {sizes}", "R3")
        rows = math.prod(shape[: len(shape) - len(sizes)])
        return Groups(1, rows, math.prod(sizes), 1, joint=False, per_cell=True)

    def weight_shape(self, shape: Shape) -> Shape:
        return tuple(self.normalized_shape)


@dataclass(frozen=True, repr=False, eq=False)
class GroupNorm(NormalisationOperator):
    """The channels of every sample in ``num_groups`` groups, each normalised; weight and bias have one per channel.

    >>> import numpy as np
    >>> GroupNorm(1, eps=0.0)(np.array([[[1.0], [3.0]]]))
    array([[[-1.],
            [ 1.]]])
    """

    num_groups: int
    eps: float = 1e-5

    def __post_init__(self) -> None:
        if not is_integer(self.num_groups) or self.num_groups < 1:
            raise ShapeError(self.name, f"num_groups={self.num_groups!r}", "must be an integer >= 1", "R3")
        object.__setattr__(self, "num_groups", int(self.num_groups))
        self._check_eps()

    def groups_of(self, shape: Shape) -> Groups:
        channels, count = _channels(self.name, shape, 2), self.num_groups
        if channels % count:
            raise ShapeError(self.name, f"num_groups={count}", f"must divide the {channels} channels", "R3")
        each = channels // count
        return Groups(shape[0], count, each * math.prod(shape[2:]), each, joint=False, per_cell=False)


@dataclass(frozen=True, repr=False, eq=False)
class InstanceNorm(NormalisationOperator):
    """Every channel of every sample normalised; weight and bias have one number per channel.

    >>> import numpy as np
    >>> InstanceNorm(eps=0.0)(np.array([[[1.0, 3.0], [2.0, 10.0]]]))
    array([[[-1.,  1.],
            [-1.,  1.]]])
    """

    eps: float = 1e-5

    def __post_init__(self) -> None:
        self._check_eps()

    def groups_of(self, shape: Shape) -> Groups:
        channels = _channels(self.name, shape, 3)
        return Groups(shape[0], channels, math.prod(shape[2:]), 1, joint=False, per_cell=False)


@dataclass(frozen=True, repr=False, eq=False)
class BatchNorm(NormalisationOperator):
    """Every channel normalised over batch and space; weight and bias have one number per channel.

    With ``training=True`` mean and variance are those of the input. Else they are given, one per channel, and have no
    derivative: the inputs are (x, weight, bias, running_mean, running_var). ``momentum`` is how far running statistics
    move to those of a batch; the functional form moves them.

    >>> import numpy as np
    >>> BatchNorm(training=True, eps=0.0)(np.array([[1.0], [3.0]]))
    array([[-1.],
           [ 1.]])
    >>> BatchNorm(eps=0.0)(np.array([[1.0], [3.0]]), None, None, np.array([1.0]), np.array([4.0]))
    array([[0.],
           [1.]])
    """

    training: bool = False
    momentum: float = 0.1
    eps: float = 1e-5
    arity: ClassVar[int] = 5
    input_names: ClassVar[tuple[str, ...]] = ("input", "weight", "bias", "running_mean", "running_var")
    constants: ClassVar[tuple[str, ...]] = ("running_mean", "running_var")

    def __post_init__(self) -> None:
        object.__setattr__(self, "training", arguments.flag(self.base_name, "training", self.training))
        momentum = float(self.momentum) if isinstance(self.momentum, (int, float, np.floating)) else math.nan
        if isinstance(self.momentum, bool) or not 0 <= momentum <= 1:
            raise PolicyError(self.base_name, f"momentum={self.momentum!r}", "must be a number from 0 to 1", "R1")
        object.__setattr__(self, "momentum", momentum)
        self._check_eps()

    @property
    def own_statistics(self) -> bool:
        return self.training

    def groups_of(self, shape: Shape) -> Groups:
        channels = _channels(self.name, shape, 2)
        return Groups(shape[0], channels, math.prod(shape[2:]), 1, joint=True, per_cell=False)

    def constant(self, name: str, array: Array) -> Array:
        """Given statistics are floats or exact numbers."""
        if array.dtype.kind != "O" and not is_float(array.dtype):
            text = "must be float16, bfloat16, float32, float64 or objects (exact numbers)"
            raise DTypeError(self.name, f"{name} dtype={array.dtype}", text, "I1")
        return array

    def output_shape(self, *input_shapes: Shape | None) -> Shape:
        shape = super().output_shape(*input_shapes[:3])
        given = [*input_shapes[3:], None, None][:2]
        for name, statistic in zip(self.constants, given, strict=True):
            if self.training:
                if statistic is not None:
                    raise ShapeError(self.name, f"{name} given", "must be None with training=True", "R4")
            elif statistic is None or tuple(statistic) != (shape[1],):
                found = "None" if statistic is None else f"shape={tuple(statistic)}"
                text = f"must be ({shape[1]},), one per channel, unless training=True"
                raise ShapeError(self.name, f"{name} {found}", text, "R4")
        return shape


_EPS = (1e-5, 0.5, 1e-3)


def _parameters(choose: Any, shape: Shape) -> tuple[Any, Any]:
    return choose(((shape, shape), (shape, None), (None, None)))  # type: ignore[no-any-return]


def _drawn_layer_norm(choose: Any) -> tuple[Operator, tuple[Any, ...]]:
    sizes = choose(((3,), (1,), (2, 3), (17,), (65,)))
    leading = choose(((2,), (), (1,), (3, 2)))
    return LayerNorm(sizes, choose(_EPS)), ((*leading, *sizes), *_parameters(choose, sizes))


def _drawn_group_norm(choose: Any) -> tuple[Operator, tuple[Any, ...]]:
    groups, each, spatial = choose((1, 2, 3)), choose((1, 2)), choose(((), (3,), (2, 2), (33,)))
    channels = groups * each
    shape = (choose((2, 1, 3)), channels, *spatial)
    return GroupNorm(groups, choose(_EPS)), (shape, *_parameters(choose, (channels,)))


def _drawn_instance_norm(choose: Any) -> tuple[Operator, tuple[Any, ...]]:
    channels, spatial = choose((1, 2, 3)), choose(((3,), (2, 2), (33,), (1,)))
    shape = (choose((2, 1, 3)), channels, *spatial)
    return InstanceNorm(choose(_EPS)), (shape, *_parameters(choose, (channels,)))


def _drawn_batch_norm(choose: Any) -> tuple[Operator, tuple[Any, ...]]:
    training, channels, spatial = choose((True, False)), choose((1, 2, 3)), choose(((), (3,), (2, 2), (17,)))
    shape = (choose((2, 1, 3, 5)), channels, *spatial)
    if training:
        return BatchNorm(True, eps=choose(_EPS)), (shape, *_parameters(choose, (channels,)), None, None)
    return BatchNorm(eps=choose(_EPS)), (shape, *((channels,),) * 4)


def _drawn_statistics(op: Any, shapes: Any, rng: Any) -> tuple[Any, ...]:
    """A mean and a variance per channel, of numbers that every format holds."""
    if op.training:
        return None, None
    return rng.integers(-8, 9, shapes[3]) / 4.0, rng.integers(1, 9, shapes[4]) / 4.0


_COMMON: dict[str, Any] = {
    "kind": "smooth",
    "curvature": NORMALISATION,
    "optional": 2,
    "ranks": (),
    "module": None,
    "planar": False,
}
declare(
    LayerNorm,
    draw=Draw(_drawn_layer_norm, terms=400),
    form=("input", "normalized_shape", "weight", "bias", "eps"),
    summary="Every slice of the last axes, ``normalized_shape``, normalised, correctly rounded as one operator",
    examples=("np.array([[1.0, 3.0], [2.0, 10.0]]), (2,), eps=0.0",),
    onnx=("LayerNormalization",),
    **_COMMON,
)
declare(
    GroupNorm,
    draw=Draw(_drawn_group_norm, terms=400),
    form=("input", "num_groups", "weight", "bias", "eps"),
    summary="The channels of every sample in ``num_groups`` groups, each normalised, correctly rounded as one operator",
    examples=("np.array([[[1.0], [3.0]]]), 1, eps=0.0",),
    onnx=("GroupNormalization",),
    **_COMMON,
)
declare(
    InstanceNorm,
    draw=Draw(_drawn_instance_norm, terms=400),
    form=("input", "running_mean", "running_var", "weight", "bias", "use_input_stats", "momentum", "eps"),
    accepts=(
        *("running_mean: Any = None", "running_var: Any = None", "use_input_stats: bool = True"),
        "momentum: float = 0.1",
    ),
    before="if not use_input_stats:\n"
    "    return batch_norm(input, running_mean, running_var, weight, bias, eps=eps{out})\n"
    "move_statistics(input, running_mean, running_var, momentum)",
    note="With ``use_input_stats=False`` it is a batch norm of the running statistics. Otherwise those that are given "
    "become (1 - momentum) * old + momentum * new in place, each step rounded; new are the mean, and the mean over "
    "the batch of the variances with n - 1.",
    summary="Every channel of every sample normalised, correctly rounded as one operator",
    examples=("np.array([[[1.0, 3.0], [2.0, 10.0]]]), eps=0.0",),
    onnx=("InstanceNormalization",),
    **_COMMON,
)
declare(
    BatchNorm,
    draw=Draw(_drawn_batch_norm, terms=400, constants=_drawn_statistics),
    form=("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps"),
    through="with_running_statistics",
    summary="Every channel normalised over batch and space, correctly rounded as one operator",
    note="With ``training=True`` the statistics are those of the input, and running statistics that are given become "
    "(1 - momentum) * old + momentum * new in place, rounded once, the new variance with n - 1.",
    examples=("np.array([[1.0], [3.0]]), None, None, training=True, eps=0.0",),
    onnx=("BatchNormalization",),
    **(_COMMON | {"optional": 4}),
)
