"""Slice, Squeeze, Unsqueeze, Expand, Tile, Split, DepthToSpace, SpaceToDepth, Trilu: whole ranges of elements move."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfulp.autograd import ops
from halfulp.autograd.scalars import full
from halfulp.autograd.traced import strip
from halfulp.onnx._node import Node
from halfulp.onnx.operators._moving import axes_input, axes_of, axis_of, integers, move, scalar
from halfulp.onnx.operators._plain import index, reshape, transpose


def slice_(node: Node) -> Callable[..., Any]:
    """Slice, with attributes before operator set 10."""
    if node.opset < 10:
        starts, ends, axes = (node.integers(name) for name in ("starts", "ends", "axes"))
        if starts is None or ends is None:
            raise node.refusal("starts, ends", "must be given")
        return lambda x: _sliced(node, x, list(starts), list(ends), axes, None)

    def run(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
        lists = [None if v is None else integers(node, v, "slice") for v in (starts, ends, axes, steps)]
        return _sliced(node, x, lists[0] or [], lists[1] or [], lists[2], lists[3])

    return run


def _sliced(node: Node, x: Any, starts: list[int], ends: list[int], axes: Any, steps: Any) -> Any:
    ndim = len(x.shape)
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        rule = "needs one start, end, axis and step other than 0 for each axis"
        raise node.refusal(f"starts={starts}, ends={ends}, axes={list(axes)}, steps={steps}", rule, "O9")
    key: list[slice] = [slice(None)] * ndim
    for start, end, axis, step in zip(starts, ends, axes_of(node, axes, ndim), steps, strict=True):
        key[axis] = _range(start, end, step, x.shape[axis])
    return index(x, tuple(key))


def _range(start: int, end: int, step: int, size: int) -> slice:
    """Numbers from the back count from the front, and all are held inside the axis, as ONNX's document says."""
    first, last = (0, size) if step > 0 else (-1, size - 1)
    start = max(0, min(start + size if start < 0 else start, last))
    end = max(first, min(end + size if end < 0 else end, last))
    return slice(start, None if end < 0 else end, step)  # an end before the front has no number in Python


def squeeze(node: Node) -> Callable[..., Any]:
    """Squeeze: axes of size 1 are dropped, all of them where none is named."""
    chosen = axes_input(node, 13)

    def run(x: Any, axes: Any = None) -> Any:
        named = chosen(axes)
        ndim = len(x.shape)
        drop = [a for a in range(ndim) if x.shape[a] == 1] if named is None else axes_of(node, named, ndim)
        if any(x.shape[a] != 1 for a in drop):
            raise node.refusal(f"axes={sorted(drop)}", f"must have size 1 in an input of shape {x.shape}", "O9")
        return reshape(x, tuple(n for a, n in enumerate(x.shape) if a not in drop))

    return run


def unsqueeze(node: Node) -> Callable[..., Any]:
    """Unsqueeze: axes of size 1 are put in where the output has them."""
    chosen = axes_input(node, 13)

    def run(x: Any, axes: Any = None) -> Any:
        named = chosen(axes)
        if named is None:
            raise node.refusal("axes", "must be given", "O9")
        sizes = list(x.shape)
        for axis in sorted(axes_of(node, named, len(sizes) + len(named))):
            sizes.insert(axis, 1)
        return reshape(x, tuple(sizes))

    return run


def expand(node: Node) -> Callable[..., Any]:
    """Expand: the input and the shape are broadcast against each other."""

    def run(x: Any, shape: Any) -> Any:
        sizes = integers(node, shape, "shape")
        if any(size < 0 for size in sizes):
            raise node.refusal(f"shape={sizes}", "every size must be >= 0", "O9")
        try:
            out = _broadcast(tuple(x.shape), tuple(sizes))
        except ValueError as error:
            rule = f"must broadcast with an input of shape {tuple(x.shape)}"
            raise node.refusal(f"shape={sizes}", rule, "O9") from error
        node.fits(out, x)
        return ops.broadcast_to(x, out)

    return run


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """As np.broadcast_shapes, for sizes of any magnitude."""
    ndim = max(len(a), len(b))
    pairs = list(zip((1,) * (ndim - len(a)) + a, (1,) * (ndim - len(b)) + b, strict=True))
    if any(m != n and 1 not in (m, n) for m, n in pairs):
        raise ValueError("shapes do not broadcast")
    return tuple(n if m == 1 else m for m, n in pairs)


def tile(node: Node) -> Callable[..., Any]:
    """Tile: the input repeated along every axis."""

    def run(x: Any, repeats: Any) -> Any:
        counts = integers(node, repeats, "repeats")
        if len(counts) != len(x.shape) or any(count < 0 for count in counts):
            raise node.refusal(f"repeats={counts}", f"must be one number >= 0 for each of {len(x.shape)} axes", "O9")
        node.fits(tuple(n * r for n, r in zip(x.shape, counts, strict=True)), x)
        return move(lambda a: np.tile(a, counts), x)

    return run


