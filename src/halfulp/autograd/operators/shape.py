"""Operators that move elements and compute nothing: reshape, transpose, broadcast, index, concatenate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from halfulp.autograd.operators._base import PullbackRule, TapeOperator
from halfulp.autograd.scalars import Array, full
from halfulp.autograd.traced import apply


class _Rearrangement(TapeOperator):
    """A linear operator of one input whose tangent is the operator itself."""

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        return apply(self, tangents[0])


@dataclass(frozen=True)
class Reshape(_Rearrangement):
    """The same elements in row-major order, in another shape; one size may be -1."""

    shape: tuple[int, ...]
    name: ClassVar[str] = "reshape"

    def forward(self, *inputs: Array) -> Any:
        (x,) = inputs
        known = math.prod(n for n in self.shape if n != -1)
        unknown = self.shape.count(-1)
        if unknown > 1 or (x.size != known if not unknown else known == 0 or x.size % known):
            raise self._fail(f"shape={self.shape}", f"cannot hold the {x.size} elements of an input of shape {x.shape}")
        return x.reshape(self.shape)

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        shape = primals[0].shape
        return lambda g: (reshape(g, shape),)


@dataclass(frozen=True)
class Flatten(_Rearrangement):
    """The axes from ``start`` on as one, in row-major order."""

    start: int = 1
    name: ClassVar[str] = "flatten"

    def forward(self, *inputs: Array) -> Any:
        (x,) = inputs
        if not 0 <= self.start <= x.ndim:
            raise self._fail(f"start={self.start}", f"must be an axis of an input of shape {x.shape}")
        return x.reshape((*x.shape[: self.start], math.prod(x.shape[self.start :])))

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        shape = primals[0].shape
        return lambda g: (reshape(g, shape),)


@dataclass(frozen=True)
class Transpose(_Rearrangement):
    """The axes in another order; None reverses them."""

    axes: tuple[int, ...] | None = None
    name: ClassVar[str] = "transpose"

    def forward(self, *inputs: Array) -> Any:
        (x,) = inputs
        if self.axes is not None and sorted(a % x.ndim if x.ndim else a for a in self.axes) != list(range(x.ndim)):
            raise self._fail(f"axes={self.axes}", f"must be a permutation of the {x.ndim} axes of the input")
        return np.transpose(x, self.axes)

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        axes = self.axes
        inverse = None if axes is None else tuple(int(a) for a in np.argsort([a % len(axes) for a in axes]))
        return lambda g: (transpose(g, inverse),)


@dataclass(frozen=True)
class BroadcastTo(_Rearrangement):
    """The input repeated along new axes and axes of size 1, as NumPy does."""

    shape: tuple[int, ...]
    name: ClassVar[str] = "broadcast_to"

    def forward(self, *inputs: Array) -> Any:
        (x,) = inputs
        offset = len(self.shape) - x.ndim
        if offset < 0 or any(n not in (1, m) for n, m in zip(x.shape, self.shape[max(offset, 0) :], strict=False)):
            raise self._fail(f"shape={self.shape}", f"an input of shape {x.shape} cannot be broadcast to it")
        return np.array(np.broadcast_to(x, self.shape))

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        from halfulp.autograd.operators.reduction import sum_to  # the transposed pair needs each other

        shape = primals[0].shape
        return lambda g: (sum_to(g, shape),)


@dataclass(frozen=True, eq=False)
class Index(_Rearrangement):
    """``x[key]`` for any key NumPy takes."""

    key: Any
    name: ClassVar[str] = "index"

    def forward(self, *inputs: Array) -> Any:
        try:
            return inputs[0][self.key]
        except IndexError as error:
            raise self._fail(f"key={self.key!r}", f"{error} (input shape {inputs[0].shape})") from error

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        scatter = Scatter(self.key, primals[0].shape)
        return lambda g: (apply(scatter, g),)


@dataclass(frozen=True, eq=False)
class Scatter(_Rearrangement):
    """The transpose of ``x[key]``: zeros of ``shape`` to which the input is added at ``key``, in row-major order."""

    key: Any
    shape: tuple[int, ...]
    name: ClassVar[str] = "scatter"

    def forward(self, *inputs: Array) -> Any:
        out = full(self.shape, inputs[0], 0)
        np.add.at(out, self.key, inputs[0])
        return out

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        gather = Index(self.key)
        return lambda g: (apply(gather, g),)


@dataclass(frozen=True)
class Concatenate(TapeOperator):
    """The inputs one after the other along an axis."""

    axis: int = 0
    name: ClassVar[str] = "concatenate"

    def forward(self, *inputs: Array) -> Any:
        try:
            return np.concatenate(inputs, axis=self.axis)
        except ValueError as error:
            shapes = [x.shape for x in inputs]
            raise self._fail(
                f"input shapes={shapes}, axis={self.axis}", "must be equal except along the axis"
            ) from error

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        from halfulp.autograd.traced import strip

        filled = [full(x.shape, strip(output), 0) if t is None else t for x, t in zip(primals, tangents, strict=True)]
        return apply(self, *filled)

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        axis = self.axis % len(output.shape)
        cuts, start = [], 0
        for x in primals:
            stop = start + x.shape[axis]
            cuts.append(Index((slice(None),) * axis + (slice(start, stop),)))
            start = stop
        return lambda g: tuple(apply(cut, g) if need else None for cut, need in zip(cuts, needs, strict=True))


def reshape(x: Any, shape: int | Sequence[int]) -> Any:
    """The same elements in row-major order, in another shape.

    >>> reshape(np.arange(4.0), (2, -1))
    array([[0., 1.],
           [2., 3.]])
    """
    return apply(Reshape((shape,) if isinstance(shape, int) else tuple(shape)), x)


def flatten(x: Any, start: int = 1) -> Any:
    """The axes from ``start`` on as one.

    >>> flatten(np.zeros((2, 3, 4))).shape
    (2, 12)
    """
    return apply(Flatten(start), x)


def transpose(x: Any, axes: Sequence[int] | None = None) -> Any:
    """The axes in another order, reversed by default.

    >>> transpose(np.zeros((2, 3))).shape
    (3, 2)
    """
    return apply(Transpose(None if axes is None else tuple(axes)), x)


def broadcast_to(x: Any, shape: Sequence[int]) -> Any:
    """The input repeated along new axes and axes of size 1.

    >>> broadcast_to(np.ones(3), (2, 3)).shape
    (2, 3)
    """
    return apply(BroadcastTo(tuple(shape)), x)


def concatenate(inputs: Sequence[Any], axis: int = 0) -> Any:
    """The inputs one after the other along an axis.

    >>> concatenate([np.ones(1), np.zeros(2)])
    array([1., 0., 0.])
    """
    return apply(Concatenate(axis), *inputs)


def index(x: Any, key: Any) -> Any:
    """``x[key]``.

    >>> index(np.arange(4.0), slice(1, 3))
    array([1., 2.])
    """
    return apply(Index(key), x)
