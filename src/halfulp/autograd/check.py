"""Checking a tape's derivatives exactly: adjointness over rationals or balls, and floats against the exact answer."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from halfulp import spec
from halfulp.autograd import rules
from halfulp.autograd.node import Node
from halfulp.autograd.scalars import Array, as_array, is_differentiable, scalar_like
from halfulp.errors import DTypeError, TapeError
from halfulp.numbers import exact, flint, float_format, is_float
from halfulp.records import Operator

_BITS = 256
"""The working precision of balls: far beyond float64, so that overlapping balls mean equal numbers."""


def check(nodes: Sequence[Node], seed: int) -> None:
    """Check every node that was computed, oldest first; a TapeError names the first that disagrees."""
    before = flint.ctx.prec
    flint.ctx.prec = _BITS
    try:
        for node in nodes:
            if node.operator is not None:
                values = [nodes[parent].value for parent in node.parents]
                _check_node(node, values, np.random.default_rng([seed, node.id]))
    finally:
        flint.ctx.prec = before


def _check_node(node: Node, values: Sequence[Array], generator: np.random.Generator) -> None:
    moving = [is_differentiable(value.dtype) for value in values]
    if not any(moving):
        return
    tangents = [_drawn(generator, value.shape) if moves else None for value, moves in zip(values, moving, strict=True)]
    cotangent = _drawn(generator, node.shape)
    pushed, pulled = _exact_derivatives(node, values, tangents, cotangent)
    _check_adjoint(node, pushed, pulled, tangents, cotangent)
    if is_float(node.value.dtype):
        _check_floats(node, values, tangents, cotangent, pushed, pulled)


def _drawn(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Small integers, none of them 0, so that every cell counts."""
    return np.asarray(generator.integers(1, 9, shape) * generator.choice([-1, 1], shape))


def _exact_derivatives(
    node: Node, values: Sequence[Array], tangents: Sequence[Array | None], cotangent: Array
) -> tuple[Array, tuple[Any, ...]]:
    """(JVP, VJP) over rationals, or over balls if the operator has no rational values."""
    try:
        return _derivatives(node, [_lifted(node, value) for value in values], tangents, cotangent)
    except (DTypeError, TypeError, AttributeError):
        balls = [as_array(np.frompyfunc(_ball, 1, 1)(_lifted(node, value))) for value in values]
    try:
        return _derivatives(node, balls, tangents, cotangent)
    except (DTypeError, TypeError, AttributeError) as error:
        raise _disagreement(node, f"cannot be run on exact scalars, so it cannot be checked: {error}") from error


def _derivatives(
    node: Node, primals: Sequence[Array], tangents: Sequence[Array | None], cotangent: Array
) -> tuple[Array, tuple[Any, ...]]:
    directions = [None if t is None else _integers(t, x) for t, x in zip(tangents, primals, strict=True)]
    _, pushed = rules.jvp(node.operator, primals, directions)
    output, pullback = rules.vjp(node.operator, primals, [t is not None for t in tangents])
    return as_array(pushed), pullback(_integers(cotangent, as_array(output)))


def _lifted(node: Node, value: Array) -> Array:
    """A node's input as exact scalars; exact scalars stay what they are."""
    if value.dtype == object:
        return value
    try:
        return exact(value)
    except DTypeError as error:
        raise TapeError("tape.check", f"input of node {node.id} ({node.name!r})", str(error), "X1") from error


def _ball(scalar: Any) -> Any:
    if isinstance(scalar, Fraction):
        return flint.arb(flint.fmpq(scalar.numerator, scalar.denominator))
    return flint.arb(scalar)


def _integers(numbers: Array, like: Array) -> Array:
    """Small integers as scalars of the kind of ``like``."""
    if like.size == 0:
        return np.empty(numbers.shape, dtype=object)
    unit = as_array(like.flat[0])
    return as_array(np.frompyfunc(lambda number: scalar_like(unit, int(number)), 1, 1)(numbers))


def _check_adjoint(
    node: Node, pushed: Array, pulled: Sequence[Any], tangents: Sequence[Array | None], cotangent: Array
) -> None:
    left = _inner(cotangent, pushed)
    right = sum(
        (_inner(t, x) for t, x in zip(tangents, pulled, strict=False) if t is not None and x is not None), start=0
    )
    if not _equal(left, right):
        raise _disagreement(node, f"<g, JVP t> = {left} but <VJP g, t> = {right} for the same g and t")


def _inner(numbers: Array, scalars: Array) -> Any:
    return sum((s * int(n) for n, s in zip(numbers.flat, as_array(scalars).flat, strict=True)), start=0)


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, flint.arb) or isinstance(right, flint.arb):
        return bool(flint.arb(left).overlaps(flint.arb(right)))
    if hasattr(left, "simplify") or hasattr(right, "simplify"):
        import sympy

        return bool(sympy.simplify(left - right) == 0)
    return bool(left == right)


def _check_floats(
    node: Node,
    values: Sequence[Array],
    tangents: Sequence[Array | None],
    cotangent: Array,
    pushed: Array,
    pulled: Sequence[Any],
) -> None:
    """The float JVP and the recorded pullback against the exact ones; a correctly rounded operator hits the bits."""
    op, dtype = node.operator, node.value.dtype
    directions = [None if t is None else t.astype(dtype) for t in tangents]
    g = cotangent.astype(dtype)
    to_the_bit = isinstance(op, Operator) and getattr(op, "precision", "correct") == "correct"
    expected = spec.jvp(op, tuple(values), tuple(directions))[1] if to_the_bit else _nearest(pushed)
    _compare(node, "JVP", rules.jvp(op, values, directions)[1], expected, to_the_bit)
    if node.pullback is None:
        return
    answers = spec.vjp(op, tuple(values), g) if to_the_bit else pulled
    for given, answer in zip(node.pullback(g), answers, strict=False):
        if given is not None and answer is not None:
            _compare(node, "VJP", given, answer if to_the_bit else _nearest(answer), to_the_bit)


def _nearest(scalars: Any) -> Array:
    """Exact scalars and balls as float64, near enough for a comparison to half the digits."""
    array = as_array(scalars)
    return np.array([_float(scalar) for scalar in array.flat], dtype=np.float64).reshape(array.shape)


def _float(scalar: Any) -> float:
    return int(scalar.p) / int(scalar.q) if isinstance(scalar, flint.fmpq) else float(scalar)


def _compare(node: Node, what: str, given: Any, expected: Array, to_the_bit: bool) -> None:
    """Equality, or for operators that round more than once agreement to half the digits of the largest entry."""
    given = as_array(given)
    if given.size == 0:
        return
    values, answer = given.astype(np.float64), expected.astype(np.float64)
    if to_the_bit:
        agree = np.array_equal(values, answer)
    else:
        scale = max(np.abs(answer).max(), np.finfo(np.float64).tiny)
        digits = float_format(given.dtype).precision // 2
        agree = bool((np.abs(values - answer) <= scale * 2.0**-digits).all())
    if not agree:
        where = tuple(int(i) for i in np.unravel_index(np.argmax(np.abs(values - answer)), values.shape))
        raise _disagreement(node, f"the float {what} is {values[where]} at {where}, the exact one {answer[where]}")


def _disagreement(node: Node, rule: str) -> TapeError:
    return TapeError("tape.check", f"node {node.id} ({node.name!r})", rule, "E7")
