"""Dropout whose mask is a function of (seed, step, layer, element), not of the threads, the layout or the batch.

Within :class:`dropout_step` the calls of a step are numbered in their order, and ``row`` says how many rows of the
batch stand before this piece: pieces and workers see the mask of the whole batch. Outside such a block each call takes
a seed from PyTorch's generator, so ``torch.manual_seed`` fixes the run.

>>> import torch
>>> import halfulp.torch as ht
>>> x = torch.ones(4, 3)
>>> with ht.dropout_step(seed=1, step=7):
...     whole = ht.dropout(x, 0.5)
>>> with ht.dropout_step(seed=1, step=7, row=2):
...     piece = ht.dropout(x[2:], 0.5)
>>> torch.equal(whole[2:], piece)
True
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import Tensor

from halfulp.errors import PolicyError
from halfulp.kernels.keep_mask import keep_mask
from halfulp.torch._errors import as_torch_error
from halfulp.torch._library import library
from halfulp.torch._sums import broadcast
from halfulp.torch._tensors import as_array, as_tensor

__all__ = ["dropout", "dropout1d", "dropout2d", "dropout3d", "dropout_step"]


class _Current(threading.local):
    step: dropout_step | None = None


_current = _Current()


class dropout_step:  # a context manager, named as a function is
    """The seed and step of the dropouts within the block; ``row`` is the number of batch rows before this piece."""

    def __init__(self, seed: int, step: int, row: int = 0) -> None:
        for name, value, limit in (("seed", seed, 2**64), ("step", step, 2**32), ("row", row, 2**48)):
            if not isinstance(value, int) or not 0 <= value < limit:
                _refuse(
                    "dropout_step", f"{name}={value!r}", f"must be an integer >= 0 and < 2**{limit.bit_length() - 1}"
                )
        self.seed, self.step, self.row = seed, step, row
        self._layer = 0

    def __enter__(self) -> dropout_step:
        self._outer, self._layer = _current.step, 0
        _current.step = self
        return self

    def __exit__(self, *error: Any) -> None:
        _current.step = self._outer

    def position(self, row_cells: int) -> tuple[list[int], int]:
        """(seed, step, layer) of the next call, and the number of its first cell."""
        layer = self._layer
        self._layer += 1
        signed = self.seed - 2**64 if self.seed >= 2**63 else self.seed
        return [signed, self.step, layer], self.row * row_cells


def _refuse(operator: str, argument: str, rule: str) -> None:
    raise as_torch_error(PolicyError(operator, argument, rule, "B7"))


def _mask_cpu(stream: Tensor, shape: Any, p: float, first: int, like: Tensor) -> Tensor:
    seed, step, layer = stream.tolist()
    count = 1
    for size in shape:
        count *= size
    kind = as_array("dropout", like[:0] if like.dim() else like).dtype
    cells = keep_mask(kind, count, p, seed=seed, step=step, layer=layer, first=first)
    return as_tensor(cells).view(tuple(shape))


library.define(
    "dropout_mask(Tensor stream, SymInt[] shape, float p, SymInt first, Tensor like) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)
library.impl("dropout_mask", _mask_cpu, "CPU")
_library: Any = torch.library
_library.register_fake(
    "halfulp::dropout_mask", lambda stream, shape, p, first, like: like.new_empty(shape), lib=library
)
_ops: Any = torch.ops


def _dropped(operator: str, input: Tensor, p: float, shape: tuple[int, ...], rows: int) -> Tensor:
    if not 0 <= p <= 1:
        _refuse(operator, f"p={p!r}", "must be a probability in [0, 1]")
    cells = 1
    for size in shape[rows:]:
        cells *= size
    if _current.step is not None:
        numbers, first = _current.step.position(cells)
        stream = torch.tensor(numbers)
    else:
        drawn = torch.randint(0, 2**63 - 1, (1,))
        stream, first = torch.cat([drawn, torch.zeros(2, dtype=torch.int64)]), 0
    with torch.no_grad():
        mask = _ops.halfulp.dropout_mask(stream, shape, p, first, input.detach())
    return input * broadcast(mask, input.shape)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """``torch.nn.functional.dropout`` from a counter-based generator; a kept element is x times 1/(1-p) rounded.

    >>> import torch
    >>> dropout(torch.ones(3), 0.5, training=False)
    tensor([1., 1., 1.])
    """
    return _finish("dropout", input, p, training, inplace, tuple(input.shape), 1)


def _features(operator: str, ndim: int, input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    if input.dim() not in (ndim + 1, ndim + 2):
        _refuse(operator, f"input shape={tuple(input.shape)}", f"must have {ndim + 1} or {ndim + 2} axes")
    lead = input.dim() - ndim
    return _finish(operator, input, p, training, inplace, (*input.shape[:lead], *(1,) * ndim), lead - 1)


def _finish(
    operator: str, input: Tensor, p: float, training: bool, inplace: bool, shape: tuple[int, ...], rows: int
) -> Tensor:
    if not training or p == 0:
        return input
    output = _dropped(operator, input, p, shape, rows)
    return input.copy_(output) if inplace else output


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """``torch.nn.functional.dropout1d``: whole channels of (N, C, L) or (C, L).

    >>> import torch
    >>> with dropout_step(seed=3, step=0):
    ...     dropout1d(torch.ones(1, 3, 2))
    tensor([[[2., 2.],
             [0., 0.],
             [2., 2.]]])
    """
    return _features("dropout1d", 1, input, p, training, inplace)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """``torch.nn.functional.dropout2d``: whole channels of (N, C, H, W) or (C, H, W).

    >>> import torch
    >>> dropout2d(torch.ones(1, 4, 3, 3), 1.0).sum()
    tensor(0.)
    """
    return _features("dropout2d", 2, input, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """``torch.nn.functional.dropout3d``: whole channels of (N, C, D, H, W) or (C, D, H, W).

    >>> import torch
    >>> dropout3d(torch.ones(1, 4, 3, 3, 3), 0.0).sum()
    tensor(108.)
    """
    return _features("dropout3d", 3, input, p, training, inplace)


for _name in ("dropout", "dropout1d", "dropout2d", "dropout3d"):
    torch.fx.wrap(_name)