def split(node: Node) -> Callable[..., Any]:
    """Split into parts of given sizes, or into as many equal ones as there are outputs (the last may be smaller)."""
    axis = node.integer("axis", 0)
    fixed = node.integers("split") if node.opset < 13 else None
    count = node.integer("num_outputs", len(node.outputs)) if node.opset >= 18 else len(node.outputs)

    def run(x: Any, sizes: Any = None) -> tuple[Any, ...]:
        place = axis_of(node, axis, len(x.shape))
        total = x.shape[place]
        parts = list(fixed or ()) if sizes is None else integers(node, sizes, "split")
        if not parts:
            if count != len(node.outputs) or (node.opset < 18 and total % count):
                raise node.refusal(f"num_outputs={count}", f"must divide the size {total} among the outputs", "O9")
            step = -(-total // count)
            parts = [max(0, min(step, total - i * step)) for i in range(count)]
        if sum(parts) != total or any(part < 0 for part in parts) or len(parts) != len(node.outputs):
            rule = f"must be {len(node.outputs)} sizes >= 0 with sum {total}"
            raise node.refusal(f"split={parts}", rule, "O9")
        ends = [sum(parts[: i + 1]) for i in range(len(parts))]
        before = (slice(None),) * place
        return tuple(index(x, (*before, slice(end - part, end))) for part, end in zip(parts, ends, strict=True))

    return run


def depth_to_space(node: Node) -> Callable[..., Any]:
    """DepthToSpace: blocks of channels become blocks of pixels."""
    size, mode = node.integer("blocksize", 0), node.text("mode", "DCR")
    if size < 1 or mode not in ("DCR", "CRD"):
        raise node.refusal(f"blocksize={size}, mode={mode!r}", "must be >= 1, and DCR or CRD")

    def run(x: Any) -> Any:
        batch, channels, height, width = _four(node, x)
        if channels % size**2:
            raise node.refusal(f"channels={channels}", f"must be a multiple of {size**2}", "O9")
        rest = channels // size**2
        if mode == "DCR":
            parts = transpose(reshape(x, (batch, size, size, rest, height, width)), (0, 3, 4, 1, 5, 2))
        else:
            parts = transpose(reshape(x, (batch, rest, size, size, height, width)), (0, 1, 4, 2, 5, 3))
        return reshape(parts, (batch, rest, height * size, width * size))

    return run


def space_to_depth(node: Node) -> Callable[..., Any]:
    """SpaceToDepth: blocks of pixels become channels."""
    size, mode = node.integer("blocksize", 0), node.text("mode", "DCR")
    if size < 1 or mode not in ("DCR", "CRD"):
        raise node.refusal(f"blocksize={size}, mode={mode!r}", "must be >= 1, and DCR or CRD")

    def run(x: Any) -> Any:
        batch, channels, height, width = _four(node, x)
        if height % size or width % size:
            raise node.refusal(f"input shape={tuple(x.shape)}", f"height and width must be multiples of {size}", "O9")
        parts = reshape(x, (batch, channels, height // size, size, width // size, size))
        moved = transpose(parts, (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
        return reshape(moved, (batch, channels * size**2, height // size, width // size))

    return run


def _four(node: Node, x: Any) -> tuple[int, int, int, int]:
    if len(x.shape) != 4:
        raise node.refusal(f"input shape={tuple(x.shape)}", "must be (batch, channels, height, width)", "O9")
    batch, channels, height, width = x.shape
    return batch, channels, height, width


def trilu(node: Node) -> Callable[..., Any]:
    """Trilu: the upper or lower triangle, zeros elsewhere."""
    upper = node.flag("upper", 1)

    def run(x: Any, k: Any = None) -> Any:
        if len(x.shape) < 2:
            raise node.refusal(f"input shape={tuple(x.shape)}", "must have two axes or more", "O9")
        rows, columns = x.shape[-2:]
        offset = 0 if k is None else max(-rows - 1, min(columns + 1, int(scalar(node, k, "k"))))
        keep = np.tri(rows, columns, offset - 1 if upper else offset, dtype=bool) ^ upper
        return where(np.broadcast_to(keep, x.shape), x, full((), strip(x), 0))

    return run


def where(condition: NDArray[np.bool_], x: Any, y: Any) -> Any:
    """x where the condition holds, y elsewhere, broadcast together."""
    return move(lambda a, b: np.where(condition, a, b), x, y)


def reverse_sequence(node: Node) -> Callable[..., Any]:
    """ReverseSequence: the first elements of every batch entry in reverse order."""
    batch_axis, time_axis = node.integer("batch_axis", 1), node.integer("time_axis", 0)
    if {batch_axis, time_axis} != {0, 1}:
        raise node.refusal(f"batch_axis={batch_axis}, time_axis={time_axis}", "must be 0 and 1 in any order")

    def run(x: Any, lengths: Any) -> Any:
        counts = integers(node, lengths, "sequence_lens")
        time, batch = x.shape[time_axis], x.shape[batch_axis]
        if len(counts) != batch or any(not 0 <= n <= time for n in counts):
            raise node.refusal(f"sequence_lens={counts}", f"must be {batch} numbers from 0 to {time}", "O9")
        order = [[n - 1 - t if t < n else t for t in range(time)] for n in counts]
        rows = np.array(order, dtype=np.int64).reshape(batch, time)
        key = (rows.T, np.arange(batch)[None, :]) if time_axis == 0 else (np.arange(batch)[:, None], rows)
        return index(x, key)

    return run


def size_of(node: Node) -> Callable[..., Any]:
    """Size: the number of elements."""
    return lambda x: np.array(math.prod(x.shape), dtype=np.int64)
