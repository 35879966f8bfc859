"""Derivatives of the primitives in terms of the primitives, to any order.

How the tangent and the cotangent change with the point is what the declarations say (halfulp.records._curvature).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad

from halfulp.jax._primitives import (
    bind,
    complete,
    cotangent_p,
    cotangents,
    forward,
    forward_p,
    indices_p,
    is_linear,
    spread_p,
    tangent,
    tangent_p,
)
from halfulp.numbers import factors
from halfulp.records import Operator, declaration_of
from halfulp.records._missing import refuse_change


def _is_zero(value: Any) -> bool:
    return type(value) is ad.Zero


def _zero(like: Any) -> Any:
    """The symbolic zero tangent of a value."""
    return ad.Zero(jax.typeof(like).to_tangent_aval())


def _present(values: Sequence[Any]) -> list[Any]:
    return [None if _is_zero(value) else value for value in values]


def _total(terms: Sequence[Any], like: Any) -> Any:
    """The sum of the terms, or a symbolic zero if there are none."""
    if not terms:
        return _zero(like)
    return reduce(jnp.add, terms)


def _forward_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, op: Operator) -> tuple[Any, Any]:
    output = forward(op, *primals)
    if all(_is_zero(t) for t in tangents):
        return output, _zero(output)
    refuse_change(op, primals[0].dtype)
    return output, tangent(op, primals, _present(tangents))


def _forward_transpose(g: Any, *inputs: Any, op: Operator) -> list[Any]:
    """A linear operator's transpose; a convolution's in the one factor that is not known."""
    unknown = [ad.is_undefined_primal(value) for value in inputs]
    shapes = [value.aval if flag else value for value, flag in zip(inputs, unknown, strict=True)]
    if _is_zero(g):
        return [ad.Zero(value.aval) if flag else None for value, flag in zip(inputs, unknown, strict=True)]
    if is_linear(op):
        return cotangents(op, shapes, g, (True,))
    known = [jnp.zeros(s.shape, s.dtype) if flag else s for s, flag in zip(shapes, unknown, strict=True)]
    return cotangents(op, known, g, unknown)[: len(inputs)]


def _split(op: Operator, arguments: Sequence[Any], which: Sequence[bool]) -> tuple[list[Any], list[Any]]:
    """(primals, one tangent or None for each input) of a tangent's arguments."""
    count = len(arguments) - sum(which)
    given = iter(arguments[count:])
    return list(arguments[:count]), [next(given) if flag else None for flag in which]


def _tangent_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, op: Operator, which: tuple[bool, ...]
) -> tuple[Any, Any]:
    points, directions = _split(op, primals, which)
    moved, turned = _split(op, tangents, which)
    output = tangent(op, points, directions)
    turned = [None if t is None or _is_zero(t) else t for t in turned]
    terms = [tangent(op, points, turned)] if any(t is not None for t in turned) else []
    change = declaration_of(op).curvature.tangent
    terms += change(JaxCalculus(op), _padded(op, points), directions, _padded(op, _present(moved)))
    return output, _total(terms, output)


def _padded(op: Operator, values: Sequence[Any]) -> list[Any]:
    """One value for each input; None for those that are absent."""
    return [*values, *(None,) * (op.arity - len(values))]


class JaxCalculus:
    """An operator's value, push and pull as primitives."""

    def __init__(self, op: Operator) -> None:
        self.op = op

    def value(self, points: Sequence[Any]) -> Any:
        return forward(self.op, *complete(self.op, points))

    def push(self, points: Sequence[Any], directions: Sequence[Any]) -> Any:
        return tangent(self.op, complete(self.op, points), directions)

    def pull(self, points: Sequence[Any], g: Any, which: int) -> Any:
        wanted = tuple(i == which for i in range(self.op.arity))
        return cotangents(self.op, complete(self.op, points), g, wanted)[which]

    def nonzero(self, x: Any) -> Any:
        return jnp.where(x == 0, jnp.ones_like(x), x)

    def ones(self, x: Any) -> Any:
        return jnp.ones_like(x)

    def exponential(self, x: Any) -> Any:
        return jnp.exp(x)

    def inverse_root(self, x: Any) -> Any:
        return jax.lax.rsqrt(x)

    def apply(self, op: Operator, x: Any) -> Any:
        return forward(op, x)

    def constant(self, x: Any) -> Any:
        return x

    def scaled(self, x: Any, factor: Any) -> Any:
        for part in factors(factor, x.dtype):
            x = x * jnp.asarray(part, x.dtype)
        return x


