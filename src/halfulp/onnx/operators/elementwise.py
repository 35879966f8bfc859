"""Relu, Clip, Add, Mul, Identity: exact, or one IEEE operation per element."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from halfulp.autograd import TapeOperator, apply, ops
from halfulp.autograd.operators._base import LinearMap, PullbackRule
from halfulp.autograd.traced import strip
from halfulp.onnx._node import Node
from halfulp.onnx.operators._plain import direct, floats, ieee, together
from halfulp.records import Hardtanh, Relu


def relu(node: Node) -> Callable[..., Any]:
    """Relu; its derivative at 0 is 0."""
    return direct(Relu())


def add(node: Node) -> Callable[..., Any]:
    """Add, with NumPy's broadcasting; before operator set 7 the broadcasting is an attribute."""
    return binary(node, ops.add, np.add)


def mul(node: Node) -> Callable[..., Any]:
    """Mul, as Add."""
    return binary(node, ops.mul, np.multiply)


def binary(
    node: Node, function: Callable[[Any, Any], Any], ufunc: Callable[[Any, Any], Any] | None = None
) -> Callable[..., Any]:
    """A function of two inputs that are broadcast together; NumPy's own for its own float types."""
    legacy = node.opset < 7
    broadcast = legacy and node.flag("broadcast")
    axis = node.integer("axis", -1) if legacy and node.has("axis") else None

    def run(x: Any, y: Any) -> Any:
        node.same_types(x, y)
        if legacy and not broadcast and x.shape != y.shape:
            raise node.refusal("broadcast=0", f"shapes {x.shape} and {y.shape} must be equal")
        if axis is not None and len(y.shape) < len(x.shape):
            after = len(x.shape) - (axis % len(x.shape)) - len(y.shape)
            y = ops.reshape(y, (*y.shape, *(1,) * max(0, after)))
        try:
            shape = together(x.shape, y.shape)
        except ValueError as error:
            raise node.refusal(f"input shapes={x.shape} and {y.shape}", "must broadcast together", "O9") from error
        node.fits(shape, x)
        return function(x, y) if ufunc is None or not ieee(x, y) else ufunc(x, y)

    return run


def identity(node: Node) -> Callable[..., Any]:
    """Identity, as a copy: a model's output is never its input's memory."""
    return lambda x: x.copy() if isinstance(x, np.ndarray) else x


@dataclass(frozen=True, eq=False)
class Clip(TapeOperator):
    """min(max(x, low), high): the input's own bits inside [low, high], where the derivative is 1; NaN stays NaN."""

    low: Any
    high: Any
    name: ClassVar[str] = "clip"

    def forward(self, *inputs: NDArray[Any]) -> Any:
        (x,) = inputs
        low, high = (None if bound is None or bound != bound else bound for bound in (self.low, self.high))
        crossed = low is not None and high is not None and low > high
        if x.dtype.kind == "f" and not crossed and (low is not None or high is not None):
            out = np.asarray(np.clip(x, low, high))
            if low == 0 or high == 0:  # a zero keeps its own sign
                np.copyto(out, x, where=x == 0)
            return out
        if low is not None:
            x = np.where(x < low, low, x)
        if high is not None:
            x = np.where(x > high, high, x)
            if crossed:
                x = np.where(x == x, high, x)
        return np.array(x)

    def _gate(self, x: Any) -> LinearMap:
        value = strip(x)
        closed = np.zeros(value.shape, dtype=np.bool_)
        if self.low is not None:
            closed |= (value < self.low).astype(np.bool_)
        if self.high is not None:
            closed |= (value > self.high).astype(np.bool_)

        def through(g: NDArray[Any]) -> NDArray[Any]:
            return np.where(closed, g * 0 if g.dtype == object else g.dtype.type(0), g)

        return LinearMap(through, through, self.name)

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        return apply(self._gate(primals[0]), tangents[0])

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        gate = self._gate(primals[0])
        return lambda g: (apply(gate, g),)


def clip(node: Node) -> Callable[..., Any]:
    """Clip. A bound that is not given does not bound (an infinity stays one)."""
    if node.opset < 11:
        largest = float(np.finfo(np.float32).max)
        least, most = node.number("min", -largest), node.number("max", largest)

        def run_legacy(x: Any) -> Any:
            bounds = _bound(node, "min", least, x), _bound(node, "max", most, x)
            function = _between(*map(float, bounds)) if floats(x) else None
            return apply(Clip(*bounds), x) if function is None else function(x)

        return run_legacy

    def run(x: Any, low: Any = None, high: Any = None) -> Any:
        node.same_types(x, low, high)
        bounds = _scalar(node, "min", low), _scalar(node, "max", high)
        bounded = bounds[0] is not None and bounds[1] is not None and floats(x)
        function = _between(*map(float, bounds)) if bounded else None
        return apply(Clip(*bounds), x) if function is None else function(x)

    return run


@lru_cache(maxsize=256)
def _between(low: float, high: float) -> Callable[..., Any] | None:
    """The record that clips, for bounds that it takes."""
    return direct(Hardtanh(low, high)) if -math.inf < low <= high < math.inf and (low != 0 or high != 0) else None


def _scalar(node: Node, name: str, value: Any) -> Any:
    if value is None:
        return None
    array = strip(value)
    if array.size != 1:
        raise node.refusal(f"{name} shape={array.shape}", "must be a scalar", "O9")
    return array.reshape(-1)[0]


def _bound(node: Node, name: str, value: float, x: Any) -> Any:
    """An attribute as a scalar of the input's type, which must hold it exactly (beyond its range it bounds nothing)."""
    if x.dtype == object:
        from halfulp.numbers import exact

        return exact(np.array([value]))[0]
    with np.errstate(over="ignore"):
        scalar = np.array(value).astype(x.dtype)[()]
    if float(scalar) != value and np.isfinite(scalar):
        raise node.refusal(f"{name}={value}", f"is not exact in {x.dtype}")
    return scalar
