"""What the two adaptive poolings share: the output size as PyTorch takes it, and its empty outputs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from halfulp.torch._errors import TorchShapeError


def output_sizes(operator: str, output_size: Any, shape: Any, ndim: int) -> tuple[int, ...]:
    """The output's spatial sizes; None keeps the input's."""
    if not isinstance(output_size, (list, tuple, torch.Size)):
        output_size = (output_size,) * ndim
    elif len(output_size) != ndim:
        raise TorchShapeError(
            operator, f"output_size={tuple(output_size)}", f"must be an integer or {ndim} of them", "W6"
        )
    return tuple(n if m is None else m for n, m in zip(shape[len(shape) - ndim :], output_size, strict=True))


def without_cells(x: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """PyTorch takes an output size of 0: an empty tensor that still hangs on ``x``."""
    leading = x.shape[: x.dim() - len(sizes)]
    return x.flatten(x.dim() - len(sizes))[..., :0].reshape(*leading, *sizes)
