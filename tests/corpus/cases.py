"""The cases of the corpus: operators, shapes, types, kinds of numbers and layouts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

import halfulp as hu
from halfulp import kernels
from halfulp.records import ElementwiseOperator
from tests.corpus.generator import FORMATS, INTEGERS, Array, array

TIES, NAN = ("first", "last", "all", "split"), ("propagate", "ignore")
IMAGE, VOLUME, LINE = (2, 3, 19, 37), (1, 2, 7, 9, 21), (3, 2, 83)


@dataclass(frozen=True)
class Case:
    """An operator on one input, with a seed for every array."""

    op: Any
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    kind: str
    channels_last: bool = False

    @property
    def name(self) -> str:
        sizes = " ".join("x".join(map(str, shape)) for shape in self.shapes)
        return f"{self.op!r} {sizes} {self.dtype} {self.kind}{' channels-last' if self.channels_last else ''}"

    @property
    def seed(self) -> int:
        """A number of the name alone: cases may be added and moved."""
        seed = 7
        for letter in self.name.encode():
            seed = (seed * 1000003 + letter) & 0xFFFFFFF
        return seed

    def inputs(self) -> tuple[Array, ...]:
        found = [array(self.dtype, shape, self.kind, self.seed + i) for i, shape in enumerate(self.shapes)]
        if isinstance(self.op, hu.FractionalMaxPool):
            found[1] = (array("uint16", self.shapes[1], "near", self.seed + 1) / 65536).astype(np.float64)
        if isinstance(self.op, hu.MaxUnpool):
            cells = np.prod(self.op.output_shape(*self.shapes)[2:])
            found[1] = array("uint32", self.shapes[1], "near", self.seed + 1).astype(np.int64) % int(cells)
        if isinstance(self.op, hu.BatchNorm) and len(found) == 5:
            found[4] = np.abs(found[4])  # a variance
        if isinstance(self.op, hu.CrossEntropy):
            found[1], found[2] = (np.abs(array(self.dtype, self.shapes[i], "near", self.seed + i)) for i in (1, 2))
            if len(self.shapes[1]) < len(self.shapes[0]):
                found[1] = array("uint32", self.shapes[1], "near", self.seed + 1).astype(np.int64) % self.shapes[0][1]
        return tuple(self._laid_out(x) for x in found)

    def direction(self, number: int, like: Any) -> Array:
        """A tangent or cotangent of the shape and type of an array."""
        kind = "near" if self.kind in ("hard", "wide") else self.kind
        return self._laid_out(array(self.dtype, like.shape, kind, self.seed + 10 + number))

    def _laid_out(self, x: Array) -> Array:
        return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1) if self.channels_last else x


def hard_max() -> Iterator[tuple[Any, tuple[int, ...]]]:
    for ties, nan in product(TIES, NAN):
        policies = {"ties": ties, "nan": nan}
        yield hu.MaxPool((3, 3), stride=2, padding=1, **policies), IMAGE
        yield hu.MaxPool((2, 2), **policies), IMAGE
        yield hu.MaxPool((3, 3), stride=1, padding=1, **policies), IMAGE
        yield hu.MaxPool((3,), stride=2, padding=1, **policies), LINE
        yield hu.MinPool((3, 3), stride=2, padding=1, **policies), IMAGE
        yield hu.AdaptiveMaxPool((5, 4), **policies), IMAGE
        yield hu.GlobalMaxPool(2, **policies), IMAGE
        yield hu.GlobalMinPool(2, **policies), IMAGE
    yield hu.MaxPool((3, 3, 3), stride=2, padding=1), VOLUME
    yield hu.MaxPool((2, 2, 2)), VOLUME
    yield hu.MaxPool((13, 13), stride=1, padding=6), IMAGE
    yield hu.MaxPool((3, 2), stride=(3, 1), padding=((0, 2), (1, 0)), dilation=(2, 3), ceil_mode=True), IMAGE
    yield hu.MaxPool((2, 3), stride=(1, 3), nan="raise"), IMAGE


def averages() -> Iterator[tuple[Any, tuple[int, ...]]]:
    yield hu.AvgPool((3, 3), stride=2, padding=1), IMAGE
    yield hu.AvgPool((3, 3), stride=1, padding=1), IMAGE
    yield hu.AvgPool((2, 2)), IMAGE
    yield hu.AvgPool((3, 3), stride=2, padding=1, count_include_pad=False, ceil_mode=True), IMAGE
    yield hu.AvgPool((5, 4), stride=(2, 3), divisor_override=7), IMAGE
    yield hu.AvgPool((2, 3), stride=1, dilation=(3, 2), divisor_override=-5), IMAGE
    yield hu.AvgPool((15, 31), stride=1, padding=(7, 15)), IMAGE
    yield hu.AvgPool((3,), stride=2, padding=1), LINE
    yield hu.AvgPool((3, 3, 3), stride=2, padding=1), VOLUME
    yield hu.SumPool((3, 3), stride=2, padding=1), IMAGE
    yield hu.SumPool((2, 2, 2), stride=1), VOLUME
    yield hu.AvgPool((2, 2), nan="ignore"), IMAGE
    yield hu.AvgPool((3, 3), stride=2, padding=1, nan="ignore"), IMAGE
    yield hu.SumPool((3, 3), stride=2, nan="ignore"), IMAGE
    yield hu.AdaptiveAvgPool((5, 4), nan="ignore"), IMAGE
    yield hu.GlobalAvgPool(2, nan="ignore"), IMAGE
    yield hu.MedianPool((3, 2), stride=2, nan="ignore"), IMAGE
    yield hu.ModePool((2, 2), nan="ignore"), (1, 2, 9, 17)
    yield hu.MedianPool((2, 2)), IMAGE
    yield hu.MedianPool((3, 3), stride=2, padding=1), IMAGE
    yield hu.ModePool((2, 3), stride=1), (1, 2, 9, 17)
    yield hu.AdaptiveAvgPool((5, 4)), IMAGE
    yield hu.AdaptiveAvgPool((23, 41)), IMAGE
    yield hu.GlobalAvgPool(2), IMAGE
    yield hu.GlobalAvgPool(1), LINE
    for p in (1, 2, 3, float("inf")):
        yield hu.LpPool((3, 3), p, stride=2, padding=1), (1, 2, 9, 17)
        yield hu.GlobalLpPool(2, p), (1, 2, 5, 7)


def smooth() -> Iterator[tuple[Any, tuple[int, ...]]]:
    yield hu.SmoothMaxPool((3, 3), beta=1.0, stride=2, padding=1), (1, 2, 11, 21)
    yield hu.SmoothMaxPool((2, 2), beta=-3.5), (1, 2, 8, 18)
    yield hu.SmoothMaxPool((3,), beta=20.0, stride=2, dilation=2), (2, 41)


def convolutions() -> Iterator[tuple[Any, tuple[tuple[int, ...], ...]]]:
    yield hu.Conv(2, padding=1), ((2, 8, 13, 18), (9, 8, 3, 3), (9,))
    yield hu.Conv(2, stride=2, padding=1, groups=2), ((1, 6, 11, 12), (4, 3, 3, 2), (4,))
    yield hu.Conv(2), ((2, 20, 7, 9), (17, 20, 1, 1), (17,))
    yield hu.Conv(1, dilation=2, padding=3), ((2, 3, 31), (5, 3, 4), (5,))
    yield hu.Conv(3, padding=1), ((1, 2, 4, 5, 6), (3, 2, 2, 3, 3), (3,))
    yield hu.ConvTranspose(2, stride=2, padding=1, output_padding=1), ((1, 5, 6, 7), (5, 4, 3, 3), (4,))
    yield hu.ConvTranspose(1, stride=3, groups=2), ((2, 4, 9), (4, 3, 4), (6,))


def rest() -> Iterator[tuple[Any, tuple[tuple[int, ...], ...]]]:
    yield hu.Unfold((3, 2), stride=2, padding=1), ((2, 3, 9, 8),)
    yield hu.Fold((9, 8), (3, 2), stride=2, padding=1), ((2, 18, 25),)
    yield hu.MaxUnpool((2, 2)), ((2, 3, 5, 6), (2, 3, 5, 6))
    for ties, nan in product(TIES, NAN):
        yield hu.FractionalMaxPool((2, 3), (5, 6), ties=ties, nan=nan), ((2, 3, 13, 17), (2, 3, 2))


def models() -> Iterator[tuple[Any, tuple[tuple[int, ...], ...]]]:
    """What a network has besides convolution and pooling."""
    yield hu.Linear(), ((2, 5, 19), (7, 19), (7,))
    yield hu.Matmul(), ((2, 1, 5, 19), (3, 19, 6))
    yield hu.LayerNorm((5, 7)), ((3, 5, 7), (5, 7), (5, 7))
    yield hu.GroupNorm(2), ((2, 4, 9), (4,), (4,))
    yield hu.InstanceNorm(), ((2, 3, 4, 5), (3,), (3,))
    yield hu.BatchNorm(training=True), ((3, 4, 7), (4,), (4,))
    yield hu.BatchNorm(), ((3, 4, 7), (4,), (4,), (4,), (4,))
    for dim in (0, -1):
        yield hu.Softmax(dim), ((5, 9),)
        yield hu.LogSoftmax(dim), ((5, 9),)
    yield hu.Sum((0, 2)), ((3, 4, 21),)
    yield hu.Mean(1, keepdim=True), ((3, 37, 4),)
    yield hu.Var((0, 2)), ((3, 4, 21),)
    yield hu.Var(1, 0), ((3, 37, 4),)
    for reduction in ("mean", "none"):
        yield hu.MSELoss(reduction), ((5, 41), (5, 41))
        yield hu.CrossEntropy(reduction=reduction), ((7, 11), (7,), (11,))
        yield hu.CrossEntropy(2, reduction, 0.1), ((3, 5, 4), (3, 4), (5,))
    yield hu.CrossEntropy(), ((7, 11), (7, 11), (11,))
    yield hu.Interpolate(scale_factor=2.0, mode="linear"), ((2, 3, 23),)
    yield hu.Interpolate(7, mode="nearest"), ((2, 1, 19),)
    yield hu.Interpolate((9, 31), mode="nearest-exact"), ((1, 2, 5, 7),)
    yield hu.Interpolate((13, 40), mode="bilinear"), ((2, 2, 7, 19),)
    yield hu.Interpolate((13, 11), mode="bilinear", align_corners=True), ((1, 2, 7, 19),)
    yield hu.Interpolate(None, (1.7, 0.4), "bicubic"), ((1, 2, 7, 19),)
    yield hu.Interpolate(scale_factor=2.0, mode="trilinear"), ((1, 2, 3, 4, 5),)


def functions() -> Iterator[Any]:
    """Every elementwise record; those with parameters at more than one of them."""
    for record in kernels.entries:
        if issubclass(record, ElementwiseOperator) and record is not hu.Pow:
            yield record()
    yield from (
        hu.Pow(2),
        hu.Pow(2.5),
        hu.Pow(-0.5),
        hu.LeakyRelu(0.3),
        hu.Elu(1.5),
        hu.Gelu("tanh"),
        hu.Softplus(2, 5),
    )


def cases() -> Iterator[Case]:
    """Every case, in a fixed order."""
    for dtype in FORMATS:
        for op, shape in hard_max():
            for kind in ("near", "ties", "hard"):
                if not (kind == "hard" and op.name.startswith("max") and op.nan == "raise"):
                    yield Case(op, (shape,), dtype, kind)
        for op, shape in averages():
            slow = isinstance(op, (hu.LpPool, hu.GlobalLpPool))
            for kind in ("near", "ties", "wide", "hard"):
                if not (slow and kind == "wide"):
                    yield Case(op, (shape,), dtype, kind)
        for op, shape in smooth():
            for kind in ("near", "ties") if dtype == "float64" else ("near", "ties", "hard"):
                yield Case(op, (shape,), dtype, kind)
        for op, shapes in (*convolutions(), *rest()):
            for kind in ("near", "ties", "finite", "hard"):
                if not (kind == "hard" and isinstance(op, hu.MaxUnpool)):
                    yield Case(op, shapes, dtype, kind)
        for op, shapes in models():
            for kind in ("near", "ties", "hard"):
                yield Case(op, shapes, dtype, kind)
        for op in functions():
            for kind in ("near", "ties", "hard"):
                yield Case(op, ((3, 41),), dtype, kind)
        for op in (
            hu.MaxPool((3, 3), stride=2, padding=1),
            hu.MaxPool((2, 2), ties="split"),
            hu.AvgPool((3, 3), stride=2, padding=1),
            hu.AvgPool((3, 3), stride=1, padding=1),
            hu.AdaptiveAvgPool((5, 4)),
            hu.GlobalAvgPool(2),
        ):
            for kind in ("near", "hard"):
                yield Case(op, ((2, 67, 9, 11),), dtype, kind, channels_last=True)
    for dtype in INTEGERS:
        for op in (
            hu.MaxPool((3, 3), stride=2, padding=1),
            hu.MaxPool((2, 2), ties="last"),
            hu.MinPool((3, 3), stride=1, padding=1),
            hu.AdaptiveMaxPool((5, 4)),
            hu.GlobalMaxPool(2, ties="first"),
            hu.GlobalMinPool(2),
            hu.AvgPool((2, 2), dtype="same"),
            hu.SumPool((2, 2), dtype="same"),
            hu.AdaptiveAvgPool((5, 4), dtype="same"),
            hu.GlobalAvgPool(2, dtype="same"),
            hu.MedianPool((2, 2)),
            hu.ModePool((2, 2)),
        ):
            for kind in ("near", "ties"):
                if not (isinstance(op, hu.SumPool) and (dtype == "bool" or kind == "near")):  # sums that do not fit
                    yield Case(op, (IMAGE,), dtype, kind)
        for op, shapes in rest():
            if not isinstance(op, hu.Fold):
                yield Case(op, shapes, dtype, "near")
