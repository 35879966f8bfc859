"""Differentiable derivatives of the convolution and pooling operators, for transforms of transforms.

An operator's own pullback works on arrays. Where its inputs are themselves traced (a gradient inside a JVP, say) the
pullback has to be an operator with derivatives of its own. Three families cover all records:

- max and average pooling are linear around a point, so the pullback is a fixed linear map and its transpose the JVP;
- smooth max has weights p = softmax(beta * x). With J its Jacobian, the derivative of J^T g along t is
  beta * (t * J^T g - J^T (g * J t)), and that of J t along u is beta * (J (t * u) - J t * J u);
- convolutions are bilinear, so the three maps (x, w) -> y, (g, w) -> dx and (x, g) -> dw are each other's derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from halfulp.autograd.native import native_vjp
from halfulp.autograd.operators._base import LinearMap, PullbackRule, TapeOperator
from halfulp.autograd.operators.arithmetic import add, mul, sub
from halfulp.autograd.operators.reduction import sum_
from halfulp.autograd.operators.shape import broadcast_to, reshape
from halfulp.autograd.scalars import Array, constant_like, full
from halfulp.autograd.traced import apply, strip
from halfulp.numbers import factors
from halfulp.records import ConvolutionOperator, Operator, SmoothMaxPool

Rule: TypeAlias = tuple[Any, PullbackRule]


def traced_vjp(op: Operator, primals: Sequence[Any], needs: Sequence[bool]) -> Rule:
    """The value and a pullback made of operators, for a record whose inputs are traced."""
    output = apply(op, *primals)
    if isinstance(op, ConvolutionOperator):
        return output, _convolution_pullback(op, primals, needs)
    (x,) = primals
    if isinstance(op, SmoothMaxPool):
        pull = SmoothPull(op)
        return output, lambda g: (apply(pull, x, g),)
    pull_map = _local_map(op, strip(x)).transposed()
    return output, lambda g: (apply(pull_map, g),)


def traced_jvp(op: Operator, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The value and a tangent made of operators, for a record whose inputs or tangents are traced."""
    output = apply(op, *primals)
    if isinstance(op, ConvolutionOperator):
        return output, _convolution_tangent(op, primals, tangents, output)
    (x,), (t,) = primals, tangents
    if isinstance(op, SmoothMaxPool):
        return output, apply(SmoothPush(op), x, t)
    return output, apply(_local_map(op, strip(x)), t)


def _local_map(op: Operator, x: Array) -> _LocalMap:
    return _LocalMap(op, x)


class _LocalMap(LinearMap):
    """The derivative of a piecewise linear operator at a point."""

    def __init__(self, op: Operator, x: Array) -> None:
        _, pullback = op.vjp(x)
        super().__init__(lambda t: op.jvp((x,), (t,))[1], lambda g: pullback(g)[0], op.name)

    def transposed(self) -> LinearMap:
        """The pullback as a linear map."""
        return LinearMap(self._pull, self._push, self.name)


class SmoothPush(TapeOperator):
    """(x, t) -> J(x) t of a smooth max."""

    name = "smooth_max_push"

    def __init__(self, op: SmoothMaxPool) -> None:
        self._op = op

    def forward(self, *inputs: Array) -> Any:
        x, t = inputs
        return self._op.jvp((x,), (t,))[1]

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        (x, t), (u, dt) = primals, tangents
        total = None if dt is None else apply(self, x, dt)
        if u is not None:
            bend = sub(apply(self, x, mul(t, u)), mul(output, apply(self, x, u)))
            total = _plus(total, _times(bend, self._op.beta))
        return total

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        (x, t), pull = primals, SmoothPull(self._op)
        return lambda h: (pull.bend(x, h, t) if needs[0] else None, apply(pull, x, h) if needs[1] else None)


