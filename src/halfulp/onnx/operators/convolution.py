"""Conv and ConvTranspose."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from halfulp.kernels._convolution import Call, call_for
from halfulp.onnx._node import Node
from halfulp.onnx.operators._plain import floats
from halfulp.onnx.operators._window import window
from halfulp.records import Conv, ConvTranspose


def conv(node: Node) -> Callable[..., Any]:
    """Conv. The rank and the kernel's size are the weight's; kernel_shape, if given, must agree with it."""
    kernel, shared, groups = node.integers("kernel_shape"), window(node), node.integer("group", 1)

    @lru_cache(maxsize=64)
    def planned(*shapes: tuple[int, ...] | None) -> tuple[Conv, Call]:
        """What depends on the shapes alone."""
        op = Conv(_rank(node, kernel, *shapes[:2]), shared.stride, shared.padding, shared.dilation, groups)
        return op, call_for(op, *shapes)

    def run(x: Any, weight: Any, bias: Any = None) -> Any:
        node.same_types(x, weight, bias)
        op, call = planned(x.shape, weight.shape, None if bias is None else bias.shape)
        node.fits(call.output_shape, x)
        return call.value(x, weight, bias) if floats(x, weight, bias) else op(x, weight, bias)

    return run


def conv_transpose(node: Node) -> Callable[..., Any]:
    """ConvTranspose, with its padding given, or found from output_shape or auto_pad."""
    kernel, groups = node.integers("kernel_shape"), node.integer("group", 1)
    extra, wanted = node.integers("output_padding"), node.integers("output_shape")
    shared = window(node)
    upper = shared.padding == "same"

    def run(x: Any, weight: Any, bias: Any = None) -> Any:
        node.same_types(x, weight, bias)
        ndim = _rank(node, kernel, x.shape, weight.shape)
        added = extra or (0,) * ndim
        op = ConvTranspose(ndim, shared.stride, 0, added, shared.dilation, groups)
        sizes = wanted
        if sizes is None and shared.padding in ("same", "same_lower"):
            sizes = tuple(n * s for n, s in zip(x.shape[2:], op.stride, strict=True))
        padding = shared.padding
        if sizes is not None:
            padding, added = _padding_for(node, op, x.shape[2:], weight.shape[2:], sizes, upper)
        op = ConvTranspose(ndim, shared.stride, padding, added, shared.dilation, groups)
        node.fits(op.output_shape(x.shape, weight.shape, None if bias is None else bias.shape), x)
        return op(x, weight, bias)

    return run


def _padding_for(
    node: Node,
    op: ConvTranspose,
    spatial: tuple[int, ...],
    kernel: tuple[int, ...],
    sizes: tuple[int, ...],
    upper: bool,
) -> tuple[tuple[tuple[int, int], ...], tuple[int, ...]]:
    """The padding and output padding that give outputs of these sizes, split as ONNX splits it."""
    if len(sizes) != len(spatial):
        raise node.refusal(f"output_shape={sizes}", f"must have one size for each of {len(spatial)} spatial axes")
    padding, added = [], []
    for axis, (n, k, size) in enumerate(zip(spatial, kernel, sizes, strict=True)):
        stride, dilation, extra = op.stride[axis], op.dilation[axis], op.output_padding[axis]
        total = stride * (n - 1) + extra + dilation * (k - 1) + 1 - size
        if node.opset < 11 and total > 0 and total % 2:
            rule = f"an odd padding ({total}) has two contradictory splits before operator set 11"
            raise node.refusal(f"output_shape={sizes}, opset={node.opset}", rule)
        small, large = max(0, total) // 2, max(0, total) - max(0, total) // 2
        padding.append((small, large) if upper else (large, small))
        added.append(extra + max(0, -total))  # an output larger than what is computed grows at its end
    return tuple(padding), tuple(added)


def _rank(node: Node, kernel: tuple[int, ...] | None, x: Any, weight: Any) -> int:
    """The rank, after the checks of the shapes that ONNX adds to the record's own."""
    ndim = len(weight) - 2
    if ndim < 1 or len(x) != ndim + 2:
        raise node.refusal(
            f"input shape={tuple(x)}, weight shape={tuple(weight)}",
            "must both have the same number of spatial axes after two others",
            "O9",
        )
    if kernel is not None and kernel != tuple(weight[2:]):
        raise node.refusal(f"kernel_shape={kernel}", f"must be {tuple(weight[2:])}, the weight's")
    return ndim
