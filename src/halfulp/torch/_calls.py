"""The calls inside a model's ``forward``: ours take the place of PyTorch's while a mode is on, and each is recorded."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx
from torch.compiler import is_compiling
from torch.overrides import TorchFunctionMode, resolve_name

from halfulp.torch._covered import BY_FUNCTION, EXACT, GATHERS, INPLACE_AT, OTHER_METHODS, OURS
from halfulp.torch._tensors import own

_Mode: Any = TorchFunctionMode

Calls = dict[str, str]
"""A function's name -> ``"ours"``, ``"exact"`` or why it is not covered."""


class Watched(_Mode):  # type: ignore[misc]
    """Within the block, calls of PyTorch that have a namesake here are ours; ``calls`` lists what was called."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self.calls = calls

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if is_compiling():
            function = BY_FUNCTION.get(func)
            if function is None or not _floats(args):
                return func(*args, **kwargs)
            at = INPLACE_AT.get(func, len(args))
            inplace = kwargs.pop("inplace", False) if at >= len(args) else args[at]
            return called(function, (*args[:at], *args[at + 1 :]), kwargs, inplace)
        name = _name(func)
        function = OURS.get(name)
        if function is None and name.endswith("_") and name[:-1] in OURS and _floats(args):
            return self._in_place(name, func, args, kwargs)
        own.modes -= 1  # PyTorch takes the mode off the stack for the length of this call
        try:
            if function is None or not _floats(args) or (name == "pow" and not isinstance(args[1], (int, float))):
                self._note(func, name, args)
                return func(*args, **kwargs)
            self.calls[name] = "ours"
            if kwargs.pop("inplace", False):
                return _written_back(function, args, kwargs)
            if any(isinstance(a, fx.Proxy) for a in (*args, *kwargs.values())):
                return _recorded(function, args, kwargs)
            return function(*args, **kwargs)
        finally:
            own.modes += 1

    def _in_place(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        own.modes -= 1
        try:
            self.calls[name] = "ours"
            return _written_back(OURS[name[:-1]], args, kwargs)
        finally:
            own.modes += 1

    def _note(self, func: Any, name: str, args: Any) -> None:
        """Which kind of call this is, once per name."""
        if name in self.calls and self.calls[name] != "exact":
            return
        if name in EXACT or name.rstrip("_") in EXACT or name == "get":
            return
        if name in GATHERS:
            if torch.is_grad_enabled() and not (name == "getitem" and _slices(args[1])):
                self.calls[name] = "values exact; PyTorch adds up its gradient in its own order"
            return
        self.calls[name] = f"{resolve_name(func) or name}: PyTorch's own"


def _name(func: Any) -> str:
    """``torch.Tensor.__radd__`` and ``operator.add`` as ``radd`` and ``add``; a property's getter as ``get``."""
    name: str = getattr(func, "__name__", str(func))
    if name in OTHER_METHODS and func is getattr(Tensor, name):
        return f"Tensor.{name}"
    if name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
        if name in ("iadd", "isub", "imul", "idiv", "itruediv"):
            name = f"{name[1:]}_".replace("true", "")
    return name


def _slices(index: Any) -> bool:
    """Whether an index takes each element at most once: slices, integers, None and the ellipsis."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(part is None or part is ... or isinstance(part, (int, slice)) for part in parts)


def _floats(args: Any) -> bool:
    """Whether some operand is a tensor of floats, or stands for one."""
    for argument in args:
        if isinstance(argument, fx.Proxy) or (isinstance(argument, Tensor) and argument.is_floating_point()):
            return True
    return False


def called(function: Any, args: Any, kwargs: Any, inplace: bool) -> Any:
    """Our function, in place or not."""
    return _written_back(function, args, kwargs) if inplace else function(*args, **kwargs)


def _written_back(function: Any, args: Any, kwargs: Any) -> Any:
    """An operation in place: the result goes into the first operand, and the gradient passes through a copy of it."""
    first, *rest = args
    if torch.is_grad_enabled() and first.requires_grad:
        return first.copy_(function(first.clone(), *rest, **kwargs))
    return first.copy_(function(first, *rest, **kwargs))


def _recorded(function: Any, args: Any, kwargs: Any) -> Any:
    """A call while ``torch.fx`` traces: a node of the graph."""
    proxy = next(a for a in (*args, *kwargs.values()) if isinstance(a, fx.Proxy))
    made = proxy.tracer.create_proxy("call_function", function, tuple(args), kwargs)
    made.node.meta["is_wrapped"] = True  # a call in the graph's own code, when that is traced again
    return made


def rewrite(graph: fx.Graph) -> None:
    """Operators and methods on proxies pass no mode: name ours in the graph that ``torch.fx`` made."""
    for node in graph.nodes:
        if node.op == "call_method" and node.target in OURS and node.target not in OTHER_METHODS:
            node.op, node.target, node.meta["is_wrapped"] = "call_function", OURS[node.target], True
        elif node.op == "call_function" and getattr(operator, node.target.__name__, None) is node.target:
            function = OURS.get(_name(node.target).strip("_"))
            if function is not None:
                node.target, node.meta["is_wrapped"] = function, True


@contextmanager
def watched(calls: Calls) -> Iterator[None]:
    """Our functions within the block, unless an outer block has them already."""
    if own.modes:
        yield
        return
    mode = Watched(calls)
    own.modes += 1
    try:
        with mode:
            yield
    finally:
        own.modes -= 1
