"""Differentiable derivatives of the declared operators, for transforms of transforms.

An operator's own pullback works on arrays. Where its inputs are themselves traced (a gradient inside a JVP, say) the
pullback has to be an operator with derivatives of its own. :class:`Push` and :class:`Pull` are those operators, for any
record; how they change with the point is what the record's declaration says (:mod:`halfulp.records._curvature`).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from halfulp.autograd.native import native_vjp
from halfulp.autograd.operators._base import LinearMap, PullbackRule, TapeOperator
from halfulp.autograd.operators.arithmetic import add, mul
from halfulp.autograd.scalars import Array, constant_like, full
from halfulp.autograd.traced import apply, strip
from halfulp.functional import exp, log
from halfulp.numbers import factors
from halfulp.records import Curvature, Operator, declaration_of

Rule: TypeAlias = tuple[Any, PullbackRule]


def traced_vjp(op: Operator, primals: Sequence[Any], needs: Sequence[bool]) -> Rule:
    """The value and a pullback made of operators, for a record whose inputs are traced."""
    curvature = declaration_of(op).curvature
    output = apply(op, *primals)
    wanted = [i for i, need in enumerate(needs) if need and primals[i] is not None]
    if curvature.flat:
        maps = {i: _local_map(op, primals, i).transposed() for i in wanted}
        return output, lambda g: tuple(apply(maps[i], g) if i in maps else None for i in range(len(primals)))
    calculus = TapeCalculus(op)
    return output, lambda g: tuple(calculus.pull(primals, g, i) if i in wanted else None for i in range(len(primals)))


def traced_jvp(op: Operator, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The value and a tangent made of operators, for a record whose inputs or tangents are traced."""
    curvature = declaration_of(op).curvature
    output = apply(op, *primals)
    if curvature.flat:
        terms = [apply(_local_map(op, primals, i), t) for i, t in enumerate(tangents) if t is not None]
        return output, _total(terms)
    return output, TapeCalculus(op).push(primals, tangents)


class _LocalMap(LinearMap):
    """The derivative of a piecewise linear operator in one of its inputs, at a point."""

    def transposed(self) -> LinearMap:
        """The pullback as a linear map."""
        return LinearMap(self._pull, self._push, self.name)


def _local_map(op: Operator, primals: Sequence[Any], which: int) -> _LocalMap:
    points = tuple(strip(x) for x in primals)
    _, pullback = native_vjp(op, points, [i == which for i in range(len(points))])
    return _LocalMap(lambda t: op.jvp(points, _only(which, t, len(points)))[1], lambda g: pullback(g)[which], op.name)


def _only(which: int, value: Any, count: int) -> tuple[Any, ...]:
    return tuple(value if i == which else None for i in range(count))


def _total(terms: Sequence[Any]) -> Any:
    return reduce(add, terms) if terms else None


class TapeCalculus:
    """An operator's value, push and pull as operators of the tape."""

    def __init__(self, op: Operator) -> None:
        self.op = op

    def value(self, points: Sequence[Any]) -> Any:
        return apply(self.op, *points)

    def push(self, points: Sequence[Any], directions: Sequence[Any]) -> Any:
        return apply(Push(self.op), *points, *directions)

    def pull(self, points: Sequence[Any], g: Any, which: int) -> Any:
        return apply(Pull(self.op, which), *points, g)

    def nonzero(self, x: Any) -> Any:
        plain = strip(x)
        ones = full(plain.shape, plain, 1)
        return add(x, np.where(plain == 0 * ones, ones, 0 * ones))

    def ones(self, x: Any) -> Any:
        plain = strip(x)
        return full(plain.shape, plain, 1)

    def exponential(self, x: Any) -> Any:
        return exp(x)

    def inverse_root(self, x: Any) -> Any:
        return exp(self.scaled(log(x), Fraction(-1, 2)))

    def apply(self, op: Operator, x: Any) -> Any:
        return apply(op, x)

    def constant(self, x: Any) -> Any:
        return strip(x)

    def scaled(self, x: Any, factor: Any) -> Any:
        for part in (factor,) if x.dtype == object else factors(factor, x.dtype):
            x = mul(x, constant_like(x, part))
        return x


class _Derivative(TapeOperator):
    """Of a record; the inputs are the record's own and more, and the record checks them itself."""

    def __init__(self, op: Operator) -> None:
        self._op = op
        self._calculus = TapeCalculus(op)
        self._curvature: Curvature = declaration_of(op).curvature
        self.name = f"{op.name}_{self.name}"  # type: ignore[misc]  # named after the operator

    def _check_kinds(self, inputs: Sequence[Any]) -> None:
        return

    def _bent(self, points: Sequence[Any], g: Any, moved: Sequence[Any], which: int) -> Any:
        """The change of the pull to one input; None if there is none."""
        with np.errstate(all="ignore"):
            return _total(self._curvature.cotangent(self._calculus, points, g, moved, which))


class Push(_Derivative):
    """(points, directions) -> the derivative at the points along the directions."""

    name = "push"

    def forward(self, *inputs: Array) -> Any:
        points, directions = _halves(inputs)
        return self._op.jvp(points, directions)[1]

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        (points, directions), (moved, turned) = _halves(primals), _halves(tangents)
        terms = [] if all(t is None for t in turned) else [self._calculus.push(points, turned)]
        with np.errstate(all="ignore"):
            terms += self._curvature.tangent(self._calculus, points, directions, moved)
        return _total(terms)

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        (points, directions), (moving, turning) = _halves(primals), _halves(needs)

        def rule(h: Any) -> tuple[Any, ...]:
            bent = (self._bent(points, h, directions, i) if need else None for i, need in enumerate(moving))
            return *bent, *(self._calculus.pull(points, h, i) if need else None for i, need in enumerate(turning))

        return rule


class Pull(_Derivative):
    """(points, g) -> what the output's cotangent g hands back to one of the inputs."""

    name = "pull"

    def __init__(self, op: Operator, which: int) -> None:
        super().__init__(op)
        self._which = which

    def forward(self, *inputs: Array) -> Any:
        *points, g = inputs
        needs = [i == self._which for i in range(len(points))]
        return native_vjp(self._op, points, needs)[1](g)[self._which]

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        (*points, g), (*moved, dg) = primals, tangents
        pulled = [] if dg is None else [self._calculus.pull(points, dg, self._which)]
        bent = self._bent(points, g, moved, self._which)
        return _total(pulled if bent is None else [*pulled, bent])

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        *points, g = primals

        def rule(h: Any) -> tuple[Any, ...]:
            along = _only(self._which, h, len(points))
            bent = (self._bent(points, g, along, i) if need else None for i, need in enumerate(needs[:-1]))
            return *bent, self._calculus.push(points, along) if needs[-1] else None

        return rule


def _halves(values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    middle = len(values) // 2
    return tuple(values[:middle]), tuple(values[middle:])
