"""What all poolings of the bridge share: running a record on tensors, and the three kinds of derivative rules.

Each pooling is a family of operators: the value and, where derivatives depend on x, ``…_tangent(x, t)`` and
``…_cotangent(x, g)``, the pushforward and pullback of the record at ``x``. They are each other's transposes, so the
family is closed under differentiation:

- an average is linear: its pushforward is the average itself, its pullback depends on the input's shape alone;
- a hard max selects: what it selects does not change with a small change of ``x``, so second derivatives are 0;
- a smooth max has weights p with dp = beta * p * (dx - sum(p * dx)).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import _SingleLevelFunction

from halfulp.dispatch import indices as dispatch_indices
from halfulp.errors import HalfulpError
from halfulp.numbers import factors
from halfulp.records import Operator
from halfulp.torch._arguments import hashable
from halfulp.torch._errors import TorchShapeError, as_torch_error
from halfulp.torch._fit import fitted
from halfulp.torch._library import Context, define, to_front
from halfulp.torch._tensors import as_array, direct, empty, in_format, in_format_of, memory_format

RecordOf = Callable[..., Operator]


class Pooling:
    """A family of registered operators; the schema's parameters are those that build the record."""

    def __init__(self, name: str, schema: str, record: RecordOf) -> None:
        self.name = name
        self.schema = schema
        self.record = record
        self.value = define(
            name,
            f"(Tensor input, {schema}) -> Tensor",
            cpu=self._value_cpu,
            fake=self._value_fake,
            backward=lambda context, g: (self._pull(context, g),),
            jvp=self._value_jvp,
            vmap=self._value_vmap,
        )

    def apply(self, x: Tensor, *parameters: Any) -> Tensor:
        """The value, by the shortest way that the tensor allows."""
        if not direct(x):
            output: Tensor = self.value(x, *parameters)
            return output
        try:
            if x.requires_grad and torch.is_grad_enabled():
                differentiable: Tensor = EagerPooling.apply(x, self, parameters)
                return differentiable
            record = fitted(self.record(*parameters), x.shape)
            return in_format_of(x, record(as_array(self.name, x)))
        except HalfulpError as error:
            raise as_torch_error(error) from None

    depends_on_input = True
    """Whether the derivative does."""

    def pullback_of(self, x: Any, shape: Any, g: Tensor, parameters: tuple[Any, ...]) -> Tensor:
        """The input's cotangent, as a registered operator computes it."""
        raise AssertionError("every kind of pooling has its own")

    def record_for(self, x: Tensor, parameters: tuple[Any, ...]) -> Operator:
        """The record that these parameters mean for a tensor of this shape."""
        return fitted(self.record(*map(hashable, parameters)), x.shape)

    def _value_cpu(self, x: Tensor, *parameters: Any) -> Tensor:
        record = self.record_for(x, parameters)
        return in_format_of(x, record(as_array(self.name, x)))

    def _value_fake(self, x: Tensor, *parameters: Any) -> Tensor:
        return empty(x, self.record_for(x, parameters).output_shape(tuple(x.shape)))

    def _value_vmap(self, info: Any, axes: Any, x: Tensor, *parameters: Any) -> tuple[Tensor, int]:
        return self.value(to_front(x, axes[0], info.batch_size), *parameters), 0

    def _value_jvp(self, context: Context, t: Tensor) -> Tensor:
        raise AssertionError("every kind of pooling has its own")

    def _pull(self, context: Context, g: Tensor) -> Tensor:
        x = context.tensors[0]
        return self.pullback_of(x, x.shape, g, context.parameters)


_base: Any = _SingleLevelFunction  # `direct` has seen to it that there is one level