class SmoothPull(TapeOperator):
    """(x, g) -> J(x)^T g of a smooth max."""

    name = "smooth_max_pull"

    def __init__(self, op: SmoothMaxPool) -> None:
        self._op = op

    def forward(self, *inputs: Array) -> Any:
        x, g = inputs
        return self._op.vjp(x)[1](g)[0]

    def bend(self, x: Any, g: Any, t: Any) -> Any:
        """The change of J(x)^T g as x moves along t; the Hessian is symmetric, so this is its transpose too."""
        moved = apply(SmoothPush(self._op), x, t)
        difference = sub(mul(t, apply(self, x, g)), apply(self, x, mul(g, moved)))
        return _times(difference, self._op.beta)

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        (x, g), (t, dg) = primals, tangents
        total = None if dg is None else apply(self, x, dg)
        return total if t is None else _plus(total, self.bend(x, g, t))

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        (x, g), push = primals, SmoothPush(self._op)
        return lambda h: (self.bend(x, g, h) if needs[0] else None, apply(push, x, h) if needs[1] else None)


def _times(value: Any, number: Any) -> Any:
    """A value times a number that may lie beyond the range of its dtype."""
    if value.dtype == object:
        return mul(value, constant_like(value, number))
    for factor in factors(number, value.dtype):
        value = mul(value, constant_like(value, factor))
    return value


def _plus(total: Any, term: Any) -> Any:
    return term if total is None else add(total, term)


class _Bilinear(TapeOperator):
    """An operator linear in each of two inputs."""

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        (a, b), (da, db) = primals, tangents
        total = None if da is None else apply(self, da, b)
        return total if db is None else _plus(total, apply(self, a, db))


class InputCotangent(_Bilinear):
    """(g, weight) -> the cotangent of a convolution's input."""

    name = "conv_input_cotangent"

    def __init__(self, op: ConvolutionOperator, shape: tuple[int, ...]) -> None:
        self._op, self._shape = op, shape

    def forward(self, *inputs: Array) -> Any:
        g, weight = inputs
        return native_vjp(self._op, (full(self._shape, g, 0), weight, None), (True, False, False))[1](g)[0]

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        g, weight = primals
        to_weight = WeightCotangent(self._op, weight.shape)
        return lambda h: (
            apply(self._op, h, weight, None) if needs[0] else None,
            apply(to_weight, h, g) if needs[1] else None,
        )


class WeightCotangent(_Bilinear):
    """(x, g) -> the cotangent of a convolution's weight."""

    name = "conv_weight_cotangent"

    def __init__(self, op: ConvolutionOperator, shape: tuple[int, ...]) -> None:
        self._op, self._shape = op, shape

    def forward(self, *inputs: Array) -> Any:
        x, g = inputs
        return native_vjp(self._op, (x, full(self._shape, x, 0), None), (False, True, False))[1](g)[1]

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        x, g = primals
        to_input = InputCotangent(self._op, x.shape)
        return lambda h: (
            apply(to_input, g, h) if needs[0] else None,
            apply(self._op, x, h, None) if needs[1] else None,
        )


def _convolution_pullback(op: ConvolutionOperator, primals: Sequence[Any], needs: Sequence[bool]) -> PullbackRule:
    x, weight = primals[:2]
    to_input, to_weight = InputCotangent(op, x.shape), WeightCotangent(op, weight.shape)
    has_bias = len(primals) > 2 and primals[2] is not None

    def rule(g: Any) -> tuple[Any, ...]:
        return (
            apply(to_input, g, weight) if needs[0] else None,
            apply(to_weight, x, g) if needs[1] else None,
            sum_(g, _all_but_channels(op, g.shape)) if has_bias and needs[2] else None,
        )[: len(primals)]

    return rule


def _all_but_channels(op: ConvolutionOperator, shape: Sequence[int]) -> tuple[int, ...]:
    channel = len(shape) - op.ndim - 1
    return tuple(i for i in range(len(shape)) if i != channel)


def _convolution_tangent(op: ConvolutionOperator, primals: Sequence[Any], tangents: Sequence[Any], output: Any) -> Any:
    (x, weight), (dx, dweight) = primals[:2], tangents[:2]
    total = None if dx is None else apply(op, dx, weight, None)
    if dweight is not None:
        total = _plus(total, apply(op, x, dweight, None))
    if len(tangents) > 2 and tangents[2] is not None:
        column = reshape(tangents[2], (-1, *(1,) * op.ndim))
        total = _plus(total, broadcast_to(column, output.shape))
    return total
