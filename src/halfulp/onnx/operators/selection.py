"""NonMaxSuppression, Hardmax and bitwise operators: decisions and integers, exact."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfulp.autograd.traced import strip
from halfulp.onnx._node import Node
from halfulp.onnx.operators._moving import axis_of, scalar

_MOST_PAIRS = 1 << 34


def non_max_suppression(node: Node) -> Callable[..., Any]:
    """NonMaxSuppression: boxes by falling score, without those that overlap a chosen one above the threshold.

    The comparison of intersection over union with the threshold is exact. Of equal scores the first box counts.
    """
    centred = node.flag("center_point_box")

    def run(boxes: Any, scores: Any, most: Any = None, overlap: Any = None, least: Any = None) -> Any:
        corners, values = strip(boxes), strip(scores)
        if corners.ndim != 3 or corners.shape[2] != 4 or values.ndim != 3 or values.shape[::2] != corners.shape[:2]:
            rule = "must be (batch, boxes, 4) and (batch, classes, boxes)"
            raise node.refusal(f"shapes {corners.shape} and {values.shape}", rule, "O9")
        wanted = 0 if most is None else max(0, int(scalar(node, most, "max_output_boxes_per_class")))
        limit = 0.0 if overlap is None else float(scalar(node, overlap, "iou_threshold"))
        floor = None if least is None else float(scalar(node, least, "score_threshold"))
        if values.size * min(wanted, corners.shape[1]) > _MOST_PAIRS:
            raise node.refusal(f"{values.size} scores", f"boxes may be compared {_MOST_PAIRS} times", "O9")
        sides = _sides(corners.astype(np.float64), centred)
        found = [
            (batch, kind, box)
            for batch in range(values.shape[0])
            for kind in range(values.shape[1])
            for box in _chosen(sides[batch], values[batch, kind], wanted, limit, floor)
        ]
        return np.array(found, dtype=np.int64).reshape(-1, 3)

    return run


def _sides(boxes: NDArray[np.float64], centred: bool) -> NDArray[np.float64]:
    """(low y, low x, high y, high x) of every box."""
    if centred:
        x, y, width, height = (boxes[..., i] for i in range(4))
        return np.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], axis=-1)
    first, second = boxes[..., :2], boxes[..., 2:]
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=-1)


def _chosen(sides: NDArray[Any], scores: NDArray[Any], wanted: int, limit: float, floor: float | None) -> list[int]:
    order = np.argsort(-scores.astype(np.float64), kind="stable")
    if floor is not None:
        order = order[scores[order] > floor]
    chosen: list[int] = []
    while len(order) and len(chosen) < wanted:
        best, order = int(order[0]), order[1:]
        chosen.append(best)
        order = order[~_overlaps(sides[best], sides[order], limit)]
    return chosen


def _overlaps(one: NDArray[np.float64], others: NDArray[np.float64], limit: float) -> NDArray[np.bool_]:
    """Whether the intersection with each other box is more than ``limit`` of the union, exactly."""
    with np.errstate(all="ignore"):
        low, high = np.maximum(one[:2], others[:, :2]), np.minimum(one[2:], others[:, 2:])
        shared = np.maximum(high - low, 0).prod(axis=1)
        own, their = (one[2:] - one[:2]).prod(), (others[:, 2:] - others[:, :2]).prod(axis=1)
        union = own + their - shared
        margin = shared - limit * union
        doubt = np.abs(margin) <= (own + their) * (1 + abs(limit)) * 2.0**-48
    decided = (margin > 0) & (own > 0) & (their > 0)
    for place in np.flatnonzero(doubt):
        decided[place] = _overlaps_exactly(one, others[place], limit)
    return np.asarray(decided, dtype=np.bool_)


def _overlaps_exactly(one: NDArray[np.float64], other: NDArray[np.float64], limit: float) -> bool:
    if not (np.isfinite(one).all() and np.isfinite(other).all() and np.isfinite(limit)):
        return False
    a, b = ([Fraction(float(v)) for v in box] for box in (one, other))
    own, their = ((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    height, width = (max(Fraction(0), min(a[i + 2], b[i + 2]) - max(a[i], b[i])) for i in range(2))
    union = own + their - height * width
    return own > 0 and their > 0 and height * width > Fraction(limit) * union


def hardmax(node: Node) -> Callable[..., Any]:
    """Hardmax: 1 at the first maximum along an axis (before operator set 13: along all axes from it on), else 0."""
    newer = node.opset >= 13
    axis = node.integer("axis", -1 if newer else 1)

    def run(x: Any) -> Any:
        value = strip(x)
        place = axis_of(node, axis, value.ndim)
        node.fits(value.shape, value)
        shape = value.shape if newer else (int(np.prod(value.shape[:place])), int(np.prod(value.shape[place:])))
        along = place if newer else 1
        out = np.zeros(shape, value.dtype)
        if out.size:
            first = np.expand_dims(np.argmax(value.reshape(shape), axis=along), along)
            np.put_along_axis(out, first, 1, axis=along)
        return out.reshape(value.shape)

    return run


def bitwise(function: Callable[..., Any]) -> Callable[[Node], Callable[..., Any]]:
    """The builder of an operation on the bits of integers."""

    def builder(node: Node) -> Callable[..., Any]:
        def run(*inputs: Any) -> Any:
            node.same_types(*inputs)
            if inputs[0].dtype.kind not in "iu":
                raise node.refusal(f"dtype={inputs[0].dtype}", "must be an integer type", "O9")
            node.fits(np.broadcast_shapes(*(x.shape for x in inputs)), inputs[0])
            return function(*inputs)

        return run

    return builder


def bit_shift(node: Node) -> Callable[..., Any]:
    """BitShift; a shift by all bits, more, or a negative number leaves 0, or -1 of a negative one to the right."""
    direction = node.text("direction", "")
    if direction not in ("LEFT", "RIGHT"):
        raise node.refusal(f"direction={direction!r}", "must be LEFT or RIGHT")
    shift = np.left_shift if direction == "LEFT" else np.right_shift

    def run(x: Any, by: Any) -> Any:
        node.same_types(x, by)
        if x.dtype.kind not in "iu":
            raise node.refusal(f"dtype={x.dtype}", "must be an integer type", "O9")
        node.fits(np.broadcast_shapes(x.shape, by.shape), x, 16)
        last = 8 * x.dtype.itemsize - 1
        inside, rest = (by >= 0) & (by <= last), np.where((x < 0) & (direction == "RIGHT"), -1, 0)
        return np.where(inside, shift(x, np.where(inside, by, 0).astype(x.dtype)), rest).astype(x.dtype)

    return run