class EagerPooling(_base):  # type: ignore[misc]
    """The direct way with a gradient: keeps the record's own pullback, which remembers winners in one byte each."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, family: Pooling, parameters: tuple[Any, ...]) -> Tensor:
        record = fitted(family.record(*parameters), x.shape)
        ctx.family, ctx.parameters = family, parameters
        ctx.shape, ctx.format = x.shape, memory_format(x)
        if family.depends_on_input:
            ctx.save_for_backward(x)
        output, ctx.pullback = record.vjp(as_array(family.name, x))
        return in_format(ctx.format, x.dim(), output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        family, saved = ctx.family, ctx.saved_tensors  # reading them tells whether the input was changed in place
        # `is_grads_batched` maps over cotangents without a transform that `direct` could see.
        batched = torch._C._functorch.is_legacy_batchedtensor(g)
        if direct(g) and not batched and not torch.is_grad_enabled():
            pulled = ctx.pullback(as_array(family.name, g))[0]
            return in_format(ctx.format, len(ctx.shape), pulled), None, None
        return family.pullback_of(saved[0] if saved else None, ctx.shape, g, ctx.parameters), None, None


class LinearPooling(Pooling):
    """An average: the pullback takes the cotangent and the input's shape."""

    def __init__(self, name: str, schema: str, record: RecordOf) -> None:
        super().__init__(name, schema, record)
        self.cotangent = define(
            f"{name}_cotangent",
            f"(Tensor cotangent, SymInt[] input_size, {schema}) -> Tensor",
            cpu=self._cotangent_cpu,
            fake=lambda g, shape, *_: empty(g, shape),
            backward=lambda context, u: (self.value(u, *context.parameters[1:]),),
            jvp=lambda context, dg: self.cotangent(dg, *context.parameters),
            vmap=self._cotangent_vmap,
        )

    depends_on_input = False

    def pullback_of(self, x: Any, shape: Any, g: Tensor, parameters: tuple[Any, ...]) -> Tensor:
        cotangent: Tensor = self.cotangent(g, shape, *parameters)
        return cotangent

    def _value_jvp(self, context: Context, t: Tensor) -> Tensor:
        tangent: Tensor = self.value(t, *context.parameters)
        return tangent

    def _cotangent_cpu(self, g: Tensor, shape: Any, *parameters: Any) -> Tensor:
        record = fitted(self.record(*map(hashable, parameters)), tuple(shape))
        cotangent = as_array(self.name, g)
        # Linear: the pullback is the same at every point, here at 0 without the memory for it.
        _, pullback = record.vjp(np.broadcast_to(np.zeros((), cotangent.dtype), tuple(shape)))
        return in_format_of(g, pullback(cotangent)[0])

    def _cotangent_vmap(self, info: Any, axes: Any, g: Tensor, shape: Any, *parameters: Any) -> tuple[Tensor, int]:
        size = info.batch_size
        return self.cotangent(to_front(g, axes[0], size), [size, *shape], *parameters), 0


class SelectingPooling(Pooling):
    """A hard max, with its pushforward and pullback at ``x`` and the form that also returns indices."""

    def __init__(self, name: str, schema: str, record: RecordOf, with_indices: bool = True) -> None:
        super().__init__(name, schema, record)
        self._define_derivatives()
        if with_indices:
            self.indices = define(
                f"{name}_with_indices",
                f"(Tensor input, {schema}) -> (Tensor, Tensor)",
                cpu=self._indices_cpu,
                fake=self._indices_fake,
                backward=lambda context, g: (self._pull(context, g),),
                jvp=lambda context, t: (self.tangent(context.tensors[0], t, *context.parameters), None),
                vmap=self._indices_vmap,
            )

    def _define_derivatives(self) -> None:
        self.tangent = define(
            f"{self.name}_tangent",
            f"(Tensor input, Tensor tangent, {self.schema}) -> Tensor",
            cpu=self._tangent_cpu,
            fake=lambda x, t, *parameters: self._value_fake(x, *parameters),
            backward=self._tangent_backward,
            jvp=self._tangent_jvp,
            vmap=self._pair_vmap("tangent"),
            tensors=2,
        )
        self.cotangent = define(
            f"{self.name}_cotangent",
            f"(Tensor input, Tensor cotangent, {self.schema}) -> Tensor",
            cpu=self._cotangent_cpu,
            fake=lambda x, g, *_: empty(x, x.shape),
            backward=self._cotangent_backward,
            jvp=self._cotangent_jvp,
            vmap=self._pair_vmap("cotangent"),
            tensors=2,
        )

    def apply_with_indices(self, x: Tensor, *parameters: Any) -> tuple[Tensor, Tensor]:
        """The value and the flat index of every winner."""
        if not direct(x) or (x.requires_grad and torch.is_grad_enabled()):
            both: tuple[Tensor, Tensor] = self.indices(x, *parameters)
            return both
        try:
            return self._indices_cpu(x, *parameters)
        except HalfulpError as error:
            raise as_torch_error(error) from None

    def pullback_of(self, x: Any, shape: Any, g: Tensor, parameters: tuple[Any, ...]) -> Tensor:
        cotangent: Tensor = self.cotangent(x, g, *parameters)
        return cotangent

    def _value_jvp(self, context: Context, t: Tensor) -> Tensor:
        tangent: Tensor = self.tangent(context.tensors[0], t, *context.parameters)
        return tangent

    def _tangent_cpu(self, x: Tensor, t: Tensor, *parameters: Any) -> Tensor:
        record = self.record_for(x, parameters)
        return in_format_of(x, record.jvp((as_array(self.name, x),), (as_array(self.name, t),))[1])

    def _cotangent_cpu(self, x: Tensor, g: Tensor, *parameters: Any) -> Tensor:
        record = self.record_for(x, parameters)
        _, pullback = record.vjp(as_array(self.name, x))
        return in_format_of(x, pullback(as_array(self.name, g))[0])

    def _tangent_backward(self, context: Context, u: Tensor) -> tuple[Tensor | None, Tensor]:
        x, _ = context.tensors
        return _zeros(x, context.needs[0]), self.cotangent(x, u, *context.parameters)

    def _cotangent_backward(self, context: Context, u: Tensor) -> tuple[Tensor | None, Tensor]:
        x, _ = context.tensors
        return _zeros(x, context.needs[0]), self.tangent(x, u, *context.parameters)

    def _tangent_jvp(self, context: Context, dx: Tensor | None, dt: Tensor | None) -> Tensor:
        x, t = context.tensors
        pushed: Tensor = self.tangent(x, torch.zeros_like(t) if dt is None else dt, *context.parameters)
        return pushed

    def _cotangent_jvp(self, context: Context, dx: Tensor | None, dg: Tensor | None) -> Tensor:
        x, g = context.tensors
        pulled: Tensor = self.cotangent(x, torch.zeros_like(g) if dg is None else dg, *context.parameters)
        return pulled

    def _pair_vmap(self, which: str) -> Callable[..., tuple[Tensor, int]]:
        def rule(info: Any, axes: Any, x: Tensor, other: Tensor, *parameters: Any) -> tuple[Tensor, int]:
            size = info.batch_size
            operator = getattr(self, which)
            return operator(to_front(x, axes[0], size), to_front(other, axes[1], size), *parameters), 0

        return rule

    def _indices_cpu(self, x: Tensor, *parameters: Any) -> tuple[Tensor, Tensor]:
        record = self.record_for(x, parameters)
        output, indices = dispatch_indices(record, as_array(self.name, x))
        return in_format_of(x, output), in_format_of(x, indices)

    def _indices_fake(self, x: Tensor, *parameters: Any) -> tuple[Tensor, Tensor]:
        output = self._value_fake(x, *parameters)
        return output, torch.empty_like(output, dtype=torch.int64)

    def _indices_vmap(self, info: Any, axes: Any, x: Tensor, *parameters: Any) -> Any:
        return self.indices(to_front(x, axes[0], info.batch_size), *parameters), (0, 0)


