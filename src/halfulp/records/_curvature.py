"""Second derivatives, written once for the tape, PyTorch and JAX.

Every bridge has the same two maps at a point: ``push(points, directions)``, the derivative along directions, and
``pull(points, g, which)``, its transpose. A curvature says how the two change as the points move; with push and pull
themselves that closes the operators under differentiation, to any order and in any mix of modes.

- piecewise linear operators (``none``) and linear ones do not change at all;
- a bilinear operator's change is the operator with one factor replaced by that factor's movement;
- anything else has rules of its own, made of push, pull, value and arithmetic.

Second derivatives are symmetric, so ``cotangent`` is also the transpose of ``tangent``: what <u, push(points, d)>
hands back to the points is the change of pull(points, u) along d.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol


class Calculus(Protocol):
    """One operator in the arithmetic of one bridge. A direction of None is no direction."""

    op: Any

    def value(self, points: Sequence[Any]) -> Any:
        """The operator's value."""

    def push(self, points: Sequence[Any], directions: Sequence[Any]) -> Any:
        """The derivative at the points along the directions."""

    def pull(self, points: Sequence[Any], g: Any, which: int) -> Any:
        """What the output's cotangent hands back to one input."""

    def nonzero(self, x: Any) -> Any:
        """``x`` with 1 in place of every 0."""

    def ones(self, x: Any) -> Any:
        """Ones of the shape and kind of ``x``."""

    def scaled(self, x: Any, factor: Any) -> Any:
        """``x`` times a number that may lie beyond the range of its type."""

    def inverse_root(self, x: Any) -> Any:
        """1 / sqrt(x)."""

    def exponential(self, x: Any) -> Any:
        """exp(x)."""

    def apply(self, op: Any, x: Any) -> Any:
        """Another operator of one input."""

    def constant(self, x: Any) -> Any:
        """An input without derivative as an array that can be compared and indexed."""


Tangent = Callable[[Any, Sequence[Any], Sequence[Any], Sequence[Any]], list[Any]]
Cotangent = Callable[[Any, Sequence[Any], Any, Sequence[Any], int], list[Any]]


@dataclass(frozen=True)
class Curvature:
    """The change of an operator's push and pull as its points move, each as a list of terms to be added.

    ``tangent(calculus, points, directions, moved)`` is the change of ``calculus.push(points, directions)`` and
    ``cotangent(calculus, points, g, moved, which)`` that of ``calculus.pull(points, g, which)`` as the points move
    along ``moved``. A direction of None is zero. Every term is linear in ``moved``.

    A cube of one input has push 3 x^2 t and pull 3 x^2 g:

    >>> cube = Curvature(
    ...     "cube",
    ...     tangent=lambda c, points, directions, moved: [6 * points[0] * directions[0] * moved[0]],
    ...     cotangent=lambda c, points, g, moved, which: [6 * points[0] * g * moved[0]],
    ... )
    >>> cube.tangent(None, (2,), (1,), (1,))
    [12]
    """

    name: str
    tangent: Tangent
    cotangent: Cotangent
    flat: bool = False
    """Whether the derivative does not change around a point."""
    constant: bool = False
    """Whether the derivative is the same at every point."""
    quadratic: bool = False
    """Whether push and pull are linear in the points, too."""


def _no_tangent(calculus: Any, points: Sequence[Any], directions: Sequence[Any], moved: Sequence[Any]) -> list[Any]:
    return []


def _no_cotangent(calculus: Any, points: Sequence[Any], g: Any, moved: Sequence[Any], which: int) -> list[Any]:
    return []


def _bilinear_tangent(c: Any, points: Sequence[Any], directions: Sequence[Any], moved: Sequence[Any]) -> list[Any]:
    """The factors are the first two inputs; what is added to their product has no part in it."""
    (x, weight), (dx, dweight), (vx, vweight) = points[:2], directions[:2], moved[:2]
    terms = []
    if dx is not None and vweight is not None:
        terms.append(c.push((dx, weight), (None, vweight)))
    if dweight is not None and vx is not None:
        terms.append(c.push((x, dweight), (vx, None)))
    return terms


