"""The arguments of ``torch.nn.functional``'s convolutions: unbatched inputs, autocast, PyTorch's own rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from halfulp.torch._errors import TorchDTypeError, TorchShapeError
from halfulp.torch._tensors import require_cpu


def convolve(
    operator: str,
    ndim: int,
    apply: Callable[..., Tensor],
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    parameters: tuple[Any, ...],
) -> Tensor:
    """Check the tensors, give an unbatched input its batch axis, and apply."""
    for tensor in (input, weight) if bias is None else (input, weight, bias):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{operator}: every operand must be a torch.Tensor, not {type(tensor).__name__}")
        if tensor.device.type != "cpu":
            require_cpu(operator, tensor)
    if torch.is_autocast_enabled("cpu"):
        input, weight, bias = _autocast(input), _autocast(weight), None if bias is None else _autocast(bias)
    if input.dtype != weight.dtype or (bias is not None and bias.dtype != input.dtype):
        raise TorchDTypeError(
            operator,
            f"dtypes {[str(t.dtype) for t in (input, weight, bias) if t is not None]}",
            "all inputs must have one element type; convert with .to(dtype)",
            "I2",
        )
    axes = input.dim()
    if axes == ndim + 2:
        return apply(input, weight, bias, *parameters)
    if axes == ndim + 1:
        return apply(input.unsqueeze(0), weight, bias, *parameters).squeeze(0)
    raise TorchShapeError(
        operator, f"input shape={tuple(input.shape)}", f"must have {ndim + 1} or {ndim + 2} axes, as in PyTorch", "B3"
    )


def spatial_rank(operator: str, weight: Any) -> int:
    """The rank that a convolution's weight has."""
    if isinstance(weight, Tensor) and weight.dim() >= 3:
        return weight.dim() - 2
    shown = f"shape={tuple(weight.shape)}" if isinstance(weight, Tensor) else type(weight).__name__
    raise TorchShapeError(operator, f"weight {shown}", "must be a tensor of at least 3 axes", "C2")


def _autocast(tensor: Tensor) -> Tensor:
    """PyTorch computes convolutions in autocast's type."""
    return tensor.to(torch.get_autocast_dtype("cpu")) if tensor.dtype.is_floating_point else tensor