class SmoothPooling(SelectingPooling):
    """A smooth max: as a hard max, but its weights move with ``x``. The second parameter is beta.

    Second derivatives are sums and products of correctly rounded first derivatives.
    """

    def __init__(self, name: str, schema: str, record: RecordOf) -> None:
        super().__init__(name, schema, record, with_indices=False)

    def _bend(self, context: Context, x: Tensor, t: Tensor, g: Tensor) -> Tensor:
        """The gradient of sum(g * tangent(x, t)) in ``x``: beta * (t * pull(g) - pull(g * push(t)))."""
        parameters = context.parameters
        pushed = self.tangent(x, t, *parameters)
        pulled = t * self.cotangent(x, g, *parameters) - self.cotangent(x, g * pushed, *parameters)
        return _times(pulled, parameters[1])

    def _tangent_backward(self, context: Context, u: Tensor) -> tuple[Tensor | None, Tensor]:
        x, t = context.tensors
        bent = self._bend(context, x, t, u) if context.needs[0] else None
        return bent, self.cotangent(x, u, *context.parameters)

    def _cotangent_backward(self, context: Context, u: Tensor) -> tuple[Tensor | None, Tensor]:
        x, g = context.tensors
        bent = self._bend(context, x, u, g) if context.needs[0] else None
        return bent, self.tangent(x, u, *context.parameters)

    def _tangent_jvp(self, context: Context, dx: Tensor | None, dt: Tensor | None) -> Tensor:
        x, t = context.tensors
        moved = super()._tangent_jvp(context, dx, dt)
        if dx is None:
            return moved
        spread = self.tangent(x, t * dx, *context.parameters)
        product = self.tangent(x, t, *context.parameters) * self.tangent(x, dx, *context.parameters)
        return moved + _times(spread - product, context.parameters[1])

    def _cotangent_jvp(self, context: Context, dx: Tensor | None, dg: Tensor | None) -> Tensor:
        x, g = context.tensors
        moved = super()._cotangent_jvp(context, dx, dg)
        return moved if dx is None else moved + self._bend(context, x, dx, g)


def _times(value: Tensor, beta: Any) -> Tensor:
    """A value times a number that may lie beyond the range of its type."""
    for factor in factors(float(beta), str(value.dtype).removeprefix("torch.")):
        value = value * factor
    return value


def check_rank(operator: str, x: Any, ndim: int) -> None:
    """PyTorch's own rule: (channels, …) or (batch, channels, …), and only the batch may be empty."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{operator}: input must be a torch.Tensor, not {type(x).__name__}")
    axes = x.dim()
    if axes != ndim + 1 and axes != ndim + 2:
        raise TorchShapeError(
            operator, f"input shape={tuple(x.shape)}", f"must have {ndim + 1} or {ndim + 2} axes, as in PyTorch", "B3"
        )
    if x.numel() == 0 and 0 in x.shape[-ndim - 1 :]:
        raise TorchShapeError(
            operator, f"input shape={tuple(x.shape)}", "only the batch may be empty, as in PyTorch", "B3"
        )


def _zeros(x: Tensor, needed: bool) -> Tensor | None:
    return torch.zeros_like(x) if needed else None