def _bilinear_cotangent(c: Any, points: Sequence[Any], g: Any, moved: Sequence[Any], which: int) -> list[Any]:
    (x, weight), (vx, vweight) = points[:2], moved[:2]
    if which == 0 and vweight is not None:
        return [c.pull((x, vweight), g, 0)]
    if which == 1 and vx is not None:
        return [c.pull((vx, weight), g, 1)]
    return []


NONE = Curvature("none", _no_tangent, _no_cotangent, flat=True)
LINEAR = Curvature("linear", _no_tangent, _no_cotangent, flat=True, constant=True)
BILINEAR = Curvature("bilinear", _bilinear_tangent, _bilinear_cotangent)


def _softmax_tangent(c: Any, points: Sequence[Any], directions: Sequence[Any], moved: Sequence[Any]) -> list[Any]:
    """With weights p = softmax(beta * x) and J t = sum(p * t): beta * (J (t * v) - J t * J v)."""
    (t,), (v,) = directions, moved
    if t is None or v is None:
        return []
    spread = c.push(points, (t * v,)) - c.push(points, (t,)) * c.push(points, (v,))
    return [c.scaled(spread, c.op.beta)]


def _softmax_cotangent(c: Any, points: Sequence[Any], g: Any, moved: Sequence[Any], which: int) -> list[Any]:
    """beta * (v * J^T g - J^T (g * J v))."""
    (v,) = moved
    if v is None:
        return []
    change = v * c.pull(points, g, 0) - c.pull(points, g * c.push(points, (v,)), 0)
    return [c.scaled(change, c.op.beta)]


SOFTMAX = Curvature("softmax", _softmax_tangent, _softmax_cotangent)


def _norm_tangent(c: Any, points: Sequence[Any], directions: Sequence[Any], moved: Sequence[Any]) -> list[Any]:
    """With y the norm and J t = sum(sign(x) |x/y|^(p-1) t): (p - 1) * (J (t * v / x) - J t * J v / y).

    For p = 2 the first term is sum(t * v) / y, which has no need of x. A norm of 0 has no curvature here.
    """
    (x,), (t,), (v,) = points, directions, moved
    p = c.op.p
    if t is None or v is None or p in (1, math.inf):
        return []
    y = c.value(points)
    safe = c.nonzero(y)
    if p == 2:
        ones = (c.ones(x),)
        first = c.push(ones, (t * v,)) * c.value(ones) * (y / safe) / safe
    else:
        first = c.push(points, (t * v / c.nonzero(x),))
    return [c.scaled(first - c.push(points, (t,)) * c.push(points, (v,)) / safe, p - 1)]


def _norm_cotangent(c: Any, points: Sequence[Any], g: Any, moved: Sequence[Any], which: int) -> list[Any]:
    """(p - 1) * (v / x * J^T g - J^T (g * J v / y)); for p = 2 the first term is v * sum^T(g / y)."""
    (x,), (v,) = points, moved
    p = c.op.p
    if v is None or p in (1, math.inf):
        return []
    y = c.value(points)
    safe = c.nonzero(y)
    if p == 2:
        ones = (c.ones(x),)
        first = v * c.pull(ones, g * c.value(ones) * (y / safe) / safe, 0)
    else:
        first = v / c.nonzero(x) * c.pull(points, g, 0)
    return [c.scaled(first - c.pull(points, g * c.push(points, (v,)) / safe, 0), p - 1)]


NORM = Curvature("norm", _norm_tangent, _norm_cotangent)


def _group_mean(c: Any, z: Any) -> Any:
    """The mean of every group that the operator normalises, at each of its cells."""
    view, axes, count = c.op.grouping(tuple(z.shape))
    cells = z.reshape(view)
    return (cells * 0 + c.scaled(cells.sum(axis=axes, keepdims=True), Fraction(1, int(count)))).reshape(tuple(z.shape))


