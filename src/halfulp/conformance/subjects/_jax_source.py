"""The JAX call for a record, as source: what a reproducer prints is what was run."""

from __future__ import annotations

from typing import Any

import numpy as np

from halfulp.conformance.subjects._base import Unsupported
from halfulp.conformance.subjects._elementwise import jax_source
from halfulp.conformance.subjects._layers import is_layer, jax_layer
from halfulp.geometry import Axis, windows
from halfulp.records import (
    Array,
    AvgPool,
    Conv,
    ConvTranspose,
    ElementwiseOperator,
    GlobalAvgPool,
    GlobalMaxPool,
    GlobalMinPool,
    MaxPool,
    MinPool,
    Operator,
    Shape,
    SumPool,
)

_GLOBAL = {GlobalAvgPool: "mean", GlobalMaxPool: "max", GlobalMinPool: "min"}


def function_source(op: Operator, inputs: tuple[Array | None, ...]) -> str:
    """``def f(x, …)`` that evaluates the record with JAX on inputs of these shapes."""
    x = inputs[0]
    assert x is not None
    if isinstance(op, ElementwiseOperator):
        return jax_source(op)
    if is_layer(op):
        return jax_layer(op, inputs)
    if isinstance(op, (MaxPool, MinPool, SumPool)):
        return _reduction(op, x)
    if isinstance(op, AvgPool):
        return _avg_pool(op, x.shape)
    if isinstance(op, (GlobalAvgPool, GlobalMaxPool, GlobalMinPool)):
        where = f"axis={tuple(range(-op.ndim, 0))}, keepdims={op.keepdims}"
        return f"def f(x):\n    return jnp.{_GLOBAL[type(op)]}(x, {where})"
    if isinstance(op, Conv):
        return _conv(op, inputs)
    if isinstance(op, ConvTranspose):
        return _conv_transpose(op, inputs)
    raise Unsupported(f"the subject has no call for {op.name}")


def _reduction(op: MaxPool | MinPool | SumPool, x: Array) -> str:
    """A windowed maximum, minimum or sum, with the number that changes none of them as padding."""
    integers = np.iinfo(x.dtype) if x.dtype.kind in "iu" else None
    if isinstance(op, SumPool):
        start, function = "0.0", "add"
    elif isinstance(op, MaxPool):
        start, function = "-jnp.inf" if integers is None else str(int(integers.min)), "max"
    else:
        start, function = "jnp.inf" if integers is None else str(int(integers.max)), "min"
    window = _reduce_window(op.axes(x.shape[x.ndim - op.ndim :]), x.ndim)
    return f"def f(x):\n    return lax.reduce_window(x, {start}, lax.{function}, {window})"


def _reduce_window(axes: tuple[Axis, ...], ndim: int) -> str:
    """The window of lax.reduce_window: what ceil_mode reaches beyond the padding is padding too."""
    lead = ndim - len(axes)
    reach = [(a.output_size - 1) * a.stride + a.extent - a.size - a.before for a in axes]
    pads = [(0, 0)] * lead + [
        (a.before, max(a.after, r) if a.ceil_mode else a.after) for a, r in zip(axes, reach, strict=True)
    ]
    ones = (1,) * lead
    strides = ones + tuple(a.stride for a in axes)
    return (
        f"window_dimensions={ones + tuple(a.kernel for a in axes)}, window_strides={strides}, "
        f"padding={pads}, window_dilation={ones + tuple(a.dilation for a in axes)}"
    )


def _avg_pool(op: AvgPool, shape: Shape) -> str:
    """A windowed sum over the number of counted cells, as JAX's users write it."""
    axes = op.axes(shape[len(shape) - op.ndim :])
    counts = [len(w.cells) + (w.padded if op.count_include_pad else 0) for w in windows(axes)]
    sizes = tuple(a.output_size for a in axes)
    if op.divisor_override is not None:
        divisor = repr(op.divisor_override)
    elif len(set(counts)) == 1:
        divisor = repr(counts[0])
    else:
        divisor = f"jnp.asarray({counts}, x.dtype).reshape({sizes})"
    window = _reduce_window(axes, len(shape))
    total = f"lax.reduce_window(x, 0.0, lax.add, {window})"
    return f"def f(x):\n    total = {total}\n    return total / {divisor}"


def _numbers(ndim: int) -> str:
    letters = "DHW"[3 - ndim :]
    return f'dimension_numbers=("NC{letters}", "OI{letters}", "NC{letters}"), precision="highest"'


def _finish(op: Any, inputs: tuple[Array | None, ...], call: str) -> str:
    """Add the bias, and take the batch axis away again where the input had none."""
    x, weight = inputs[0], inputs[1]
    assert x is not None
    assert weight is not None
    if op.ndim > 3:
        raise Unsupported("jax subject: at most three spatial axes")
    unbatched = x.ndim == op.ndim + 1
    if unbatched:
        call = call.replace("(x, ", "(x[None], ", 1)
    lines = ["def f(x, weight, bias=None):", f"    out = {call}"]
    if len(inputs) > 2 and inputs[2] is not None:
        lines.append(f"    out = out + bias.reshape({(-1, *(1,) * op.ndim)})")
    lines.append("    return out[0]" if unbatched else "    return out")
    return "\n".join(lines)


def _conv(op: Conv, inputs: tuple[Array | None, ...]) -> str:
    x, weight = inputs[0], inputs[1]
    assert x is not None
    assert weight is not None
    axes = op.axes(x.shape[x.ndim - op.ndim :], weight.shape[2:])
    pads = [(a.before, a.after) for a in axes]
    call = (
        f"lax.conv_general_dilated(x, weight, window_strides={op.stride}, padding={pads}, "
        f"rhs_dilation={op.dilation}, feature_group_count={op.groups}, {_numbers(op.ndim)})"
    )
    return _finish(op, inputs, call)


def _conv_transpose(op: ConvTranspose, inputs: tuple[Array | None, ...]) -> str:
    """The transpose as JAX has it: a convolution of the input dilated by the stride with the flipped weight."""
    x, weight = inputs[0], inputs[1]
    assert x is not None
    assert weight is not None
    axes = op.axes(x.shape[x.ndim - op.ndim :], weight.shape[2:])
    reach = [a.dilation * (a.kernel - 1) for a in axes]
    extra = [e - a.after for a, e in zip(axes, op.output_padding, strict=True)]
    pads = [(r - a.before, r + e) for a, r, e in zip(axes, reach, extra, strict=True)]
    grouped = (op.groups, weight.shape[0] // op.groups, *weight.shape[1:])
    turned = (op.groups * weight.shape[1], weight.shape[0] // op.groups, *weight.shape[2:])
    flipped = f"jnp.flip(weight, axis={tuple(range(2, weight.ndim))})"
    kernel = f"{flipped}.reshape({grouped}).swapaxes(1, 2).reshape({turned})"
    call = (
        f"lax.conv_general_dilated(x, {kernel}, window_strides={(1,) * op.ndim}, padding={pads}, "
        f"lhs_dilation={op.stride}, rhs_dilation={op.dilation}, feature_group_count={op.groups}, {_numbers(op.ndim)})"
    )
    return _finish(op, inputs, call)
