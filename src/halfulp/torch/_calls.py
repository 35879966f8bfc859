"""The calls inside a model's ``forward``: ours take the place of PyTorch's while a mode is on, and each is recorded."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._C import DisableTorchFunction
from torch.compiler import is_compiling
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from halfulp.torch._covered import (
    BY_FUNCTION,
    EXACT,
    EXACT_FOR_INTEGERS,
    EXACT_IN_ATEN,
    GATHERS,
    INPLACE_AT,
    LEFT,
    LEFT_BY_FUNCTION,
    OTHER_METHODS,
    OURS,
    PYTHON_METHODS,
    written_back,
)
from halfulp.torch._tensors import own

_Mode: Any = TorchFunctionMode
_Dispatch: Any = TorchDispatchMode

Calls = dict[str, str]
"""A function's name -> ``"ours"`` or why it is not covered."""


class Watched(_Mode):  # type: ignore[misc]
    """Within the block, calls of PyTorch that have a namesake here are ours; ``calls`` lists what was called."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self.calls = calls

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if kwargs.get("out", 0) is None:  # as if it were not said
            kwargs = {key: value for key, value in kwargs.items() if key != "out"}
        if is_compiling():
            function, left = _found(func)
            if function is None or not _floats(args, kwargs) or "out" in kwargs or (left and left(args, kwargs)):
                return func(*args, **kwargs)
            at = INPLACE_AT.get(func, len(args))
            inplace = kwargs.pop("inplace", False) if at >= len(args) else args[at]
            return called(function, (*args[:at], *args[at + 1 :]), kwargs, inplace)
        name = _name(func)
        function, left = OURS.get(name), LEFT.get(name)
        own.modes -= 1  # PyTorch takes the mode off the stack for the length of this call
        try:
            if function is None or not _floats(args, kwargs) or "out" in kwargs or (left and left(args, kwargs)):
                self._note(func, name, args, kwargs)
                return func(*args, **kwargs)
            self.calls.setdefault(name, "ours")
            inplace = kwargs.pop("inplace", False)
            if any(isinstance(a, fx.Proxy) for a in (*args, *kwargs.values())):
                return _recorded(OURS[f"{name}_"] if inplace else function, args, kwargs)
            return called(function, args, kwargs, inplace)
        finally:
            own.modes += 1

    def _note(self, func: Any, name: str, args: Any, kwargs: Any) -> None:
        """Which kind of call this is; what is not covered stays in the list when another call of that name is."""
        if self.calls.get(name, "ours") != "ours":
            return
        if name in GATHERS and not kwargs.get("max_norm"):  # an embedding that scales its rows first
            if torch.is_grad_enabled() and not _once(name, args, kwargs):
                self.calls[name] = "values exact; PyTorch adds up its gradient in its own order"
            return
        if name in EXACT or name.rstrip("_") in EXACT or name == "get" or _is_ours(func):
            return
        if name.rstrip("_") in EXACT_FOR_INTEGERS and not any(_inexact(a) for a in (*args, *kwargs.values())):
            return
        self.calls[name] = f"{resolve_name(func) or name}: PyTorch's own"


class Unseen(_Dispatch):  # type: ignore[misc]
    """Within the block, lists operators in a watched ``forward`` that no watching saw: those of compiled functions."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self.calls = calls

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.partition("::")[2]
        known = {name, name.strip("_")} & (EXACT_IN_ATEN)
        if own.modes and func.namespace == "aten" and not known and any(map(_inexact, args)):
            self.calls.setdefault(name, f"torch.ops.aten.{name}: PyTorch's own, in a compiled function")
        with DisableTorchFunction():  # what runs in here is one call
            return func(*args, **(kwargs or {}))


def note_functions(calls: Calls, output: Any) -> None:
    """List the autograd functions of others that an output hangs on: their backward is not watched."""
    seen, ahead = set(), [t.grad_fn for t in tree_leaves(output) if isinstance(t, Tensor)]
    while ahead:
        node = ahead.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        ahead += [before for before, _ in node.next_functions]
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            home = node._forward_cls
            again = getattr(node, "run_function", None)  # of a checkpoint; a module runs with our functions again
            ours = home.__module__.startswith(("halfulp.", "torch."))
            if not ours or not (again is None or isinstance(again, nn.Module)):
                calls[f"{home.__name__}.backward"] = "runs with PyTorch's own functions"


def _is_ours(func: Any) -> bool:
    """Whether this is a registered operator of ours, which a user's code or a hook called itself."""
    return str(resolve_name(func)).startswith("halfulp.")


def _found(func: Any) -> Any:
    """Our function and whether a call is left, by the function object, in a form that ``torch.compile`` can trace."""
    for theirs, function, left in PYTHON_METHODS:
        if theirs is func:
            return function, left
    return BY_FUNCTION.get(func), LEFT_BY_FUNCTION.get(func)


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


def _once(name: str, args: Any, kwargs: Any) -> bool:
    """Whether each element is taken at most once: a padding with a constant; slices, integers, None, the ellipsis."""
    if name == "pad":
        return bool((args[2] if len(args) > 2 else kwargs.get("mode", "constant")) == "constant")
    if name != "getitem":
        return False
    parts = args[1] if isinstance(args[1], tuple) else (args[1],)
    return all(part is None or part is ... or isinstance(part, (int, slice)) for part in parts)


def _inexact(operand: Any) -> bool:
    """Whether this is a tensor of floats or complex numbers."""
    return isinstance(operand, Tensor) and (operand.is_floating_point() or operand.is_complex())


def _floats(args: Any, kwargs: Any) -> bool:
    """Whether some operand is a tensor of floats, or stands for one."""
    for argument in (*args, *kwargs.values()):
        if isinstance(argument, fx.Proxy) or (isinstance(argument, Tensor) and argument.is_floating_point()):
            return True
    return False


def called(function: Any, args: Any, kwargs: Any, inplace: bool) -> Any:
    """Our function, in place or not."""
    return written_back(function, args, kwargs) if inplace else function(*args, **kwargs)


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
            function = OURS.get(_name(node.target))
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
