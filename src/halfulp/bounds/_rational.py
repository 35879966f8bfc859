"""What the checker of certificates computes with: rational arrays, and linear maps over them.

Nothing here is shared with the code that finds bounds; no float is computed with.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from flint import fmpq

from halfulp import spec
from halfulp.autograd.operators.arithmetic import Div
from halfulp.bounds import _enclosures
from halfulp.bounds._maps import Convolution, Dense, Gather, Matrix, Mean, Scale
from halfulp.bounds._network import Node
from halfulp.errors import CertificateError
from halfulp.numbers import exact

Exact = Any
"""An object array of rationals."""
ZERO, ONE = fmpq(0), fmpq(1)
larger: Any = np.frompyfunc(max, 2, 1)
smaller: Any = np.frompyfunc(min, 2, 1)
size_of: Any = np.frompyfunc(abs, 1, 1)


def refuse(argument: str, rule: str) -> CertificateError:
    """The error of a certificate that is not accepted."""
    return CertificateError("replay", argument, rule, "V7")


def number(text: Any) -> Exact:
    """A dyadic number from its hexadecimal text."""
    return fmpq(*float.fromhex(text).as_integer_ratio())


def numbers(texts: Any, shape: tuple[int, ...]) -> Exact:
    """An object array from hexadecimal texts."""
    flat = np.empty(len(texts), dtype=object)
    flat[:] = [number(t) for t in texts]
    return flat.reshape(shape)


def zeros(shape: tuple[int, ...]) -> Exact:
    """An object array of rational zeros."""
    out = np.empty(shape, dtype=object)
    out[...] = ZERO
    return out


def sparse(given: dict[str, Any], shape: tuple[int, ...]) -> Exact:
    """An array that is 0 but for some cells."""
    out = zeros(shape)
    flat = out.reshape(-1)
    for cell, text in zip(given["cells"], given["values"], strict=True):
        if not 0 <= cell < flat.size:
            raise refuse(f"cell {cell}", f"must be from 0 to {flat.size - 1}")
        flat[cell] = number(text)
    return out


class Affine(NamedTuple):
    """An affine node over rationals: the sum of ``maps`` of the inputs, plus ``bias``.

    The exact value differs from it by at most ``slack`` (|x| + ``offset``); ``slack`` is None where it is exact.
    ``reach`` is the sum of the absolute terms besides those with x.
    """

    maps: list[Linear]
    bias: Exact | None
    reach: Exact | None
    slack: Exact | None = None
    offset: Exact | None = None


def affine_of(node: Node) -> Affine:
    """The exact coefficients of an affine node; where these are irrational, enclosures of them."""
    bias = None if node.bias is None else exact(node.bias)
    operator: Any = node.operator
    if node.spread is None:
        return Affine([Linear(m) for m in node.maps], bias, None if bias is None else size_of(bias))
    if isinstance(operator, Div):
        factor = np.broadcast_to(ONE / exact(np.asarray(node.constants[1])), node.shape)
        return Affine([Linear(node.maps[0], factor)], None, None)
    if isinstance(node.maps[0], Dense):  # a linear record, of which the map has rounded coefficients
        table, start = operator.coefficients(node.maps[0].source)
        start = start.reshape(node.shape)
        return Affine([Linear(node.maps[0], table)], start, size_of(start))
    return _normalization(node)


def _normalization(node: Node) -> Affine:
    """Batch normalization: (x - mean) scale / sqrt(variance + epsilon) + shift."""
    operator: Any = node.operator
    shape = (-1, *(1,) * (len(node.shape) - 2))
    scale, shift, mean, variance = (
        np.broadcast_to(exact(np.asarray(v)).reshape(shape), node.shape)
        for v in (*node.constants[1:], operator.mean, operator.variance)
    )
    epsilon = exact(np.array([operator.epsilon], dtype=np.float64))[0]
    known: dict[Any, Any] = {}
    for value in variance.reshape(-1):
        if value not in known:
            known[value] = _enclosures.root(value + epsilon)
    low, high = (np.frompyfunc(lambda v, k=k: ONE / known[v][k], 1, 1)(variance) for k in (1, 0))
    factor, slack = scale * low, size_of(scale) * (high - low)
    reach = size_of(shift) + size_of(mean * factor)
    return Affine([Linear(node.maps[0], factor)], shift - mean * factor, reach, slack, size_of(mean))


class Linear:
    """An affine node's map over rationals, on a batch; ``weight`` is given where the map's own is rounded."""

    def __init__(self, linear: Any, weight: Exact | None = None) -> None:
        self.map = linear
        own = getattr(linear, "weight", getattr(linear, "factor", None))
        self.weight: Any = weight if weight is not None or own is None else exact(own)

    def forward(self, x: Exact, sign: int = 0) -> Exact:
        """The map; with sign 1 or -1 only its positive or negative coefficients."""
        linear: Any = self.map
        weight: Any = self.weight
        if weight is not None and sign:
            weight = larger(weight, ZERO) if sign > 0 else smaller(weight, ZERO)
        if isinstance(linear, Convolution):
            return spec.forward(linear._push, linear._images(x, linear.source), weight, None).reshape(
                -1, *linear.target
            )
        if isinstance(linear, Matrix):
            return np.matmul(x, weight.T)
        if isinstance(linear, Dense):
            return np.matmul(x.reshape(len(x), -1), weight.T).reshape(-1, *linear.target)
        if isinstance(linear, Scale):
            return x * weight
        own = linear.sign if isinstance(linear, Gather) else linear.sign * _mean_sign(linear)
        if sign and sign != own:
            return zeros((len(x), *linear.target))
        if isinstance(linear, Gather):
            padded = np.concatenate([x.reshape(len(x), -1), zeros((len(x), 1))], axis=1)
            return padded[:, linear.index] * fmpq(linear.sign)
        return spec.forward(linear.record, x) * fmpq(linear.sign)

    def transpose(self, g: Exact) -> Exact:
        """The transposed map."""
        linear: Any = self.map
        if isinstance(linear, Convolution):
            out = spec.forward(linear._pull, linear._images(g, linear.target), self.weight, None)
            spatial = linear.source[len(linear.source) - linear.record.ndim :]
            key: Any = (Ellipsis, *(slice(0, n) for n in spatial))
            return out[key].reshape(-1, *linear.source)
        if isinstance(linear, Matrix):
            return np.matmul(g, self.weight)
        if isinstance(linear, Dense):
            return np.matmul(g.reshape(len(g), -1), self.weight).reshape(-1, *linear.source)
        if isinstance(linear, Scale):
            return g * self.weight
        if isinstance(linear, Mean):
            (share,) = spec.vjp(linear.record, (zeros((len(g), *linear.source)),), g)
            return np.asarray(share) * fmpq(linear.sign)
        out = zeros((len(g), int(np.prod(linear.source))))
        rows, flat = g.reshape(len(g), -1), linear.index.reshape(-1)
        for place, cell in enumerate(flat.tolist()):
            if cell >= 0:
                out[:, cell] = out[:, cell] + rows[:, place] * fmpq(linear.sign)
        return out.reshape(len(g), *linear.source)


def _mean_sign(linear: Mean) -> int:
    return -1 if (getattr(linear.record, "divisor_override", None) or 1) < 0 else 1


def add_to(waiting: dict[int, Exact], position: int, share: Exact) -> None:
    """Add coefficients to those that wait at a node."""
    waiting[position] = waiting[position] + share if position in waiting else share


def rational(text: Any) -> Exact:
    """A rational number from its text, as in 1/3."""
    value = Fraction(text)
    return fmpq(value.numerator, value.denominator)


def check_cover(cuts: list[Any], depth: int) -> None:
    """Refuse leaves that are not all of the box: at every depth both sides of the same cut are there."""
    if len(cuts) == 1 and len(cuts[0]) == depth:
        return
    if not cuts or any(len(c) <= depth for c in cuts) or len({(*c[depth][:2], c[depth][3]) for c in cuts}) != 1:
        raise refuse(f"cuts at depth {depth}", "must be both sides of one cut, each once")
    for side in (1, -1):
        check_cover([c for c in cuts if c[depth][2] == side], depth + 1)