def _normal_change(c: Any, points: Sequence[Any], h: Any, v: Any, weighted: bool) -> Any:
    """With n = c r the normalised cells and P(t) = r (t - mean(t) - n mean(n t)), the derivative of P along v at h:

    -r (mean(n v) P(h) + mean(n h) P(v) + mean(P(v) h) n)

    times the weight if ``weighted`` (the tangent), or for h = weight * g with h given as g (the cotangent).
    """
    x, plain, full = points[0], (points[0], None, None), (points[0], points[1], None)
    n = c.value(plain)
    centred = x - _group_mean(c, x)
    variance = _group_mean(c, centred * centred)
    r = c.inverse_root(variance + c.scaled(c.ones(variance), c.op.eps))
    along_v = _group_mean(c, n * v)
    if weighted:  # everything is times the weight, and h is h
        p_h, p_v, scaled_n = c.push(full, (h, None, None)), c.push(full, (v, None, None)), c.value(full)
        along_h, both = _group_mean(c, n * h), _group_mean(c, c.push(plain, (v, None, None)) * h)
    else:
        p_h, p_v, scaled_n = c.pull(full, h, 0), c.push(plain, (v, None, None)), n
        along_h, both = _group_mean(c, c.value(full) * h), _group_mean(c, c.push(full, (v, None, None)) * h)
    return c.scaled(r * (along_v * p_h + along_h * p_v + both * scaled_n), -1)


def _three(values: Sequence[Any]) -> Sequence[Any]:
    """Those of input, weight and bias, of which the last may be left out, and of what follows."""
    return (*values, *(None,) * (3 - len(values)))


def _normal_tangent(c: Any, points: Sequence[Any], directions: Sequence[Any], moved: Sequence[Any]) -> list[Any]:
    """The push is w P(tx) + tw n + tb."""
    points, directions, moved = _three(points), _three(directions), _three(moved)
    x, (tx, tw), (vx, vw) = points[0], directions[:2], moved[:2]
    terms = []
    if tx is not None and vw is not None:
        terms.append(_pushed(c, points, vw, tx))
    if tw is not None and vx is not None:
        terms.append(_pushed(c, points, tw, vx))
    if tx is not None and vx is not None and c.op.own_statistics:
        terms.append(_normal_change(c, (x, points[1]), tx, vx, weighted=True))
    return terms


def _pushed(c: Any, points: Sequence[Any], weight: Any, t: Any) -> Any:
    rest = points[3:]
    return c.push((points[0], weight, None, *rest), (t, None, None, *(None for _ in rest)))


def _normal_cotangent(c: Any, points: Sequence[Any], g: Any, moved: Sequence[Any], which: int) -> list[Any]:
    """The pulls are P(w g) to x and the sum of g n to w."""
    points, moved = _three(points), _three(moved)
    (vx, vw), rest = moved[:2], points[3:]
    terms = []
    if which == 0:
        if vw is not None:
            terms.append(c.pull((points[0], vw, None, *rest), g, 0))
        if vx is not None and c.op.own_statistics:
            terms.append(_normal_change(c, points, g, vx, weighted=False))
    if which == 1 and vx is not None:
        change = g * _pushed(c, points, None, vx)
        terms.append(c.pull((points[0], points[1], points[1], *rest), change, 2))  # the pull to a bias is a sum
    return terms


NORMALISATION = Curvature("normalisation", _normal_tangent, _normal_cotangent)


def _row_sum(c: Any, z: Any) -> Any:
    """The sum along the operator's axis, at each cell."""
    return z * 0 + z.sum(axis=c.op.dim, keepdims=True)


def _rows_change(c: Any, points: Sequence[Any], t: Any, v: Any) -> Any:
    """With J t = p (t - sum(p t)), which is its own transpose: (J v) (t - sum(p t)) - p sum(t J v)."""
    p = c.value(points)
    moved = c.push(points, (v,))
    return moved * (t - _row_sum(c, p * t)) - p * _row_sum(c, t * moved)


def _rows_tangent(c: Any, points: Sequence[Any], directions: Sequence[Any], moved: Sequence[Any]) -> list[Any]:
    (t,), (v,) = directions, moved
    return [] if t is None or v is None else [_rows_change(c, points, t, v)]


