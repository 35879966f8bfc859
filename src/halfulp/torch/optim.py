"""Optimizers whose steps are a fixed sequence of correctly rounded operations.

PyTorch's steps use fused multiply-adds where the vector code has them and two roundings where it has not, so the same
step may give other bits on another machine, in the tail of a tensor or in another layout. Here every addition,
multiplication, division and square root is one IEEE operation, in the order that each class writes down. Scalars (bias
corrections, step sizes) are computed in float64 by IEEE operations too, powers by repeated squaring, and rounded once
to the parameter's type. Parameters of 16 bits are updated in float32 and rounded once at the end; their moments are
kept in float32.

>>> import torch
>>> import halfulp.torch as ht
>>> weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
>>> weight.grad = torch.tensor([0.5, 0.25])
>>> ht.optim.SGD([weight], lr=0.5).step()
>>> weight
Parameter containing:
tensor([ 0.7500, -2.1250], requires_grad=True)
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from halfulp.errors import PolicyError
from halfulp.torch._errors import TorchDTypeError, as_torch_error

__all__ = ["SGD", "Adam", "AdamW"]

_torch: Any = torch  # the operations on lists of tensors are not typed
_Optimizer: Any = torch.optim.Optimizer
_WAYS = ("foreach", "fused")
"""Arguments of PyTorch's optimizers that choose an implementation: taken, and without effect on the bits."""
_NOT_HERE = ("differentiable", "capturable")


class _Sequenced(_Optimizer):  # type: ignore[misc]
    """What the optimizers share: the loop over groups, and 16-bit parameters as float32 copies."""

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        for name, value in defaults.items():
            numbers = value if isinstance(value, tuple) else (value,)
            for number in numbers:
                if not isinstance(number, bool) and not (math.isfinite(number) and number >= 0):
                    self._refuse(f"{name}={value!r}", "must be finite and >= 0")
        super().__init__(params, defaults)

    def _check_ways(self, ways: dict[str, Any]) -> None:
        """PyTorch's further arguments: a step is the same sequence for all of them, or they are refused."""
        for name, value in ways.items():
            if name in _NOT_HERE:
                if value:
                    self._refuse(f"{name}={value!r}", "steps are not recorded for autograd or CUDA graphs")
            elif name not in _WAYS:
                raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument {name!r}")

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """A state that was saved by this optimizer or by PyTorch's; moments keep the type that they were saved in."""
        super().load_state_dict(state_dict)
        saved = [i for group in state_dict["param_groups"] for i in group["params"]]
        ours = [p for group in self.param_groups for p in group["params"]]
        for number, p in zip(saved, ours, strict=True):
            for name, value in state_dict["state"].get(number, {}).items():
                if isinstance(value, Tensor) and value.is_floating_point() and value.shape == p.shape:
                    self.state[p][name] = torch.empty_like(p, dtype=self._wide(p)).copy_(value)

    def _refuse(self, argument: str, rule: str) -> None:
        raise as_torch_error(PolicyError(f"optim.{type(self).__name__}", argument, rule, "B6"))

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step for every parameter that has a gradient; ``closure`` evaluates the loss again, as in PyTorch."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for dtype in (torch.float32, torch.float64):
                self._group(group, dtype)
        return loss

    def _group(self, group: dict[str, Any], dtype: torch.dtype) -> None:
        """The step of the parameters that are updated in this type, in pieces that stay in a processor's cache."""
        chosen = [p for p in group["params"] if p.grad is not None and self._working(p) is dtype]
        wide = [p if p.dtype is dtype else p.to(dtype) for p in chosen]
        alike: dict[Any, list[tuple[Tensor, ...]]] = {}
        for p, w in zip(chosen, wide, strict=True):
            scalars, buffers = self._prepare(group, self.state[p], w)
            alike.setdefault(scalars, []).append((w, p.grad.to(dtype), *buffers))
        for scalars, rows in alike.items():
            for pack in _packs(rows):
                params, gradients, *kept = map(list, zip(*pack, strict=True))
                if group["maximize"]:
                    gradients = _torch._foreach_neg(gradients)
                self._sequence(group, scalars, params, gradients, *kept)
        for p, w in zip(chosen, wide, strict=True):
            if p is not w:
                p.copy_(w)

    def _working(self, parameter: Tensor) -> torch.dtype:
        """The type in which a parameter is updated."""
        if parameter.is_sparse or parameter.grad is None or parameter.grad.is_sparse or parameter.is_complex():
            raise TorchDTypeError(
                f"optim.{type(self).__name__}",
                f"a parameter with dtype={parameter.dtype}, layout={parameter.layout}",
                "parameters and gradients must be dense and real",
                "B6",
            )
        return self._wide(parameter)

    @staticmethod
    def _wide(parameter: Tensor) -> torch.dtype:
        return torch.float64 if parameter.dtype is torch.float64 else torch.float32

    @abstractmethod
    def _prepare(self, group: dict[str, Any], state: dict[str, Any], like: Tensor) -> tuple[Any, list[Tensor]]:
        """The scalars of a parameter's step, as a key, and its buffers."""

    @abstractmethod
    def _sequence(self, group: dict[str, Any], scalars: Any, params: Any, gradients: Any, *buffers: Any) -> None:
        """The sequence of one step on lists of tensors, in place."""


