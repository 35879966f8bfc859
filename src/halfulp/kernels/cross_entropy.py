"""Cross entropy in the compiled core; the few results that its bounds leave undecided, exactly."""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from halfulp import _core
from halfulp.errors import DTypeError
from halfulp.kernels._registry import register
from halfulp.numbers import _entropies as exactly
from halfulp.numbers import as_doubles, float_format
from halfulp.records import CrossEntropy, Pullback, _inputs

Array = np.ndarray[Any, Any]
Maybe = np.ndarray[Any, Any] | None
VALUE, TANGENT, COTANGENT = range(3)


def _pair(number: Fraction) -> tuple[float, float]:
    """A rational as the sum of two doubles."""
    return float(number), float(number - Fraction(float(number)))


def _scaled(weights: Maybe, factor: Fraction, classes: int) -> tuple[Array, Array]:
    """weights * factor, 1 if there are none, as sums of two doubles."""
    high, low = _pair(factor)
    if weights is None:
        return np.full(classes, high), np.full(classes, low)
    if factor == 1:
        return weights.copy(), np.zeros(classes)
    exact = [_pair(Fraction(w) * factor) for w in weights.tolist()]
    return np.array([h for h, _ in exact]), np.array([v for _, v in exact])


class _Call:
    """One cross entropy: every sample's classes as a row."""

    def __init__(self, op: Any, x: Array, target: Array, weight: Maybe) -> None:
        self.op, self.shape, self.dtype = op, x.shape, x.dtype
        self.result = op.output_shape(x.shape, target.shape, None if weight is None else weight.shape)
        op.finite(weight)
        self.target, self.weight = target, weight
        self.axis = op.class_axis(x.shape)
        self.x = self.rows(x)
        labels = op.labels(x.shape, target)
        self.labels = None if labels is None else np.ascontiguousarray(labels).reshape(-1)
        self.dense = None if labels is not None else self.rows(_like(op, target, x.dtype))
        self._prepare()

    def rows(self, array: Array) -> Array:
        moved = np.ascontiguousarray(np.moveaxis(array, self.axis, -1))
        return moved.reshape(-1, self.shape[self.axis])

    def _prepare(self) -> None:
        """The coefficients as sums of two doubles, and one over the divisor."""
        classes, smooth = self.shape[self.axis], Fraction(self.op.label_smoothing)
        given = None if self.weight is None else as_doubles(self.weight)
        self.lead: tuple[Maybe, Maybe] = (None, None)
        self.base: tuple[Maybe, Maybe] = (None, None)
        whole = Fraction(0)
        if smooth or given is not None:
            self.lead = _scaled(given, 1 - smooth, classes)
        if smooth:
            self.base = _scaled(given, smooth / classes, classes)
            whole = Fraction(classes) if given is None else sum((Fraction(w) for w in given.tolist()), Fraction(0))
        self.base_total = _pair(whole * smooth / classes)
        divisor = Fraction(1)
        if self.op.reduction == "mean":
            divisor = Fraction(len(self.x))
            if self.labels is not None:
                used = self.labels[self.labels >= 0]
                divisor = Fraction(used.size)
                if given is not None:
                    pairs = zip(np.bincount(used, minlength=classes).tolist(), given.tolist(), strict=True)
                    divisor = sum((n * Fraction(w) for n, w in pairs if n), Fraction(0))
        self.divisor = divisor
        if divisor:
            self.scale = _pair(1 / divisor)

    def run(self, work: int, t: Maybe = None, g: Maybe = None) -> Array:
        by_row = self.op.reduction == "none"
        if self.x.size == 0 or self.divisor == 0:
            return self._empty(work)
        given = [self.x, self.dense, t, g, self.labels, *self.lead, *self.base]
        out, undecided = _core.cross_entropy(self.op.name, work, by_row, given, self.base_total, self.scale)
        if undecided.size:
            self._decide(out.reshape(-1), undecided.tolist(), work, t, g)
        return np.asarray(out)

    def _empty(self, work: int) -> Array:
        """No samples, or a divisor of 0: NaN, but 0 for samples that are left out."""
        out: Array = np.full(self.x.shape if work == COTANGENT else prod(self.result), np.nan).astype(self.dtype)
        if self.op.reduction != "mean":
            out[...] = 0
        elif work == COTANGENT and self.labels is not None:
            out[self.labels < 0] = 0
        return out

    def _decide(self, out: Array, positions: list[int], work: int, t: Maybe, g: Maybe) -> None:
        found, target = exactly.coefficients(self.op, self.shape, self.target, self.weight), float_format(self.dtype)
        x, along = as_doubles(self.x), None if t is None else as_doubles(t)
        for position in positions:
            if work == COTANGENT:
                assert g is not None
                row, i = divmod(position, x.shape[1])
                factor = float(as_doubles(g)[row if len(g) > 1 else 0])
                number = exactly.cell(x[row].tolist(), found.rows[row], found.divisor, factor, i, target)
            else:
                rows = [position] if self.op.reduction == "none" else range(len(x))
                samples = [(x[r].tolist(), found.rows[r], None if along is None else along[r].tolist()) for r in rows]
                number = exactly.value(samples, found.divisor, target)
            out[position] = np.float64(number).astype(self.dtype)

    def value(self) -> Array:
        return np.asarray(self.run(VALUE).reshape(self.result))

    def tangent(self, t: Array) -> Array:
        return np.asarray(self.run(TANGENT, self.rows(t)).reshape(self.result))

    def cotangent(self, g: Array) -> Array:
        cells = self.run(COTANGENT, g=np.ascontiguousarray(g).reshape(-1))
        samples = self.op.samples(self.shape)
        return np.ascontiguousarray(np.moveaxis(cells.reshape(*samples, self.shape[self.axis]), -1, self.axis))


def _like(op: Any, target: Array, dtype: Any) -> Array:
    """Probabilities in the input's type, which must hold them."""
    if target.dtype == dtype:
        return target
    with np.errstate(over="ignore"):
        cast = target.astype(dtype)
    if not np.array_equal(as_doubles(cast), as_doubles(target), equal_nan=True):
        text = f"must be {dtype}, the input's, or hold numbers of that type"
        raise DTypeError(op.name, f"target dtype={target.dtype}", text, "I2")
    return cast


def _given(op: Any, inputs: Any) -> tuple[Array, Array, Maybe]:
    x, target, weight = _inputs.as_arrays(op, inputs)
    assert x is not None
    assert target is not None
    return x, target, weight


def forward(op: Any, *inputs: Any, out: Any = None) -> Any:
    """The loss."""
    return _Call(op, *_given(op, inputs)).value()


def jvp(op: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    """The loss and its tangent."""
    arrays = _given(op, primals)
    t, *_ = _inputs.as_tangents(op, arrays, tangents)
    assert t is not None
    call = _Call(op, *arrays)
    return call.value(), call.tangent(t)


def vjp(op: Any, *primals: Any, wanted: Any = None) -> tuple[Any, Pullback]:
    """The loss, and a pullback that keeps its own copies of the inputs."""
    x, target, weight = _given(op, primals)
    call = _Call(op, x.copy(), target.copy(), None if weight is None else weight.copy())

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        return call.cotangent(_inputs.as_cotangent(op, cotangent, call.result, call.dtype)), None, None

    return call.value(), pullback


register(CrossEntropy, forward=forward, jvp=jvp, vjp=vjp)
