"""Registering an operator with ``torch.library`` so that every transform of PyTorch applies to it.

An operator is defined by its schema and five functions: the CPU kernel, the shape rule for fake tensors, the pullback
(``backward``), the pushforward (``jvp``) and the batching rule (``vmap``). The derivative rules are written with
registered operators again, so derivatives of any order, in any mix of modes, come from the same rules.

Why not ``torch.library.custom_op`` and ``register_autograd``: they offer no forward mode, and their generated node has
no ``setup_context``, so ``torch.func`` refuses it (pytorch#179652). A node of our own under the Autograd key has both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction

from halfulp.errors import HalfulpError
from halfulp.torch._errors import as_torch_error
from halfulp.torch._tensors import require_cpu

NAMESPACE = "halfulp"
_torch_library: Any = torch.library  # untyped
library = _torch_library.Library(NAMESPACE, "DEF")

Rule = Callable[..., Any]
on_trace: list[Callable[[], None]] = []
"""Called whenever a tracer asks for the shape of an output."""


class Context:
    """What a derivative rule sees: the tensors of the call, its parameters, and which tensors need a gradient."""

    __slots__ = ("needs", "parameters", "tensors")

    def __init__(self, tensors: tuple[Any, ...], parameters: tuple[Any, ...], needs: Sequence[bool]) -> None:
        self.tensors = tensors
        self.parameters = parameters
        self.needs = needs


def define(
    name: str,
    schema: str,
    *,
    cpu: Rule,
    fake: Rule,
    backward: Rule,
    jvp: Rule,
    vmap: Rule,
    tensors: int = 1,
) -> Any:
    """Register ``halfulp::name`` and return it; the first ``tensors`` arguments of the schema are the tensors.

    ``cpu(*arguments)`` and ``fake(*arguments)`` give the output; ``backward(context, *cotangents)`` one cotangent per
    tensor; ``jvp(context, *tangents)`` the output's tangent, absent tangents being None; ``vmap`` as in
    ``torch.library.register_vmap``.
    """
    library.define(f"{name}{schema}", tags=(torch.Tag.pt2_compliant_tag,))
    qualified = f"{NAMESPACE}::{name}"
    library.impl(name, _translated(cpu), "CPU")
    library.impl(name, _elsewhere(name), "CompositeExplicitAutograd")
    _torch_library.register_fake(qualified, _checked_fake(name, fake, tensors), lib=library)
    operator = getattr(getattr(torch.ops, NAMESPACE), name).default
    library.impl(name, _autograd_kernel(operator, tensors, backward, jvp), "Autograd", with_keyset=True)
    _torch_library.register_vmap(qualified, vmap, lib=library)
    return operator


def _translated(kernel: Rule) -> Rule:
    """The kernel with its errors as PyTorch's callers expect them."""

    def call(*arguments: Any) -> Any:
        try:
            return kernel(*arguments)
        except HalfulpError as error:
            raise as_torch_error(error) from None

    return call


def _elsewhere(name: str) -> Rule:
    """The kernel of every backend but the CPU: an error that says so."""

    def refuse(*arguments: Any) -> Any:
        require_cpu(name, *(argument for argument in arguments if isinstance(argument, Tensor)))
        raise RuntimeError(f"{name}: halfulp computes on dense CPU tensors only")

    return refuse


def _checked_fake(name: str, fake: Rule, tensors: int) -> Rule:
    checked = _translated(fake)

    def call(*arguments: Any) -> Any:
        require_cpu(name, *arguments[:tensors])
        for tell in on_trace:
            tell()
        return checked(*arguments)

    return call


def _autograd_kernel(operator: Any, tensors: int, backward: Rule, jvp: Rule) -> Rule:
    def below(keyset: Any, arguments: tuple[Any, ...]) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return operator.redispatch(keyset & torch._C._after_autograd_keyset, *arguments)

    base: Any = _SingleLevelFunction

    class Node(base):  # type: ignore[misc]  # one level of differentiation: PyTorch calls the kernel again for each level
        @staticmethod
        def forward(ctx: Any, keyset: Any, *arguments: Any) -> Any:
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(*arguments[:tensors])
            ctx.save_for_forward(*arguments[:tensors])
            ctx.parameters = arguments[tensors:]
            # A node switches both modes off; the levels of torch.func below this one need them.
            with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
                outputs = below(keyset, arguments)
            if isinstance(outputs, tuple):
                ctx.mark_non_differentiable(*(o for o in outputs if not o.dtype.is_floating_point))
            return outputs

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            absent = (None,) * len(ctx.parameters)
            if cotangents[0] is None:
                return (None,) * (1 + tensors) + absent
            context = Context(ctx.saved_tensors, ctx.parameters, ctx.needs_input_grad[1 : 1 + tensors])
            return None, *backward(context, cotangents[0]), *absent

        @staticmethod
        def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
            given = tangents[:tensors]
            return jvp(Context(ctx.saved_tensors, ctx.parameters, [t is not None for t in given]), *given)

    Node.__name__ = f"Halfulp_{operator._opname}"  # shows in `tensor.grad_fn`

    def kernel(keyset: Any, *arguments: Any) -> Any:
        wanted = torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0
        if not wanted and not (torch.is_grad_enabled() and torch._C._any_requires_grad(*arguments)):
            return below(keyset, arguments)
        with enable_single_level_autograd_function():
            return Node.apply(keyset, *arguments)

    return kernel


def to_front(tensor: Any, axis: int | None, size: int) -> Any:
    """A batching rule's operand with the mapped axis first; one that is not mapped is repeated."""
    if tensor is None:
        return None
    return tensor.unsqueeze(0).expand(size, *tensor.shape) if axis is None else tensor.movedim(axis, 0)
