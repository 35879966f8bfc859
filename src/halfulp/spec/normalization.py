"""Normalisation: with mean m and variance v of a group's cells, c = x - m, r = 1 / sqrt(v + eps) and n = c r,

    forward   y = weight n + bias
    JVP       weight P(t) + dweight n + dbias,  P(t) = r (t - mean(t) - n mean(n t))
    VJP       dx = P(weight g);  dweight = the sum of g n over the cells that share it;  dbias = the sum of g

With given statistics (batch norm in evaluation) m and v are inputs without derivative, and P(t) = r t.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from halfulp.errors import DTypeError
from halfulp.numbers import flint
from halfulp.numbers._surds import Surd, root
from halfulp.records import BatchNorm, GroupNorm, InstanceNorm, LayerNorm
from halfulp.spec._registry import Functions, register
from halfulp.spec._scalars import filled, is_rational, kind_of, total, zero_of

Array = np.ndarray[Any, Any]
Maybe = np.ndarray[Any, Any] | None


def square_root(operator: str, value: Any) -> Any:
    """The root of a scalar >= 0."""
    if is_rational(value):
        found = root(flint.fmpq(value.numerator, value.denominator) if isinstance(value, Fraction) else value)
        if found is None:
            text = "the root is not rational; give flint.arb, float, a float array or sympy"
            raise DTypeError(operator, f"scalars of kind {type(value).__name__}", text, "R5")
        return Fraction(int(found.p), int(found.q)) if isinstance(value, Fraction) else found
    if isinstance(value, (float, np.floating)):
        return type(value)(np.sqrt(value))
    if hasattr(value, "sqrt"):
        return value.sqrt()
    half = Fraction(1, 2)
    if kind_of(value) == "sympy":
        import sympy

        return value ** sympy.Rational(1, 2)
    return value**half


def like(sample: Any, number: float) -> Any:
    """A float's value as a scalar of the kind of another one."""
    if isinstance(sample, Surd):
        return Surd.of(number)
    top, bottom = float(number).as_integer_ratio()
    return number if isinstance(sample, float) else (sample * 0 + top) / bottom


class Group:
    """The cells of one group: n, r, and the map P."""

    def __init__(self, op: Any, cells: list[Any], given: tuple[Any, Any] | None) -> None:
        self.own, count = given is None, len(cells)
        mean, variance = given or (total(cells) / count, None)
        centred = [x - mean for x in cells]
        if variance is None:
            variance = total([c * c for c in centred]) / count
        self.r = like(cells[0], 1.0) / square_root(op.name, variance + like(cells[0], op.eps))
        self.n = [c * self.r for c in centred]

    def pushed(self, t: list[Any]) -> list[Any]:
        """P(t)."""
        if not self.own:
            return [self.r * v for v in t]
        count = len(t)
        mean, slope = total(t) / count, total([n * v for n, v in zip(self.n, t, strict=True)]) / count
        return [self.r * (v - mean - n * slope) for n, v in zip(self.n, t, strict=True)]


class _Layout:
    """Where the cells of every group lie, and which weight each has."""

    def __init__(self, op: Any, shape: tuple[int, ...]) -> None:
        g = op.groups_of(shape)
        cells = np.arange(g.blocks * g.groups * g.inner).reshape(g.blocks, g.groups, g.inner)
        if g.joint:
            self.groups = [cells[:, i].ravel().tolist() for i in range(g.groups)]
        else:
            self.groups = cells.reshape(g.blocks * g.groups, g.inner).tolist()
        if g.per_cell:
            weights = np.broadcast_to(np.arange(g.inner), cells.shape)
        else:
            each = np.arange(g.groups * g.channels).reshape(g.groups, g.channels)
            weights = np.broadcast_to(each.repeat(g.inner // g.channels if g.channels else 1, axis=1), cells.shape)
        self.weight = weights.ravel().tolist()


def _flat(array: Maybe) -> Any:
    return None if array is None else list(array.ravel())


def _given(array: Maybe, cells: list[Any]) -> Any:
    """Given statistics as scalars of the kind of the cells."""
    if array is None or array.dtype.kind == "O" or not cells:
        return _flat(array)
    return [like(cells[0], float(v)) for v in array.ravel()]


def _groups(op: Any, layout: _Layout, primals: tuple[Any, ...]) -> list[Group]:
    x = _flat(primals[0])
    means, variances = (_given(a, x) for a in (*primals[3:], None, None)[:2])
    found = []
    for i, indices in enumerate(layout.groups):
        given = None if op.own_statistics else (means[i], variances[i])
        found.append(Group(op, [x[j] for j in indices], given) if indices else None)
    return found  # type: ignore[return-value]


def forward(op: Any, inputs: tuple[Any, ...], progress: bool = False) -> Array:
    """weight n + bias."""
    layout, weight, bias = _Layout(op, inputs[0].shape), _flat(inputs[1]), _flat(inputs[2])
    out: list[Any] = [None] * inputs[0].size
    for indices, group in zip(layout.groups, _groups(op, layout, inputs), strict=True):
        for j, n in zip(indices, group.n if group else (), strict=True):
            y = n if weight is None else n * weight[layout.weight[j]]
            out[j] = y if bias is None else y + bias[layout.weight[j]]
    return filled(inputs[0].shape, out)


def jvp(op: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...], progress: bool = False) -> Array:
    """weight P(t) + dweight n + dbias."""
    layout, weight = _Layout(op, primals[0].shape), _flat(primals[1])
    t, dweight, dbias = (_flat(a) for a in (*tangents, None, None)[:3])
    out: list[Any] = [None] * primals[0].size
    zero = zero_of(primals[:3])
    for indices, group in zip(layout.groups, _groups(op, layout, primals), strict=True):
        pushed = None if t is None or group is None else group.pushed([t[j] for j in indices])
        for i, j in enumerate(indices):
            own, terms = layout.weight[j], []
            if pushed is not None:
                terms.append(pushed[i] if weight is None else pushed[i] * weight[own])
            if dweight is not None:
                terms.append(group.n[i] * dweight[own])
            if dbias is not None:
                terms.append(dbias[own])
            out[j] = total(terms) if terms else zero
    return filled(primals[0].shape, out)


def vjp(op: Any, primals: tuple[Any, ...], cotangent: Array, progress: bool = False) -> tuple[Any, ...]:
    """P(weight g), and the sums of g n and of g over the cells that share a weight."""
    x, weight, bias = primals[:3]
    layout, weights, g = _Layout(op, x.shape), _flat(weight), _flat(cotangent)
    out: list[Any] = [None] * x.size
    shape = op.weight_shape(x.shape)
    zero = zero_of((x, cotangent, weight, bias))
    shares: list[list[Any]] = [[] for _ in range(int(np.prod(shape, dtype=int)))]
    plain: list[list[Any]] = [[] for _ in shares]
    for indices, group in zip(layout.groups, _groups(op, layout, primals), strict=True):
        if group is None:
            continue
        h = [g[j] if weights is None else weights[layout.weight[j]] * g[j] for j in indices]
        for j, n, value in zip(indices, group.n, group.pushed(h), strict=True):
            out[j] = value
            shares[layout.weight[j]].append(g[j] * n)
            plain[layout.weight[j]].append(g[j])
    dweight = filled(shape, [total(s) if s else zero for s in shares]) if weight is not None else None
    dbias = filled(shape, [total(s) if s else zero for s in plain]) if bias is not None else None
    return filled(x.shape, out), dweight, dbias


for _record in (LayerNorm, GroupNorm, InstanceNorm, BatchNorm):
    register(_record, Functions(forward, jvp, vjp, surds=True))
