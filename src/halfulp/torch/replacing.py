"""Putting our layers and functions into existing PyTorch code: :func:`replace` and :func:`patched`."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import nn

from halfulp.torch import _generated, modules_conv, modules_pool, unpooling
from halfulp.torch.conv import conv1d, conv2d, conv3d
from halfulp.torch.conv_transpose import conv_transpose1d, conv_transpose2d, conv_transpose3d
from halfulp.torch.modules_conv import check_precision

__all__ = ["Replacement", "patched", "replace"]


def _namesakes(module: Any) -> dict[type[nn.Module], type[nn.Module]]:
    """PyTorch's class -> ours, for the classes of a module that have a namesake."""
    return {getattr(nn, name): getattr(module, name) for name in module.__all__ if hasattr(nn, name)}


_POOLINGS = _namesakes(modules_pool) | _namesakes(unpooling)
_CONVOLUTIONS = _namesakes(modules_conv)

_POOLING_FUNCTIONS: dict[str, Any] = {
    name: getattr(_generated, name) for name in _generated.__all__ if hasattr(F, name)
}
_CONVOLUTION_FUNCTIONS: dict[str, Any] = {
    function.__name__: function
    for function in (conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d)
}


@dataclass(frozen=True)
class Replacement:
    """What :func:`replace` did: the model, the layers it swapped, and those it left although they look alike.

    >>> import torch
    >>> report = replace(torch.nn.Sequential(torch.nn.AvgPool1d(2)))
    >>> report.swapped
    {'0': 'torch.nn.AvgPool1d -> halfulp.torch.AvgPool1d'}
    """

    model: nn.Module
    swapped: dict[str, str] = field(default_factory=dict)
    """Layer name -> its PyTorch class and ours."""
    left: dict[str, str] = field(default_factory=dict)
    """Layer name -> why it was left."""

    def __repr__(self) -> str:
        lines = [f"replaced {len(self.swapped)} layer{'' if len(self.swapped) == 1 else 's'}"]
        for names in (self.swapped, self.left):
            width = max((len(name) for name in names), default=0)
            lines += [f"  {name:<{width}}  {what}" for name, what in names.items()]
        return "\n".join(lines)


def replace(
    model: nn.Module, convolutions: bool = False, precision: str = "correct", *, inplace: bool = True
) -> Replacement:
    """Make the pooling layers of a model ours, and with ``convolutions=True`` its convolutions too.

    The layers keep their identity, parameters, buffers, hooks and names: only their class changes, so state dicts and
    optimizers stay valid. ``inplace=False`` changes a deep copy instead, found as ``.model`` in the result. Layers
    of a user's own subclass are left alone and listed as such. ``precision`` is that of the convolutions.

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2))
    >>> replace(model)
    replaced 1 layer
      2  torch.nn.MaxPool2d -> halfulp.torch.MaxPool2d
    """
    check_precision("replace", precision)
    if not isinstance(model, nn.Module):
        raise TypeError(f"replace: model must be a torch.nn.Module, not {type(model).__name__}")
    if not inplace:
        model = copy.deepcopy(model)
    wanted = {**_POOLINGS, **_CONVOLUTIONS} if convolutions else _POOLINGS
    result = Replacement(model)
    for name, layer in model.named_modules():
        theirs = type(layer)
        label = name or "(the model itself)"
        ours = wanted.get(theirs)
        if ours is not None:
            layer.__class__ = ours
            if theirs in _CONVOLUTIONS:
                layer.precision = precision
            result.swapped[label] = f"torch.nn.{theirs.__name__} -> halfulp.torch.{ours.__name__}"
        elif theirs not in wanted.values() and isinstance(layer, tuple(wanted)):
            result.left[label] = f"{theirs.__module__}.{theirs.__qualname__} left: a subclass may mean something else"
    return result


@contextmanager
def patched(convolutions: bool = False, precision: str = "correct") -> Iterator[None]:
    """Within the block, ``torch.nn.functional``'s poolings are ours; ``convolutions=True`` its convolutions too.

    Modules such as ``torch.nn.MaxPool2d`` call these functions, so they follow. The swap is global to the process, not
    to a thread; ``torch.max_pool2d`` and other names outside ``torch.nn.functional`` stay.

    >>> import torch
    >>> with patched():
    ...     torch.nn.functional.max_pool2d(torch.arange(4.0).reshape(1, 2, 2), 2)
    tensor([[[3.]]])
    """
    check_precision("patched", precision)
    functions = dict(_POOLING_FUNCTIONS)
    if convolutions:
        functions |= {name: partial(f, precision=precision) for name, f in _CONVOLUTION_FUNCTIONS.items()}
    theirs = {name: getattr(F, name) for name in functions}
    try:
        for name, function in functions.items():
            setattr(F, name, function)
        yield
    finally:
        for name, function in theirs.items():
            setattr(F, name, function)
