"""Log-softmax and the losses: cross entropy with integer labels, and mean squared error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from halfulp.autograd.operators._base import PullbackRule, TapeOperator
from halfulp.autograd.operators.curvature import TapeCalculus
from halfulp.autograd.operators.shape import reshape
from halfulp.autograd.scalars import Array
from halfulp.autograd.traced import Traced, apply
from halfulp.errors import TapeError
from halfulp.numbers import plain
from halfulp.records import CrossEntropy, LogSoftmax, MSELoss

_RECORD = CrossEntropy()
MSE = MSELoss()


@dataclass(frozen=True, eq=False, repr=False)
class LabelEntropy(TapeOperator):
    """:class:`halfulp.CrossEntropy` over all samples; classes lie along the last axis.

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
        return _RECORD(*self._points(x)[:2])

    def tangent(self, primals: Sequence[Any], output: Any, tangents: Sequence[Any]) -> Any:
        (x,), (change,) = primals, tangents
        return TapeCalculus(_RECORD).push(self._points(x), (self._rows(change), None, None))

    def pullback(self, primals: Sequence[Any], output: Any, needs: Sequence[bool]) -> PullbackRule:
        (x,) = primals
        return lambda g: (reshape(TapeCalculus(_RECORD).pull(self._points(x), g, 0), tuple(x.shape)),)

    def _points(self, x: Any) -> tuple[Any, Any, None]:
        return self._rows(x), self.labels.reshape(-1), None

    def _rows(self, x: Any) -> Any:
        return reshape(x, (self.labels.size, x.shape[-1]))


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
    return apply(LabelEntropy(labels), logits)


def mse(prediction: Any, target: Any) -> Any:
    """The mean squared error.

    >>> mse(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    array(2.)
    """
    return apply(MSE, prediction, target)