def _rows_cotangent(c: Any, points: Sequence[Any], g: Any, moved: Sequence[Any], which: int) -> list[Any]:
    (v,) = moved
    return [] if v is None else [_rows_change(c, points, g, v)]


SOFTMAX_OF_ROWS = Curvature("softmax of rows", _rows_tangent, _rows_cotangent)


def _spread(c: Any, points: Sequence[Any], v: Any) -> Any:
    """How softmax changes along v: p (v - sum(p v)); the push of log-softmax is v - sum(p v)."""
    return c.exponential(c.value(points)) * c.push(points, (v,))


def _log_tangent(c: Any, points: Sequence[Any], directions: Sequence[Any], moved: Sequence[Any]) -> list[Any]:
    """The push is t - sum(p t)."""
    (t,), (v,) = directions, moved
    return [] if t is None or v is None else [c.scaled(_row_sum(c, t * _spread(c, points, v)), -1)]


def _log_cotangent(c: Any, points: Sequence[Any], g: Any, moved: Sequence[Any], which: int) -> list[Any]:
    """The pull is g - p sum(g)."""
    (v,) = moved
    return [] if v is None else [c.scaled(_row_sum(c, g) * _spread(c, points, v), -1)]


LOG_SOFTMAX = Curvature("log-softmax", _log_tangent, _log_cotangent)


def _quadratic(c: Any, points: Sequence[Any], moved: Sequence[Any]) -> list[Any] | None:
    """The movements as points, zeros where there is none; None if nothing moves."""
    if all(v is None for v in moved):
        return None
    return [c.ones(p) - c.ones(p) if v is None else v for p, v in zip(points, moved, strict=True)]


def _quadratic_tangent(c: Any, points: Sequence[Any], directions: Sequence[Any], moved: Sequence[Any]) -> list[Any]:
    """The push of a quadratic form at x along t is linear in x, too: its change along v is the push at v."""
    at = _quadratic(c, points, moved)
    return [] if at is None or all(t is None for t in directions) else [c.push(at, directions)]


def _quadratic_cotangent(c: Any, points: Sequence[Any], g: Any, moved: Sequence[Any], which: int) -> list[Any]:
    at = _quadratic(c, points, moved)
    return [] if at is None else [c.pull(at, g, which)]


QUADRATIC = Curvature("quadratic", _quadratic_tangent, _quadratic_cotangent, quadratic=True)


def _entropy_spread(c: Any, points: Sequence[Any], v: Any) -> Any:
    """With the push sum((S p - A) t) / D, p moves along v by p (v - sum(p v)): that, times S / D of its sample."""
    x = points[0]
    axis = c.op.class_axis(tuple(x.shape))
    p = c.apply(c.op.softmax(tuple(x.shape)), x)
    mean = (p * v).sum(axis=axis, keepdims=True)
    return c.op.shares(c, points) * p * (v - mean)


def _entropy_tangent(c: Any, points: Sequence[Any], directions: Sequence[Any], moved: Sequence[Any]) -> list[Any]:
    t, v = directions[0], moved[0]
    if t is None or v is None:
        return []
    shape = tuple(points[0].shape)
    axes = (c.op.class_axis(shape),) if c.op.reduction == "none" else tuple(range(len(shape)))
    return [(t * _entropy_spread(c, points, v)).sum(axis=axes)]


def _entropy_cotangent(c: Any, points: Sequence[Any], g: Any, moved: Sequence[Any], which: int) -> list[Any]:
    """The pull is (S p - A) g / D."""
    v = moved[0]
    if v is None or which != 0:
        return []
    shape = tuple(points[0].shape)
    axis = c.op.class_axis(shape)
    cells = g.reshape((*shape[:axis], 1, *shape[axis + 1 :])) if c.op.reduction == "none" else g
    return [_entropy_spread(c, points, v) * cells]


ENTROPY = Curvature("cross entropy", _entropy_tangent, _entropy_cotangent)
