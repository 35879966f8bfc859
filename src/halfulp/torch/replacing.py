"""Putting our layers and functions into existing PyTorch code: :func:`replace` and :func:`patched`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import torch.nn.functional as F
from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.utils.weight_norm import WeightNorm

from halfulp.records import Declaration, declarations
from halfulp.torch import _generated, modules_conv, modules_layer, modules_pool, unpooling
from halfulp.torch._calls import watched
from halfulp.torch._exact_class import (
    Exact,
    ExactWeightNorm,
    Layer,
    derived,
    exact_class,
    is_parametrized,
    runs_exactly,
    under_parametrization,
)
from halfulp.torch._replacement import Replacement
from halfulp.torch._tracing import Bridged
from halfulp.torch.modules_conv import check_precision

__all__ = ["Replacement", "patched", "replace"]


def _namesakes(module: Any) -> dict[type[nn.Module], type[nn.Module]]:
    """PyTorch's class -> ours, for the classes of a module that have a namesake."""
    return {getattr(nn, name): getattr(module, name) for name in module.__all__ if hasattr(nn, name)}


_POOLINGS = _namesakes(modules_pool) | _namesakes(unpooling)
_CONVOLUTIONS = _namesakes(modules_conv)


def _functions(chosen: Callable[[Declaration], bool]) -> dict[str, Any]:
    """Our functions with a namesake in ``torch.nn.functional``, of the operators that are chosen."""
    names = [name for d in declarations() if chosen(d) for name in d.names]
    return {name: getattr(_generated, name) for name in names if hasattr(F, name) and hasattr(_generated, name)}


_POOLING_FUNCTIONS = _functions(lambda d: not d.convolution and not d.record.elementwise)
_CONVOLUTION_FUNCTIONS = _functions(lambda d: d.convolution)

