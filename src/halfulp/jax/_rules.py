"""Derivatives of the primitives in terms of the primitives, to any order.

A hard max has no second derivative (its winners are locally constant). A convolution is bilinear: its second
derivatives are convolutions with one factor replaced by that factor's tangent. For a smooth max with weights p the
derivative of T(t) = sum(p * t) in the direction v is beta * (T(t * v) - T(t) * T(v)); its transpose follows from that.
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
from halfulp.records import Operator, SmoothMaxPool


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
    kept = min(op.arity, 2)
    given = iter(arguments[kept:])
    return list(arguments[:kept]), [next(given) if flag else None for flag in which]


def _tangent_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, op: Operator, which: tuple[bool, ...]
) -> tuple[Any, Any]:
    points, directions = _split(op, primals, which)
    moved, turned = _split(op, tangents, which)
    output = tangent(op, points, directions)
    turned = [None if t is None or _is_zero(t) else t for t in turned]
    terms = [tangent(op, points, turned)] if any(t is not None for t in turned) else []
    terms += _second_tangent(op, points, directions, _present(moved))
    return output, _total(terms, output)


def _times(value: Any, number: Any) -> Any:
    """A value times a number that may lie beyond the range of its dtype."""
    for factor in factors(number, value.dtype):
        value = value * jnp.asarray(factor, value.dtype)
    return value


def _second_tangent(op: Any, points: list[Any], directions: list[Any], moved: list[Any]) -> list[Any]:
    """The change of ``tangent(op, points, directions)`` as the points move."""
    if isinstance(op, SmoothMaxPool):
        (x,), (t,), (v,) = points, directions, moved
        if v is None:
            return []
        spread = tangent(op, (x,), (t * v,)) - tangent(op, (x,), (t,)) * tangent(op, (x,), (v,))
        return [_times(spread, op.beta)]
    if op.arity == 1:
        return []
    (x, weight), (dx, dweight, _), (vx, vweight) = points, directions, moved
    terms = []
    if dx is not None and vweight is not None:
        terms.append(tangent(op, (dx, weight), (None, vweight)))
    if dweight is not None and vx is not None:
        terms.append(tangent(op, (x, dweight), (vx, None)))
    return terms


def _tangent_transpose(g: Any, *arguments: Any, op: Operator, which: tuple[bool, ...]) -> list[Any]:
    points, directions = _split(op, arguments, which)
    wanted = [d is not None and ad.is_undefined_primal(d) for d in directions]
    nothing: list[Any] = [None] * len(points)
    if _is_zero(g):
        given = [d for d in directions if d is not None]
        return nothing + [ad.Zero(d.aval) if ad.is_undefined_primal(d) else None for d in given]
    found = cotangents(op, points, g, wanted)
    return nothing + [found[i] for i, d in enumerate(directions) if d is not None]


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
    for i, term in _second_cotangent(op, points, g, moved, which):
        terms[i].append(term)
    kept = [i for i, flag in enumerate(which) if flag]
    return [outputs[i] for i in kept], [_total(terms[i], outputs[i]) for i in kept]


def _second_cotangent(
    op: Any, points: list[Any], g: Any, moved: list[Any], which: tuple[bool, ...]
) -> list[tuple[int, Any]]:
    """The change of ``cotangents(op, points, g)`` as the points move: (input, change) pairs."""
    if isinstance(op, SmoothMaxPool):
        (x,), (v,) = points, moved
        if v is None:
            return []
        (own,) = cotangents(op, (x,), g, (True,))
        (shared,) = cotangents(op, (x,), g * tangent(op, (x,), (v,)), (True,))
        return [(0, _times(v * own - shared, op.beta))]
    if op.arity == 1:
        return []
    (x, weight), (vx, vweight) = points, moved
    changes = []
    if which[0] and vweight is not None:
        changes.append((0, cotangents(op, (x, vweight), g, (True, False, False))[0]))
    if which[1] and vx is not None:
        changes.append((1, cotangents(op, (vx, weight), g, (False, True, False))[1]))
    return changes


def _cotangent_transpose(given: Sequence[Any], *arguments: Any, op: Any, which: tuple[bool, ...]) -> list[Any]:
    """In g the transpose is the tangent; a convolution's is linear in its other factor as well."""
    *points, g = arguments
    values = iter(_present(given))
    pulled = [next(values) if flag else None for flag in which]
    if ad.is_undefined_primal(g):
        if all(value is None for value in pulled):
            return [None] * len(points) + [ad.Zero(g.aval)]
        return [None] * len(points) + [tangent(op, points, pulled)]
    results: list[Any] = [None, None, None]
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
    found = bind(indices_p, primals[0], op=op)
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
