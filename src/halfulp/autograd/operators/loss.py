"""Log-softmax and the losses: cross entropy with integer labels, and mean squared error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from halfulp.autograd.operators._base import PullbackRule, TapeOperator
from halfulp.autograd.operators.arithmetic import mul, sub
from halfulp.autograd.operators.reduction import Mean, divide_by, mean, sum_
from halfulp.autograd.operators.shape import index
from halfulp.autograd.scalars import Array, as_array, constant_like
from halfulp.autograd.traced import Traced, apply
from halfulp.errors import TapeError
from halfulp.functional import exp
from halfulp.numbers import plain
from halfulp.records import LogSoftmax


@dataclass(frozen=True, eq=False, repr=False)
class CrossEntropy(TapeOperator):
    """The mean over all samples of -log_softmax(logits)[label]; classes lie along the last axis.

    The labels belong to the operator: they are data, not a value one differentiates by.
    """

    labels: Array
    name: ClassVar[str] = "cross_entropy"

    def __post_init__(self) -> None:
        labels = plain(self.name, "labels", self.labels)
        if labels.dtype.kind not in "iu":
            raise TapeError(self.name, f"labels dtype={labels.dtype}", "must be integers, one class per sample", "E2")
        object.__setattr__(self, "labels", labels)

    def __repr__(self) -> str:
        return f"CrossEntropy({self.labels.size} labels)"

    def forward(self, *inputs: Array) -> Any:
        (x,) = inputs
        labels = self.labels
        if x.ndim == 0 or labels.shape != x.shape[:-1]:
            raise self._fail(f"labels shape={labels.shape}", f"must be {x.shape[:-1]}, as the logits are {x.shape}")
        if labels.size and not (labels.min() >= 0 and labels.max() < x.shape[-1]):
            raise self._fail(f"labels from {labels.min()} to {labels.max()}", f"must be in 0 … {x.shape[-1] - 1}")
        return Mean()(as_array(-LogSoftmax()(x)[self._picked()]))

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        (x,), (change,) = primals, tangents
        expected = sum_(mul(exp(apply(LogSoftmax(), x)), change), -1)
        return mean(sub(expected, index(change, self._picked())))

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        (x,) = primals
        count = max(1, math.prod(x.shape[:-1]))

        def rule(g: Any) -> tuple[Any, ...]:
            errors = sub(exp(apply(LogSoftmax(), x)), constant_like(x, 1) * self._one_hot(x))
            return (mul(errors, divide_by(g, count)),)

        return rule

    def _picked(self) -> tuple[Array, ...]:
        """The index of each sample's own class."""
        return (*np.indices(self.labels.shape), self.labels)

    def _one_hot(self, x: Any) -> Array:
        hot = np.zeros(x.shape, dtype=object if x.dtype == object else x.dtype)
        hot[self._picked()] = 1
        return hot


class MeanSquaredError(TapeOperator):
    """The mean of (prediction - target) squared over all elements."""

    name = "mse"

    def forward(self, *inputs: Array) -> Any:
        prediction, target = inputs
        if prediction.shape != target.shape:
            raise self._fail(f"target shape={target.shape}", f"must be the prediction's {prediction.shape}")
        difference = prediction - target
        return Mean()(as_array(difference * difference))

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        (x, y), (dx, dy) = primals, tangents
        change = dx if dy is None else mul(dy, constant_like(y, -1)) if dx is None else sub(dx, dy)
        return mean(mul(mul(sub(x, y), constant_like(x, 2)), change))

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        (x, y), count = primals, max(1, math.prod(primals[0].shape))

        def rule(g: Any) -> tuple[Any, ...]:
            share = mul(sub(x, y), divide_by(g, count, times=2))
            return (share if needs[0] else None, mul(share, constant_like(x, -1)) if needs[1] else None)

        return rule


_MSE = MeanSquaredError()


def log_softmax(x: Any, axis: int = -1) -> Any:
    """x - log(sum(exp(x))) along an axis.

    >>> log_softmax(np.array([0.0, 0.0]))
    array([-0.69314718, -0.69314718])
    """
    return apply(LogSoftmax(axis), x)


def cross_entropy(logits: Any, labels: Any) -> Any:
    """The mean cross entropy of logits (…, classes) with integer labels (…).

    >>> cross_entropy(np.array([[0.0, 0.0]]), np.array([1]))
    array(0.69314718)
    """
    if isinstance(labels, Traced):
        raise TapeError("cross_entropy", f"labels={labels!r}", "labels are integers, not a traced value", "E2")
    return apply(CrossEntropy(labels), logits)


def mse(prediction: Any, target: Any) -> Any:
    """The mean squared error.

    >>> mse(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    array(2.)
    """
    return apply(_MSE, prediction, target)
