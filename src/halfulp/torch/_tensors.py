"""Tensors to arrays and back without a copy, and which tensors may take the direct way to the kernels."""

from __future__ import annotations

import threading
from typing import Any

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch._C import (
    _are_functorch_transforms_active,
    _get_tracing_state,
    _len_torch_dispatch_stack,
    _len_torch_function_stack,
)
from torch.autograd import forward_ad
from torch.compiler import is_compiling
from torch.nn import Parameter

from halfulp.torch._errors import TorchDTypeError, TorchShapeError


class _Own(threading.local):
    """How many of the modes on this thread's stack are ours (see ``_calls``): they do not watch our own functions."""

    modes = 0


own = _Own()
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def direct(*tensors: Tensor | None) -> bool:
    """Whether these are plain tensors with nothing watching: no compiler, transform, mode, subclass or dual number.

    Then a call may skip PyTorch's dispatcher, which costs more than a small pooling.
    """
    if (
        is_compiling()
        or _are_functorch_transforms_active()
        or _len_torch_dispatch_stack()
        or _len_torch_function_stack() > own.modes
        or forward_ad._current_level >= 0
        or _get_tracing_state() is not None
    ):
        return False
    for tensor in tensors:
        if tensor is not None:
            kind = type(tensor)
            if (kind is not Tensor and kind is not Parameter) or not tensor.is_cpu:
                return False
    return True


def require_cpu(operator: str, *tensors: Tensor | None) -> None:
    """The kernels run on the CPU alone; other devices are refused by name."""
    for tensor in tensors:
        if tensor is not None and tensor.device.type not in ("cpu", "meta"):
            raise TorchShapeError(
                operator,
                f"a tensor on device={str(tensor.device)!r}",
                "halfulp computes on the CPU; move the tensor with .cpu()",
                "B2",
            )


def as_array(operator: str, tensor: Tensor) -> NDArray[Any]:
    """The tensor's memory as a NumPy array."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.is_neg() or tensor.is_conj():  # lazy views: the sign is a flag of the tensor, not of its memory
        tensor = tensor.resolve_neg().resolve_conj()
    try:
        if tensor.dtype is torch.bfloat16:  # NumPy knows it only through ml_dtypes
            bits: NDArray[Any] = tensor.view(torch.uint16).numpy()
            return bits.view(_BFLOAT16)
        array: NDArray[Any] = tensor.numpy()
        return array
    except (TypeError, RuntimeError) as error:
        require_cpu(operator, tensor)
        raise TorchDTypeError(
            operator,
            f"a tensor with dtype={tensor.dtype}, layout={tensor.layout}",
            "must be a dense tensor of a type that NumPy or ml_dtypes knows",
            "I1",
        ) from error


def as_tensor(array: Any) -> Tensor:
    """A new array as a tensor on the same memory."""
    if type(array) is not np.ndarray:  # a scalar
        array = np.asarray(array)
    if array.dtype == _BFLOAT16:
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def cast_to(tensor: Any, dtype: torch.dtype) -> Any:
    """What autocast makes of an operand: floats of another type are cast, but not float64."""
    if tensor is None or not tensor.is_floating_point() or tensor.dtype is torch.float64:
        return tensor
    return tensor.to(dtype)


def memory_format(like: Tensor) -> torch.memory_format:
    """The format of an output for an input like this: channels last if the input is, else contiguous, as PyTorch."""
    if like.is_contiguous():
        return torch.contiguous_format
    if like.dim() == 4 and like.is_contiguous(memory_format=torch.channels_last):
        return torch.channels_last
    if like.dim() == 5 and like.is_contiguous(memory_format=torch.channels_last_3d):
        return torch.channels_last_3d
    return torch.contiguous_format


def in_format_of(like: Tensor, output: Any) -> Tensor:
    """An output array as a tensor in the memory format that PyTorch would give it for an input like this."""
    if like.is_contiguous():
        tensor = as_tensor(output)
        return tensor if tensor.is_contiguous() else tensor.contiguous()
    return in_format(memory_format(like), like.dim(), output)


def in_format(wanted: torch.memory_format, axes: int, output: Any) -> Tensor:
    """An output array as a tensor in this format, which is one for so many axes; the kernels rarely need the copy."""
    tensor = as_tensor(output)
    return tensor.contiguous(memory_format=wanted if tensor.dim() == axes else torch.contiguous_format)


def empty(like: Tensor, shape: Any, dtype: torch.dtype | None = None) -> Tensor:
    """What :func:`in_format_of` would give, without data: for fake tensors."""
    wanted = memory_format(like) if len(shape) == like.dim() else torch.contiguous_format
    return torch.empty(tuple(shape), dtype=dtype or like.dtype, device=like.device, memory_format=wanted)
