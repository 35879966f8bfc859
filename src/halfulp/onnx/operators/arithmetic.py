"""Sub, Div, Max, Min, Sum, Mean, Neg, Abs, Floor, … : one operation for each element, rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfulp.autograd import TapeOperator, apply, ops
from halfulp.autograd.operators._base import LinearMap, PullbackRule
from halfulp.autograd.scalars import full
from halfulp.autograd.traced import is_traced, strip
from halfulp.numbers import exact, float_format, is_float, on_grid
from halfulp.onnx._nearest import odd_sum
from halfulp.onnx._node import Node
from halfulp.onnx.operators._plain import direct, floats, together
from halfulp.onnx.operators.elementwise import Clip, binary
from halfulp.onnx.operators.movement import where
from halfulp.records import GlobalAvgPool, LeakyRelu, SumPool


def sub(node: Node) -> Callable[..., Any]:
    """Sub, with the broadcasting of Add."""
    return binary(node, lambda x, y: np.subtract(x, y) if x.dtype.kind in "iu" else ops.sub(x, y), np.subtract)


def div(node: Node) -> Callable[..., Any]:
    """Div; of integers the quotient is cut off, and a divisor 0 is refused."""

    def divide(x: Any, y: Any) -> Any:
        if strip(x).dtype.kind not in "iu":
            return ops.div(x, y)
        if (y == 0).any():
            raise node.refusal("divisor 0", "integers are divided by numbers other than 0", "O9")
        with np.errstate(over="ignore"):
            quotient = np.floor_divide(x, y)
            inexact = (quotient * y != x) & ((x < 0) != (y < 0))
            return quotient + inexact.astype(quotient.dtype)

    return binary(node, divide, np.divide)


def mod(node: Node) -> Callable[..., Any]:
    """Mod: the remainder with the sign of the divisor, or with fmod=1 of the dividend."""
    cut = node.flag("fmod")

    def run(x: Any, y: Any) -> Any:
        node.same_types(x, y)
        a, b = strip(x), strip(y)
        if a.dtype.kind in "iu" and (b == 0).any():
            raise node.refusal("divisor 0", "integers are divided by numbers other than 0", "O9")
        function = np.fmod if cut else np.mod
        with np.errstate(all="ignore"):
            if is_float(a.dtype) and a.dtype.itemsize == 2:  # float32 has digits enough for one rounding
                return function(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
            return np.asarray(function(a, b))

    return run


def extreme(largest: bool) -> Callable[[Node], Callable[..., Any]]:
    """The builder of Max or Min of any number of inputs; NaN wins, and of equal elements the first counts."""

    def builder(node: Node) -> Callable[..., Any]:
        def two(x: Any, y: Any) -> Any:
            a, b = strip(x), strip(y)
            node.fits(together(a.shape, b.shape), a)
            first = (a >= b) if largest else (a <= b)
            chosen = np.asarray(first, dtype=np.bool_) | np.asarray(a != a, dtype=np.bool_)
            return where(chosen, x, y)

        def run(*inputs: Any) -> Any:
            node.same_types(*inputs)
            return reduce(two, inputs) if len(inputs) > 1 else _copy(inputs[0])

        return run

    return builder


def _copy(x: Any) -> Any:
    return x.copy() if isinstance(x, np.ndarray) else x


def sum_(node: Node) -> Callable[..., Any]:
    """Sum of any number of inputs, rounded once."""
    return _together(node, lambda n: SumPool((n,)))


def mean(node: Node) -> Callable[..., Any]:
    """Mean of any number of inputs, rounded once."""
    return _together(node, lambda n: GlobalAvgPool(1))


def _together(node: Node, record: Callable[[int], Any]) -> Callable[..., Any]:
    """A pooling over the inputs as one new axis."""

    def run(*inputs: Any) -> Any:
        node.same_types(*inputs)
        if len(inputs) == 1:
            return _copy(inputs[0])
        shape = np.broadcast_shapes(*(tuple(x.shape) for x in inputs))
        node.fits((*shape, len(inputs)), inputs[0])
        columns = [ops.reshape(ops.broadcast_to(x, shape), (*shape, 1)) for x in inputs]
        return ops.reshape(apply(record(len(inputs)), ops.concatenate(columns, -1)), shape)

    return run


class Slope(TapeOperator):
    """A function of one element whose derivative is constant on both sides of a point."""

    def __init__(
        self, name: str, function: Callable[[NDArray[Any]], Any], slope: Callable[[NDArray[Any]], Any] | None
    ) -> None:
        self.name = name  # type: ignore[misc]  # the operator that it stands for
        self._function = function
        self._slope = slope

    def forward(self, *inputs: NDArray[Any]) -> Any:
        return np.asarray(self._function(inputs[0]))

    def _map(self, x: Any) -> LinearMap:
        value = strip(x)
        if self._slope is None:
            return LinearMap(lambda t: t * 0 if t.dtype == object else np.zeros_like(t), lambda g: g * 0, self.name)
        factor = np.asarray(self._slope(value)).astype(value.dtype)
        return LinearMap(lambda t: t * factor, lambda g: g * factor, self.name)

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        return apply(self._map(primals[0]), tangents[0])

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        transpose = self._map(primals[0])
        return lambda g: (apply(transpose, g),)


def unary(function: Callable[[Any], Any], slope: Any = None) -> Callable[[Node], Callable[..., Any]]:
    """The builder of a function of one element that is exact or one IEEE operation, with its slope if it has one."""

    def builder(node: Node) -> Callable[..., Any]:
        if node.opset < 6:
            node.integers("consumed_inputs")
        operator = Slope(node.operator.lower(), function, slope)

        def run(x: Any) -> Any:
            node.fits(tuple(x.shape), x, 16)
            if strip(x).dtype.kind in "iub" and not is_traced(x):
                with np.errstate(all="ignore"):
                    return np.asarray(function(x)).astype(x.dtype)
            return apply(operator, x)

        return run

    return builder


def sign(x: NDArray[Any]) -> Any:
    """-1, 0 or 1; NaN stays NaN."""
    if x.dtype == object:
        return np.array([(v > 0) - (v < 0) + v * 0 for v in x.flat], dtype=object).reshape(x.shape)
    return np.sign(x)


def floor(x: NDArray[Any]) -> Any:
    """The largest integer that is not above x."""
    return x if x.dtype.kind in "iu" else np.floor(x)


def ceil(x: NDArray[Any]) -> Any:
    """The smallest integer that is not below x."""
    return x if x.dtype.kind in "iu" else np.ceil(x)


def rint(x: NDArray[Any]) -> Any:
    """The nearest integer, ties to even."""
    return x if x.dtype.kind in "iu" else np.rint(x)


def reciprocal(node: Node) -> Callable[..., Any]:
    """Reciprocal: 1 / x."""

    return lambda x: ops.div(full((), strip(x), 1), x)


def leaky_relu(node: Node) -> Callable[..., Any]:
    """LeakyRelu: x, or alpha * x where x < 0, rounded once."""
    return leaky(node.number("alpha", 0.01))


def leaky(alpha: float) -> Callable[..., Any]:
    """LeakyRelu with this alpha."""

    def function(x: NDArray[Any]) -> Any:
        return np.where(x < 0, scaled(x, alpha), x)

    def slope(x: NDArray[Any]) -> Any:
        return np.where(x < 0, alpha, 1.0)

    operator = Slope("leaky_relu", function, slope)
    record = direct(LeakyRelu(alpha)) if 0 < alpha < math.inf else None
    return lambda x: apply(operator, x) if record is None or not floats(x) else record(x)


def scaled(x: NDArray[Any], factor: float) -> NDArray[Any]:
    """factor * x rounded once, also where the type of x does not hold the factor."""
    if x.dtype == object:
        return np.asarray(x * exact(np.array([factor]))[0])
    with np.errstate(all="ignore"):
        if x.dtype.itemsize == 2:  # the product of two short significands is exact in float64
            return on_grid(x.astype(np.float64) * factor, float_format(x.dtype)).astype(x.dtype)
        return np.asarray(x * x.dtype.type(factor))


def prelu(node: Node) -> Callable[..., Any]:
    """PRelu: x, or slope * x where x < 0."""

    def run(x: Any, slope: Any) -> Any:
        node.same_types(x, slope)
        if node.opset < 7 and len(slope.shape) == 1 and len(x.shape) > 1:  # one slope per channel
            slope = ops.reshape(slope, (slope.shape[0], *(1,) * (len(x.shape) - 2)))
        if np.broadcast_shapes(tuple(x.shape), tuple(slope.shape)) != tuple(x.shape):
            raise node.refusal(f"slope shape={tuple(slope.shape)}", f"must broadcast to {tuple(x.shape)}", "O9")
        return where(np.asarray(strip(x) < 0, dtype=np.bool_), ops.mul(x, slope), x)

    return run


def hard_sigmoid(node: Node) -> Callable[..., Any]:
    """HardSigmoid: alpha * x + beta, rounded once, held between 0 and 1."""
    return hard_line(node.number("alpha", 0.2), node.number("beta", 0.5))


def hard_line(alpha: float, beta: float) -> Callable[..., Any]:
    """HardSigmoid with these numbers."""

    def line(x: NDArray[Any]) -> NDArray[np.float64]:
        return odd_sum(x.astype(np.float64) * alpha, np.full(x.shape, beta))

    def run(x: Any) -> Any:
        kind = strip(x).dtype
        if kind == np.float32 and type(x) is np.ndarray:  # a product of 48 bits, and a sum with an odd last bit
            return np.clip(line(x), 0, 1).astype(np.float32)
        if kind.itemsize == 2:  # the attributes are float32 numbers, which a half type does not hold
            short = Slope(
                "hard_sigmoid",
                lambda v: on_grid(np.clip(line(v), 0, 1), float_format(kind)).astype(kind),
                lambda v: np.where((line(v) > 0) & (line(v) < 1), alpha, 0.0),
            )
            return apply(short, x)
        numbers = np.array([alpha, beta, 0.0, 1.0])
        slope, offset, least, most = exact(numbers) if kind.kind == "O" else numbers.astype(kind)
        one = ops.linear(ops.reshape(x, (*x.shape, 1)), np.array([[slope]]), np.array([offset]))
        return apply(Clip(least, most), ops.reshape(one, tuple(x.shape)))

    return run
