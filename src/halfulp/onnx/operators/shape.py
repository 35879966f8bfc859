"""Constant, Reshape, Flatten, Transpose, Concat, Pad: elements move, nothing is computed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfulp.autograd import ops
from halfulp.autograd.scalars import full
from halfulp.autograd.traced import strip
from halfulp.numbers import exact
from halfulp.onnx._node import Node
from halfulp.onnx.operators._plain import concatenate, index
from halfulp.onnx.operators._plain import reshape as _reshape
from halfulp.onnx.operators._plain import transpose as _transpose
from halfulp.onnx.operators._window import pairs

_PAD_MODES = ("constant", "reflect", "edge", "wrap")


def constant(node: Node) -> Callable[..., Any]:
    """Constant, from any of its numeric attributes."""
    value = _constant(node)
    return lambda: value


def _constant(node: Node) -> NDArray[Any]:
    if node.has("value_float"):
        return np.array(node.number("value_float", 0.0), dtype=np.float32)
    if node.has("value_floats"):
        return np.array(node.numbers("value_floats"), dtype=np.float32)
    if node.has("value_int"):
        return np.array(node.integer("value_int", 0), dtype=np.int64)
    if node.has("value_ints"):
        return np.array(node.integers("value_ints"), dtype=np.int64)
    for name in ("sparse_value", "value_string", "value_strings"):
        if node.has(name):
            raise node.refusal(name, "must be a dense tensor of numbers: give it as value")
    return node.tensor("value")


def reshape(node: Node) -> Callable[..., Any]:
    """Reshape: a size -1 is what is left, a size 0 is the input's unless allowzero is set."""
    allow_zero = node.flag("allowzero")

    def run(x: Any, shape: Any) -> Any:
        wanted = node.concrete(shape, "shape").tolist()
        if not allow_zero:
            for axis, size in enumerate(wanted):
                if size == 0:
                    if axis >= len(x.shape):
                        raise node.refusal(f"shape={wanted}", f"has no size to copy at axis {axis}", "O9")
                    wanted[axis] = x.shape[axis]
        if any(size < -1 for size in wanted):
            raise node.refusal(f"shape={wanted}", "every size must be >= -1", "O9")
        if type(x) is np.ndarray and math.prod(wanted) == x.size and -1 not in wanted:
            return x.reshape(wanted)
        return _reshape(x, wanted)

    return run


def flatten(node: Node) -> Callable[..., Any]:
    """Flatten to a matrix: the axes before ``axis``, and the rest."""
    axis = node.integer("axis", 1)

    def run(x: Any) -> Any:
        ndim = len(x.shape)
        if not -ndim <= axis <= ndim:
            raise node.refusal(f"axis={axis}", f"must be an axis of an input of shape {x.shape}", "O9")
        cut = axis + ndim if axis < 0 else axis
        return _reshape(x, (math.prod(x.shape[:cut]), math.prod(x.shape[cut:])))

    return run


def transpose(node: Node) -> Callable[..., Any]:
    """Transpose; without perm the axes are reversed."""
    order = node.integers("perm")

    def run(x: Any) -> Any:
        if order is not None and sorted(order) != list(range(len(x.shape))):
            raise node.refusal(f"perm={order}", f"must be a permutation of the axes of shape {x.shape}", "O9")
        return _transpose(x, order)

    return run


def concat(node: Node) -> Callable[..., Any]:
    """Concat along ``axis``, which must be given."""
    if not node.has("axis"):
        raise node.refusal("axis", "must be given")
    axis = node.integer("axis", 0)

    def run(*inputs: Any) -> Any:
        node.same_types(*inputs)
        ndim = len(inputs[0].shape)
        if not -ndim <= axis < ndim or any(len(x.shape) != ndim for x in inputs):
            raise node.refusal(f"axis={axis}", f"must be an axis of all inputs {[x.shape for x in inputs]}", "O9")
        shape = list(inputs[0].shape)
        shape[axis] = sum(x.shape[axis] for x in inputs)
        node.fits(tuple(shape), inputs[0])
        return concatenate(inputs, axis)

    return run


def pad(node: Node) -> Callable[..., Any]:
    """Pad in the modes constant, reflect, edge and wrap; a negative pad cuts off."""
    mode = node.text("mode", "constant")
    if mode not in _PAD_MODES:
        raise node.refusal(f"mode={mode!r}", f"must be one of {', '.join(_PAD_MODES)}")
    if node.opset < 11:
        given = node.integers("pads")
        value = node.number("value", 0.0)
        if given is None:
            raise node.refusal("pads", "must be given")
        amounts = np.array(given, dtype=np.int64)
        return lambda x: _pad(node, x, amounts, _fill(node, x, value), None, mode)

    def run(x: Any, pads: Any, value: Any = None, axes: Any = None) -> Any:
        node.same_types(x, value)
        fill = full((), strip(x), 0) if value is None else value
        return _pad(node, x, node.concrete(pads, "pads"), fill, axes, mode)

    return run


def _fill(node: Node, x: Any, value: float) -> Any:
    """The attribute ``value`` as an array without axes, if the input's type holds it exactly."""
    if x.dtype == object:
        return exact(np.array(value))
    scalar = np.array(value).astype(x.dtype)
    if float(scalar) != value and value == value:
        raise node.refusal(f"value={value}", f"is not exact in {x.dtype}")
    return scalar


def _pad(node: Node, x: Any, pads: NDArray[np.int64], fill: Any, axes: Any, mode: str) -> Any:
    ndim = len(x.shape)
    named = list(range(ndim)) if axes is None else [int(axis) for axis in node.concrete(axes, "axes")]
    if any(not -ndim <= axis < ndim for axis in named) or len({axis % ndim for axis in named}) != len(named):
        raise node.refusal(f"axes={named}", f"must be different axes of an input of shape {x.shape}", "O9")
    amounts = pairs(node, tuple(int(p) for p in pads))
    if len(amounts) != len(named):
        raise node.refusal(f"pads={pads.tolist()}", f"must have two numbers for each of {len(named)} axes", "O9")
    shape = list(x.shape)
    for axis, (before, after) in zip(named, amounts, strict=True):
        shape[axis] += before + after
    if min(shape, default=0) < 0:
        raise node.refusal(f"pads={pads.tolist()}", f"cuts off more than the input of shape {x.shape} has", "O9")
    node.fits(tuple(shape), x)
    for axis, (before, after) in zip(named, amounts, strict=True):
        x = _pad_axis(node, x, axis % ndim, before, after, fill, mode)
    return x


def _pad_axis(node: Node, x: Any, axis: int, before: int, after: int, fill: Any, mode: str) -> Any:
    size = x.shape[axis]
    cut = slice(max(0, -before), size - max(0, -after))
    if cut != slice(0, size):
        x = index(x, (slice(None),) * axis + (cut,))
    before, after, size = max(0, before), max(0, after), x.shape[axis]
    if before == 0 and after == 0:
        return x
    if mode == "constant":
        shapes = [tuple(n if i == axis else m for i, m in enumerate(x.shape)) for n in (before, after)]
        first, last = (ops.broadcast_to(_reshape(fill, (1,) * len(s)), s) for s in shapes)
        return concatenate((first, x, last), axis)
    if size == 0:
        raise node.refusal(f"mode={mode!r}", "an axis without elements has nothing to repeat", "O9")
    source = np.pad(np.arange(size), (before, after), mode=mode)  # type: ignore[call-overload]  # one of _PAD_MODES
    return index(x, (slice(None),) * axis + (source,))