def _tangent_transpose(g: Any, *arguments: Any, op: Operator, which: tuple[bool, ...]) -> list[Any]:
    points, directions = _split(op, arguments, which)
    if declaration_of(op).curvature.quadratic and any(ad.is_undefined_primal(p) for p in points):
        return _at_points(op, points, directions, g) + [None] * sum(which)
    wanted = [d is not None and ad.is_undefined_primal(d) for d in directions]
    nothing: list[Any] = [None] * len(points)
    if _is_zero(g):
        given = [d for d in directions if d is not None]
        return nothing + [ad.Zero(d.aval) if ad.is_undefined_primal(d) else None for d in given]
    found = cotangents(op, points, g, wanted)
    return nothing + [found[i] for i, d in enumerate(directions) if d is not None]


def _at_points(op: Operator, points: Sequence[Any], directions: Sequence[Any], g: Any) -> list[Any]:
    """The transpose, in the points that are not known, of a push along directions, which is linear in both."""
    unknown = [ad.is_undefined_primal(p) for p in points]
    if g is ad.Zero or _is_zero(g):
        return [ad.Zero(p.aval) if flag else None for p, flag in zip(points, unknown, strict=True)]
    avals = [p.aval if flag else p for p, flag in zip(points, unknown, strict=True)]
    given = [jnp.zeros(a.shape, a.dtype) if d is None else d for a, d in zip(avals, directions, strict=True)]
    return cotangents(op, given, g, unknown)[: len(points)]


def _cotangent_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, op: Any, which: tuple[bool, ...]
) -> tuple[list[Any], list[Any]]:
    *points, g = primals
    *moved, dg = _present(tangents)
    outputs = cotangents(op, points, g, which)
    terms: list[list[Any]] = [[] for _ in outputs]
    if dg is not None:
        for place, value in zip(terms, cotangents(op, points, dg, which), strict=True):
            place.append(value)
    kept = [i for i, flag in enumerate(which) if flag]
    bent = declaration_of(op).curvature.cotangent
    for i in kept:
        terms[i] += bent(JaxCalculus(op), _padded(op, points), g, _padded(op, moved), i)
    return [outputs[i] for i in kept], [_total(terms[i], outputs[i]) for i in kept]


def _cotangent_transpose(given: Sequence[Any], *arguments: Any, op: Any, which: tuple[bool, ...]) -> list[Any]:
    """In g the transpose is the tangent; a convolution's is linear in its other factor as well."""
    *points, g = arguments
    values = iter(_present(given))
    pulled = [next(values) if flag else None for flag in which]
    if ad.is_undefined_primal(g):
        if all(value is None for value in pulled):
            return [None] * len(points) + [ad.Zero(g.aval)]
        return [None] * len(points) + [tangent(op, points, pulled)]
    if declaration_of(op).curvature.quadratic:
        return [*_at_points(op, points, pulled, ad.Zero if all(p is None for p in pulled) else g), None]
    results: list[Any] = [None] * (len(points) + 1)
    for place, other in ((0, 1), (1, 0)):
        if not ad.is_undefined_primal(points[place]):
            continue
        if pulled[other] is None:
            results[place] = ad.Zero(points[place].aval)
            continue
        aval = points[place].aval
        known: list[Any] = [None, None]
        known[place], known[other] = jnp.zeros(aval.shape, aval.dtype), pulled[other]
        results[place] = cotangents(op, known, g, (place == 0, place == 1, False))[place]
    return results


def _spread_transpose(g: Any, value: Any, *, op: Operator, shape: tuple[int, ...]) -> list[Any]:
    return [ad.Zero(value.aval) if _is_zero(g) else forward(op, g)]


def _spread_jvp(primals: Any, tangents: Any, *, op: Operator, shape: tuple[int, ...]) -> tuple[Any, Any]:
    output = bind(spread_p, primals[0], op=op, shape=shape)
    if _is_zero(tangents[0]):
        return output, _zero(output)
    return output, bind(spread_p, tangents[0], op=op, shape=shape)


def _indices_jvp(primals: Any, tangents: Any, *, op: Operator) -> tuple[Any, Any]:
    found = bind(indices_p, *primals, op=op)
    return found, _zero(found)


ad.primitive_jvps[forward_p] = _forward_jvp
ad.primitive_transposes[forward_p] = _forward_transpose
ad.primitive_jvps[tangent_p] = _tangent_jvp
ad.primitive_transposes[tangent_p] = _tangent_transpose
ad.primitive_jvps[cotangent_p] = _cotangent_jvp
ad.primitive_transposes[cotangent_p] = _cotangent_transpose
ad.primitive_jvps[spread_p] = _spread_jvp
ad.primitive_transposes[spread_p] = _spread_transpose
ad.primitive_jvps[indices_p] = _indices_jvp
