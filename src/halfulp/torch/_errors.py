"""Errors of the bridge: ours in content, and a ``RuntimeError`` besides, which is what PyTorch's functions raise."""

from __future__ import annotations

from halfulp.errors import DTypeError, HalfulpError, PolicyError, ShapeError

__all__ = ["TorchDTypeError", "TorchPolicyError", "TorchShapeError", "as_torch_error"]


class TorchShapeError(ShapeError, RuntimeError):
    """A size, rank, shape or device that a function of the bridge does not take.

    >>> import torch
    >>> import halfulp.torch as ht
    >>> try:
    ...     ht.max_pool2d(torch.zeros(1, 4, 4), 2, padding=2)
    ... except RuntimeError as error:
    ...     print(error)
    max_pool2d: padding=(2, 2): must be at most half the kernel size (2, 2), as in PyTorch [B1]
    """


class TorchDTypeError(DTypeError, RuntimeError):
    """An element type that a function of the bridge does not take.

    >>> import torch
    >>> import halfulp.torch as ht
    >>> try:
    ...     ht.conv1d(torch.zeros(1, 4), torch.zeros(1, 1, 2, dtype=torch.float64))
    ... except TorchDTypeError as error:
    ...     print(error.label)
    I2
    """


class TorchPolicyError(PolicyError, RuntimeError):
    """A setting that is not one of the accepted ones, or an input that the chosen policy refuses.

    >>> import torch
    >>> import halfulp.torch as ht
    >>> try:
    ...     ht.max_pool1d(torch.zeros(1, 4), 2, ties="any")
    ... except TorchPolicyError as error:
    ...     print(error)
    max_pool1d: ties='any': must be one of 'first', 'last', 'all', 'split' [P1]
    """


for _kind in (TorchShapeError, TorchDTypeError, TorchPolicyError):
    _kind.__module__ = "halfulp.torch"  # where they are public, as tracebacks should say


def as_torch_error(error: HalfulpError) -> HalfulpError:
    """The same error as one that code written for PyTorch catches."""
    for kind, bridged in (
        (ShapeError, TorchShapeError),
        (DTypeError, TorchDTypeError),
        (PolicyError, TorchPolicyError),
    ):
        if isinstance(error, kind):
            return bridged(error.operator, error.argument, error.rule, error.label)
    return error
