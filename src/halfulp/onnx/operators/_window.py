"""The window attributes that pooling and convolution share, as arguments of halfulp's records."""

from __future__ import annotations

from typing import Any, NamedTuple

from halfulp.onnx._node import Node

_MODES = {"VALID": "valid", "SAME_UPPER": "same", "SAME_LOWER": "same_lower"}


class Window(NamedTuple):
    """Fields of a record; None where the rank is not known before the inputs are."""

    stride: Any
    padding: Any
    dilation: Any
    automatic: bool


def window(node: Node) -> Window:
    """strides, pads, auto_pad and dilations. A stride that is not given is 1 (and not the kernel's size)."""
    stride = node.integers("strides")
    dilation = node.integers("dilations")
    pads = node.integers("pads")
    mode = node.text("auto_pad", "NOTSET")
    if mode not in ("NOTSET", *_MODES):
        raise node.refusal(f"auto_pad={mode!r}", "must be NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    padding: Any = 0
    if mode != "NOTSET":
        if pads is not None and any(pads):
            raise node.refusal(f"pads={pads}", f"cannot be given together with auto_pad={mode!r}")
        padding = _MODES[mode]
    elif pads is not None:
        padding = pairs(node, pads)
    return Window(1 if stride is None else stride, padding, 1 if dilation is None else dilation, mode != "NOTSET")


def pairs(node: Node, pads: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """ONNX lists all beginnings, then all ends; a record wants a pair for every axis."""
    if len(pads) % 2:
        raise node.refusal(f"pads={pads}", "must have a beginning and an end for every axis")
    half = len(pads) // 2
    return tuple(zip(pads[:half], pads[half:], strict=True))


def kernel_shape(node: Node) -> tuple[int, ...]:
    """The kernel_shape of a pooling node, which must be given."""
    kernel = node.integers("kernel_shape")
    if not kernel:
        raise node.refusal("kernel_shape", "must be given, one size for every spatial axis")
    return kernel


def check_rank(node: Node, x: Any, ndim: int) -> None:
    """ONNX inputs are (batch, channels, spatial axes…)."""
    if len(x.shape) != ndim + 2:
        raise node.refusal(f"input shape={tuple(x.shape)}", f"must have {ndim} spatial axes after two others", "O9")