_PIECE = 1 << 15


def _packs(rows: list[tuple[Tensor, ...]]) -> Iterator[list[tuple[Tensor, ...]]]:
    """Rows of tensors of one shape as lists of short rows: large tensors in pieces, small ones together."""
    pack: list[tuple[Tensor, ...]] = []
    size = 0
    for row in map(_flat, rows):
        for piece in zip(*(_torch.split(t, _PIECE) if t.dim() == 1 else (t,) for t in row), strict=True):
            if pack and size + piece[0].numel() > _PIECE:
                yield pack
                pack, size = [], 0
            pack.append(piece)
            size += piece[0].numel()
    if pack:
        yield pack


def _flat(row: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Tensors of one shape as views along their memory, if the first is dense in some order of its axes."""
    first, gradient, *buffers = row
    if gradient.stride() != first.stride():
        gradient = torch.empty_like(first).copy_(gradient)
    row = (first, gradient, *buffers)
    by_stride = sorted(range(first.dim()), key=first.stride, reverse=True)
    if not first.permute(by_stride).is_contiguous() or any(t.stride() != first.stride() for t in row):
        return row
    return tuple(t.as_strided((t.numel(),), (1,)) for t in row)


def _plus(tensors: list[Tensor], others: list[Tensor], scale: float) -> list[Tensor]:
    """tensors + scale * others: the product is rounded, then the sum."""
    scaled = _torch._foreach_mul(others, scale)
    _torch._foreach_add_(scaled, tensors)
    return scaled  # type: ignore[no-any-return]


def _root(tensor: Tensor) -> Tensor:
    """The square root by NumPy, which takes the processor's: ``torch.sqrt`` is off by an ulp at one element in six."""
    root = torch.empty_like(tensor)
    np.sqrt(tensor.numpy(), out=root.numpy())
    return root


class SGD(_Sequenced):
    """``torch.optim.SGD``: momentum, dampening, Nesterov, weight decay.

    One step, where every written operation is rounded once and ``g`` is the gradient (negated for ``maximize``)::

        g = g + weight_decay * p                 (if weight_decay)
        b = g                                    (first step with momentum)
        b = momentum * b + (1 - dampening) * g   (later steps)
        g = g + momentum * b   if nesterov else   g = b
        p = p - lr * g

    >>> import torch
    >>> p = torch.nn.Parameter(torch.tensor([4.0]))
    >>> optimizer = SGD([p], lr=0.25, momentum=0.5)
    >>> for _ in range(2):
    ...     p.grad = torch.tensor([1.0])
    ...     optimizer.step()
    >>> p.item()
    3.375
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        **ways: Any,
    ) -> None:
        self._check_ways(ways)
        if nesterov and (momentum == 0 or dampening != 0):
            self._refuse("nesterov=True", "takes a momentum > 0 and no dampening, as in PyTorch")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _prepare(self, group: dict[str, Any], state: dict[str, Any], like: Tensor) -> tuple[Any, list[Tensor]]:
        if not group["momentum"]:
            return None, []
        first = "momentum_buffer" not in state
        if first:
            state["momentum_buffer"] = torch.empty_like(like)
        return first, [state["momentum_buffer"]]

    def _sequence(self, group: dict[str, Any], scalars: Any, params: Any, gradients: Any, *buffers: Any) -> None:
        momentum = group["momentum"]
        if group["weight_decay"]:
            gradients = _plus(gradients, params, group["weight_decay"])
        for kept in buffers:
            if scalars:  # the first step
                _torch._foreach_copy_(kept, gradients)
            else:
                damped = _torch._foreach_mul(gradients, 1.0 - group["dampening"]) if group["dampening"] else gradients
                _torch._foreach_mul_(kept, momentum)
                _torch._foreach_add_(kept, damped)
            gradients = _plus(gradients, kept, momentum) if group["nesterov"] else kept
        _torch._foreach_sub_(params, _torch._foreach_mul(gradients, float(group["lr"])))


def _power(base: float, exponent: int) -> float:
    """base ** exponent by repeated squaring, because no power function is the same everywhere."""
    power = 1.0
    for bit in f"{exponent:b}":
        power = power * power * base if bit == "1" else power * power
    return power


class Adam(_Sequenced):
    """``torch.optim.Adam``, with ``amsgrad``; :class:`AdamW` decays the weights apart from the gradient.

    One step, where every written operation is rounded once; names in capitals are float64 scalars, computed first::

        POWER1 = beta1 ** step;  POWER2 = beta2 ** step             (by repeated squaring, first bit first)
        SIZE = lr / (1 - POWER1);  ROOT = sqrt(1 - POWER2)
        p = (1 - lr * weight_decay) * p                              (AdamW)
        g = g + weight_decay * p                                     (Adam, if weight_decay)
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * (g * g)
        w = max(w, v)   if amsgrad else   w = v
        p = p - SIZE * (m / (sqrt(w) / ROOT + eps))

    >>> import torch
    >>> p = torch.nn.Parameter(torch.tensor([1.0]))
    >>> p.grad = torch.tensor([3.0])
    >>> Adam([p], lr=0.5).step()
    >>> p.item()
    0.5
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        decoupled_weight_decay: bool = False,
        **ways: Any,
    ) -> None:
        self._check_ways(ways)
        if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
            self._refuse(f"betas={betas!r}", "must be two numbers in [0, 1)")
        defaults = {
            "lr": lr,
            "betas": tuple(betas),
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def _prepare(self, group: dict[str, Any], state: dict[str, Any], like: Tensor) -> tuple[Any, list[Tensor]]:
        names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")[: 3 if group["amsgrad"] else 2]
        for name in names:
            if name not in state:
                state[name] = torch.zeros_like(like)
        state["step"] = steps = int(state.get("step", 0)) + 1
        return tuple(_power(beta, steps) for beta in group["betas"]), [state[name] for name in names]

    def _sequence(self, group: dict[str, Any], scalars: Any, params: Any, gradients: Any, *buffers: Any) -> None:
        lr, (beta1, beta2) = float(group["lr"]), group["betas"]
        means, squares, *largest = buffers
        if group["decoupled_weight_decay"]:
            _torch._foreach_mul_(params, 1.0 - lr * group["weight_decay"])
        elif group["weight_decay"]:
            gradients = _plus(gradients, params, group["weight_decay"])
        _torch._foreach_mul_(means, beta1)
        _torch._foreach_add_(means, _torch._foreach_mul(gradients, 1.0 - beta1))
        spare = _torch._foreach_mul(gradients, gradients)
        _torch._foreach_mul_(spare, 1.0 - beta2)
        _torch._foreach_mul_(squares, beta2)
        _torch._foreach_add_(squares, spare)
        for kept in largest:
            _torch._foreach_maximum_(kept, squares)
            squares = kept
        roots = [_root(square) for square in squares]
        _torch._foreach_div_(roots, math.sqrt(1.0 - scalars[1]))
        _torch._foreach_add_(roots, group["eps"])
        steps = _torch._foreach_div(means, roots)
        _torch._foreach_mul_(steps, lr / (1.0 - scalars[0]))
        _torch._foreach_sub_(params, steps)


class AdamW(Adam):
    """``torch.optim.AdamW``: :class:`Adam` whose weight decay does not pass through the moments.

    >>> import torch
    >>> p = torch.nn.Parameter(torch.tensor([2.0]))
    >>> p.grad = torch.tensor([0.0])
    >>> AdamW([p], lr=0.5, weight_decay=0.5).step()
    >>> p.item()
    1.5
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        **ways: Any,
    ) -> None:
        ways = {"maximize": maximize, "decoupled_weight_decay": True, **ways}
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, **ways)