_EXACT_MODULES = (
    *("ReLU", "ReLU6", "LeakyReLU", "Hardtanh", "Threshold", "Identity", "Flatten", "Unflatten", "PixelShuffle"),
    *("PixelUnshuffle", "ChannelShuffle", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "ZeroPad1d", "ZeroPad2d"),
    "ZeroPad3d",
)
_OURS_FOR = {
    **{m: d.name for d in declarations() if d.record.elementwise for m in d.modules if m not in _EXACT_MODULES},
    **{kind.__name__: kind.__name__ for kind in _namesakes(modules_layer)},
    "_WeightNorm": "_weight_norm",
    "PReLU": "_prelu",
}
"""A module of PyTorch -> what is ours in its place: a module, or a function (with _: not public) that it calls."""
_CONTAINERS = (
    *("Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "ParametrizationList"),
    "DataParallel",  # on the CPU it calls its module
)


def replace(
    model: nn.Module,
    convolutions: bool = False,
    precision: str = "correct",
    *,
    everything: bool = False,
    inplace: bool = True,
) -> Replacement:
    """Replace the pooling layers of a model; with ``convolutions=True`` also its convolutions; or everything.

    The layers keep their identity, parameters, buffers, hooks and names: only their class changes, so state dicts and
    optimizers stay valid. ``inplace=False`` changes a deep copy instead, found as ``.model`` in the result.
    ``precision`` is that of the convolutions. Subclasses that leave ``forward`` alone, and parametrised layers, are
    swapped too.

    ``everything=True`` takes every layer that has a namesake here, and runs the ``forward`` of your own modules with
    our functions: ``F.softmax(x)``, ``x.mean((2, 3))`` and ``a @ b`` in there are ours. The report lists what was
    replaced, what is exact as it is, and what is not covered.

    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2))
    >>> replace(model)
    replaced 1 layer
      2  torch.nn.MaxPool2d -> halfulp.torch.MaxPool2d
    >>> replace(model, everything=True)
    replaced 1 layer
      0  torch.nn.Conv2d -> halfulp.torch.Conv2d
    exact already
      1  torch.nn.ReLU
      2  halfulp.torch.MaxPool2d
    not covered: nothing seen
    """
    check_precision("replace", precision)
    if not isinstance(model, nn.Module):
        raise TypeError(f"replace: model must be a torch.nn.Module, not {type(model).__name__}")
    if not inplace:
        model = copy.deepcopy(model)
    wanted = {**_POOLINGS, **_CONVOLUTIONS} if convolutions or everything else _POOLINGS
    result = Replacement(model)
    for name, layer in model.named_modules():
        label = name or "(the model itself)"
        why = _unreachable(layer, wanted if not everything else None)
        if why is not None:
            result.left[label] = f"{_title(type(layer))} left: {why}"
        elif not _swap(layer, label, wanted, precision, result, everything) and everything:
            _cover(layer, label, result)
    if everything:
        _cover_hooks(model, result)
    return result


def _unreachable(layer: Any, wanted: Any) -> str | None:
    """Why another class would not change what a layer computes; ``wanted`` are the classes to look at, or None."""
    if wanted is not None and not any(kind in wanted for kind in type(layer).__mro__):
        return None
    if "forward" in vars(layer):
        return "its forward is an attribute of the object, not of the class"
    if isinstance(layer, LazyModuleMixin) and cast(Any, layer).has_uninitialized_params():
        return "it has no parameters yet and changes its class when it gets them; run the model once, then replace it"
    return None


def _cover_hooks(model: nn.Module, result: Replacement) -> None:
    """Weight norm gets a hook of ours. Other hooks run with our functions inside a user's forward only; say so."""
    inside: set[str] = set()
    for name, layer in model.named_modules():
        hooks = [*layer._forward_hooks.values(), *layer._forward_pre_hooks.values()]
        for hook in hooks:
            if type(hook) is WeightNorm:
                cast(Any, hook).__class__ = ExactWeightNorm
        if any(type(hook) is not ExactWeightNorm for hook in hooks) and name not in inside:
            result.left[f"{name or '(the model itself)'} (hooks)"] = "hooks run with PyTorch's own functions"
        if name in inside or (isinstance(layer, Exact)):
            inside |= {f"{name}.{child}".lstrip(".") for child, _ in layer.named_children()}


def _swap(
    layer: Any, label: str, wanted: dict[Any, Any], precision: str, result: Replacement, everything: bool
) -> bool:
    """Give a layer our class, if it or the class it derives from has a namesake; whether anything was said of it."""
    theirs = type(layer)
    if isinstance(layer, Bridged):
        return False
    base = next((kind for kind in theirs.__mro__ if kind in wanted), None)
    if base is None:
        return False
    ours = wanted[base]
    plain = all(getattr(theirs, n, None) is getattr(base, n, None) for n in ("forward", "_conv_forward", "__call__"))
    if theirs is base:
        layer.__class__ = ours
    elif is_parametrized(layer) and theirs.__bases__ == (base,):
        layer.__class__ = under_parametrization(layer, ours)
    elif plain:
        layer.__class__ = derived(theirs, ours)
    elif everything:
        return False
    else:
        result.left[label] = f"{_title(theirs)} left: its own forward; everything=True runs it with our functions"
        return True
    if base in _CONVOLUTIONS:
        layer.precision = precision
    result.swapped[label] = f"{_title(theirs)} -> halfulp.torch.{ours.__name__}"
    return True


def _cover(layer: Any, label: str, result: Replacement) -> None:
    """Say of a layer without a class of ours what holds for it, and run its forward with our functions."""
    theirs = type(layer)
    if isinstance(layer, Exact) and runs_exactly(theirs):  # its calls go into this report
        layer._halfulp_calls = result.calls
        result.exact[label] = _title(theirs) if isinstance(layer, Layer) else f"{_title(theirs)}, replaced before"
        return
    name, home = theirs.__name__, theirs.__module__
    plain = theirs.__bases__[0] if is_parametrized(layer) else None
    if plain is not None and plain.__module__.startswith("torch.nn.") and plain.__name__ in _OURS_FOR:
        layer.__class__ = under_parametrization(layer, exact_class(plain))
        layer._halfulp_calls = result.calls
        result.swapped[label] = f"{_title(theirs)} -> halfulp.torch.{_OURS_FOR[plain.__name__]}"
        return
    own_forward = not home.startswith("torch.nn.")
    if name == "Embedding" and not own_forward and (layer.sparse or layer.max_norm is not None):
        what = "sparse=True" if layer.sparse else f"max_norm={layer.max_norm}"
        result.left[label] = f"{_title(theirs)}: PyTorch's own, for its {what}"
    elif (isinstance(layer, Bridged) and runs_exactly(theirs)) or (not own_forward and name in _EXACT_MODULES):
        result.exact[label] = _title(theirs)
    elif not own_forward and name not in _OURS_FOR:
        if name not in _CONTAINERS:
            result.left[label] = f"{_title(theirs)}: PyTorch's own"
    else:
        layer.__class__ = exact_class(theirs)
        layer._halfulp_calls = result.calls
        named = not own_forward and not _OURS_FOR[name].startswith("_")
        function = f"halfulp.torch.{_OURS_FOR[name]}" if named else "its forward with our functions"
        result.swapped[label] = f"{_title(theirs)} -> {function}"


def _title(kind: type) -> str:
    """A class as its users write it."""
    shown = [home for home in ("torch.nn", "halfulp.torch") if kind.__module__.startswith(f"{home}.")]
    return f"{shown[0] if shown else kind.__module__}.{kind.__qualname__}"


@contextmanager
def patched(
    convolutions: bool = False, precision: str = "correct", *, everything: bool = False
) -> Iterator[dict[str, str] | None]:
    """Within the block, ``torch.nn.functional``'s poolings are ours; with ``convolutions=True`` its convolutions, too.

    Modules such as ``torch.nn.MaxPool2d`` call these functions, so they follow. The swap is global to the process, not
    to a thread; ``torch.max_pool2d`` and other names outside ``torch.nn.functional`` stay.

    ``everything=True`` covers every function and method of PyTorch that has a namesake here, on this thread only, and
    gives a dictionary of what was called: ``"ours"``, or why it is not covered.

    >>> import torch
    >>> with patched():
    ...     torch.nn.functional.max_pool2d(torch.arange(4.0).reshape(1, 2, 2), 2)
    tensor([[[3.]]])
    """
    check_precision("patched", precision)
    if everything:
        calls: dict[str, str] = {}
        with watched(calls):
            yield calls
        return
    functions = dict(_POOLING_FUNCTIONS)
    if convolutions:
        functions |= {name: partial(f, precision=precision) for name, f in _CONVOLUTION_FUNCTIONS.items()}
    theirs = {name: getattr(F, name) for name in functions}
    try:
        for name, function in functions.items():
            setattr(F, name, function)
        yield None
    finally:
        for name, function in theirs.items():
            setattr(F, name, function)
