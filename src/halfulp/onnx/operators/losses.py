"""SoftmaxCrossEntropyLoss, one operator with one rounding, and NegativeLogLikelihoodLoss, every step rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from halfulp.autograd import apply, ops
from halfulp.autograd.traced import strip
from halfulp.onnx._node import Node
from halfulp.records import CrossEntropy, LogSoftmax
from halfulp.records.loss import REDUCTIONS

_NO_LABEL = np.iinfo(np.int64).min
"""Stands for ignore_index where a node has none: no label is so small."""


def _settings(node: Node) -> tuple[int, str]:
    reduction = node.text("reduction", "mean")
    if reduction not in REDUCTIONS:
        raise node.refusal(f"reduction={reduction!r}", f"must be one of {', '.join(REDUCTIONS)}")
    return node.integer("ignore_index", int(_NO_LABEL)), reduction


def _checked(node: Node, op: Any, x: Any, labels: Any, weights: Any) -> tuple[Any, Any]:
    labels, given = strip(labels), None if weights is None else strip(weights)
    if labels.dtype.kind not in "iu" or len(x.shape) < 2 or labels.shape != (x.shape[0], *x.shape[2:]):
        text = "must be integers, one for every sample of scores (batch, classes, …)"
        raise node.refusal(f"labels shape={labels.shape}, dtype={labels.dtype}", text, "O9")
    if given is not None and given.shape != (x.shape[1],):
        raise node.refusal(f"weights shape={given.shape}", f"must be ({x.shape[1]},), one for every class", "O9")
    op.labels(tuple(x.shape), labels)
    return labels, given


def softmax_cross_entropy_loss(node: Node) -> Callable[..., Any]:
    """The loss, and the logarithms of the probabilities where they are asked for."""
    op = CrossEntropy(*_settings(node))

    def run(scores: Any, labels: Any, weights: Any = None) -> Any:
        labels, weights = _checked(node, op, scores, labels, weights)
        node.fits(tuple(scores.shape), scores)
        given = (labels,) if weights is None else (labels, weights)
        loss = apply(op, scores, *given)
        return (loss, apply(LogSoftmax(1), scores)) if len(node.outputs) > 1 else loss

    return run


def negative_log_likelihood_loss(node: Node) -> Callable[..., Any]:
    """-weight * input at the labels: their weighted mean, their sum, or every one."""
    op = CrossEntropy(*_settings(node))

    def run(x: Any, labels: Any, weights: Any = None) -> Any:
        labels, weights = _checked(node, op, x, labels, weights)
        node.fits(tuple(x.shape), x)
        kept = labels != op.ignore_index
        places = np.where(kept, labels, 0)
        samples, *rest = np.indices(labels.shape)
        picked = ops.neg(ops.index(x, (samples, places, *rest)))
        one = np.ones(1, strip(x).dtype)
        share = np.where(kept, one[0] if weights is None else weights[places], one[0] * 0)
        losses = picked if weights is None and kept.all() else ops.mul(picked, np.asarray(share, dtype=strip(x).dtype))
        if op.reduction == "none":
            return losses
        if weights is None and kept.all() and op.reduction == "mean":
            return ops.mean(losses)
        whole = ops.sum(losses)
        return whole if op.reduction == "sum" else ops.div(whole, ops.sum(np.asarray(share, dtype=strip(x).dtype)))

    return run
