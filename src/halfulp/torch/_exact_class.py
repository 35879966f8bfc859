"""Classes of a user's modules whose ``forward`` runs with our functions in place of PyTorch's.

Such a class derives from the user's, has its name, and differs in nothing but ``forward``. It is made when it is first
needed; pickles hold the user's class and make it again.
"""

from __future__ import annotations

from functools import cache, wraps
from typing import Any
from weakref import WeakSet

from torch import fx, is_grad_enabled, nn
from torch.compiler import is_compiling
from torch.nn.utils import parametrize
from torch.nn.utils.weight_norm import WeightNorm

from halfulp.torch._calls import Calls, note_functions, rewrite, watched
from halfulp.torch._covered import ask_modes, weight_norm
from halfulp.torch._tensors import own
from halfulp.torch._tracing import Bridged

_remembered: Any = cache


class Exact(Bridged):
    """What these classes add."""

    _halfulp_calls: Calls
    _halfulp_base: type[nn.Module]

    def __reduce_ex__(self, protocol: Any) -> Any:
        if "_halfulp_base" not in vars(type(self)):  # a class that its user derived from one of these
            return super().__reduce_ex__(protocol)
        return _made, (type(self)._halfulp_base,), self.__getstate__()

    def __getstate__(self) -> Any:
        above: Any = super()
        return above.__getstate__() if hasattr(above, "__getstate__") else self.__dict__.copy()


class Layer(Exact):
    """A layer of PyTorch's with a class here: its own constructor and ``forward``, with our functions in there.

    The class derives from this one and from PyTorch's, in this order, and names the function that ``forward`` calls.
    """

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if Layer in cls.__bases__:
            ours: Any = cls
            ours._halfulp_base = base = cls.__bases__[1]
            ours.forward, ours._halfulp_calls = exact_forward(base), {}
            _named[base] = ours


_looked_at: WeakSet[nn.Module] = WeakSet()
_named: dict[Any, type[nn.Module]] = {}
"""A class of PyTorch -> the class here that takes its place."""


class ExactWeightNorm(WeightNorm):
    """The hook of ``torch.nn.utils.weight_norm``, with our functions."""

    def compute_weight(self, module: nn.Module) -> Any:
        """The weight, each step correctly rounded."""
        direction, size = (getattr(module, f"{self.name}_{part}") for part in "vg")
        return weight_norm(direction, size, self.dim)


def _made(base: type[nn.Module]) -> Any:
    kind: Any = exact_class(base)
    return kind.__new__(kind)


def exact_class(base: Any) -> type[nn.Module]:
    """The class for modules of this class."""
    ask_modes()
    return _named.get(base) or _exact_class(base)


@_remembered  # type: ignore[untyped-decorator]
def _exact_class(base: Any) -> type[nn.Module]:
    bases = (base,) if issubclass(base, Exact) else (Exact, base)
    fields = {"_halfulp_base": base, "__module__": base.__module__, "__doc__": base.__doc__}
    made: Any = type(base.__name__, bases, fields | {"forward": exact_forward(base)})
    made.__qualname__ = base.__qualname__
    return made  # type: ignore[no-any-return]


def exact_forward(base: Any) -> Any:
    """The ``forward`` of a class, run with our functions."""

    @wraps(base.forward)  # torch.fx reads the arguments of what is wrapped
    def forward(self: Any, *arguments: Any, **keywords: Any) -> Any:
        proxy: Any = next((a for a in arguments if isinstance(a, fx.Proxy)), None)
        if proxy is not None and isinstance(self, Layer) and self is not proxy.tracer.root:
            return _leaf(proxy.tracer, self, arguments, keywords)
        with watched(self._halfulp_calls):
            output = base.forward(self, *arguments, **keywords)
        if proxy is not None:
            rewrite(proxy.tracer.graph)
        elif _is_outermost(self) and self not in _looked_at:  # once is enough: a walk through the graph
            _looked_at.add(self)
            note_functions(self._halfulp_calls, output)
        return output

    forward.runs_exactly = True  # type: ignore[attr-defined]
    return forward


def _is_outermost(module: Any) -> bool:
    """Whether this is a user's module that no other watches, on its way to a gradient."""
    return not own.modes and not isinstance(module, Layer) and not is_compiling() and is_grad_enabled()


def _leaf(tracer: Any, layer: Any, arguments: Any, keywords: Any) -> Any:
    """A layer in a graph of ``torch.fx``: one node, as PyTorch's own."""
    return tracer.create_proxy("call_module", tracer.path_of_module(layer), arguments, keywords)


def runs_exactly(kind: Any) -> bool:
    """Whether the ``forward`` of a class is ours, and not one that its user wrote in a class derived from ours."""
    return hasattr(kind.forward, "runs_exactly") or kind.forward.__module__.startswith("halfulp.")


@_remembered  # type: ignore[untyped-decorator]
def derived(theirs: Any, ours: Any) -> type[nn.Module]:
    """The class for a subclass that leaves ``forward`` alone: theirs, with the forward of ours."""
    fields = {"_halfulp_pair": (theirs, ours), "__module__": theirs.__module__, "__reduce_ex__": _reduced_pair}
    forward = {name: getattr(ours, name) for name in ("forward", "_conv_forward") if hasattr(ours, name)}
    made: Any = type(theirs.__name__, (theirs, ours), fields | forward)
    made.__qualname__ = theirs.__qualname__
    return made  # type: ignore[no-any-return]


def _reduced_pair(self: Any, protocol: Any) -> Any:
    return _made_pair, type(self)._halfulp_pair, self.__dict__.copy()


def _made_pair(theirs: type[nn.Module], ours: type[nn.Module]) -> Any:
    kind: Any = derived(theirs, ours)
    return kind.__new__(kind)


def under_parametrization(layer: nn.Module, ours: type[nn.Module]) -> type[nn.Module]:
    """A parametrised layer has a class of its own, derived from the plain one; the same, derived from ours."""
    theirs = type(layer)
    fields = {k: v for k, v in vars(theirs).items() if k not in ("__dict__", "__weakref__", "__doc__")}
    return type(theirs.__name__, (ours,), fields)


def is_parametrized(layer: nn.Module) -> bool:
    """Whether ``torch.nn.utils.parametrize`` has changed the layer's class."""
    return bool(parametrize.is_parametrized(layer))
