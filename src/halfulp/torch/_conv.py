"""Convolutions on tensors with the arguments of ``torch.nn.functional``: unbatched inputs, autocast, its own rules."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from halfulp.records import Operator
from halfulp.torch._arguments import per_axis, remembered
from halfulp.torch._convolution import Convolution
from halfulp.torch._errors import TorchDTypeError, TorchShapeError
from halfulp.torch._tensors import cast_to, require_cpu

_PER_AXIS = ("stride", "padding", "output_padding", "dilation")


class ConvolutionBridge(Convolution):
    """The functions of one convolution; a call gives the rank, the tensors, and the record's fields in their order."""

    def __init__(self, record: type[Operator]) -> None:
        super().__init__(record)
        self._prepared = remembered(self.parameters)

    def __call__(self, ndim: int, tensors: tuple[Any, Any, Any], return_indices: bool, *values: Any) -> Tensor:
        """Check the tensors, give an unbatched input its batch axis, and apply."""
        operator = f"{self.name}{ndim}d"
        input, weight, bias = _checked(operator, tensors)
        if weight.dim() != ndim + 2:
            raise TorchShapeError(operator, f"weight shape={tuple(weight.shape)}", f"must have {ndim + 2} axes", "C2")
        # Only padding="same" asks for the kernel's size; leaving it out keeps symbolic sizes out of the memory.
        kernel = tuple(weight.shape[2:]) if isinstance(values[1], str) else ()
        prepare = self.parameters if torch.compiler.is_compiling() else self._prepared
        parameters = prepare(ndim, kernel, *values)
        axes = input.dim()
        if axes == ndim + 2:
            return self.apply(input, weight, bias, *parameters)
        if axes == ndim + 1:
            return self.apply(input.unsqueeze(0), weight, bias, *parameters).squeeze(0)
        text = f"must have {ndim + 1} or {ndim + 2} axes, as in PyTorch"
        raise TorchShapeError(operator, f"input shape={tuple(input.shape)}", text, "B3")

    def parameters(self, ndim: int, kernel: tuple[int, ...], *values: Any) -> tuple[Any, ...]:
        """The arguments of the registered operators: one integer per axis, the padding before and after each axis."""
        name = f"{self.name}{ndim}d"
        given = dict(zip(self.fields, values, strict=True))
        words = self.sided and isinstance(given["padding"], str)
        for field in _PER_AXIS:
            if field in given and not (words and field == "padding"):
                given[field] = per_axis(name, field, given[field], ndim)
        if words:
            given["padding"] = _padding_of_word(name, kernel, **given)
        elif self.sided:
            given["padding"] = tuple(p for p in given["padding"] for _ in range(2))
        return tuple(given.values())


def _padding_of_word(name: str, kernel: Any, stride: Any, padding: str, dilation: Any, **_: Any) -> tuple[int, ...]:
    """The words "valid" and "same", as PyTorch takes them."""
    if padding == "valid":
        return (0,) * (2 * len(stride))
    if padding != "same":
        raise TorchShapeError(name, f"padding={padding!r}", "must be integers >= 0, 'valid' or 'same'", "W2")
    if any(s != 1 for s in stride):
        raise TorchShapeError(name, f"stride={stride}", "padding='same' takes stride 1 only, as in PyTorch", "B4")
    totals = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    return tuple(half for total in totals for half in (total // 2, total - total // 2))


def _checked(operator: str, tensors: tuple[Any, Any, Any]) -> Any:
    """The operands, dense CPU tensors of one element type: autocast's, where it is on."""
    input, weight, bias = tensors
    for tensor in tensors if bias is not None else (input, weight):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{operator}: every operand must be a torch.Tensor, not {type(tensor).__name__}")
        if not tensor.is_cpu:
            require_cpu(operator, tensor)
    if torch.is_autocast_enabled("cpu"):
        input, weight, bias = (cast_to(tensor, torch.get_autocast_dtype("cpu")) for tensor in tensors)
    if input.dtype != weight.dtype or (bias is not None and bias.dtype != input.dtype):
        given = [str(tensor.dtype) for tensor in (input, weight, bias) if tensor is not None]
        text = "all inputs must have one element type; convert with .to(dtype)"
        raise TorchDTypeError(operator, f"dtypes {given}", text, "I2")
    return input, weight, bias


def spatial_rank(operator: str, weight: Any) -> int:
    """The rank that a convolution's weight has."""
    if isinstance(weight, Tensor) and weight.dim() >= 3:
        return weight.dim() - 2
    shown = f"shape={tuple(weight.shape)}" if isinstance(weight, Tensor) else type(weight).__name__
    raise TorchShapeError(operator, f"weight {shown}", "must be a tensor of at least 3 axes", "C2")
