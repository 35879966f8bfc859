"""What all poolings of the bridge share: running a record on tensors, and the derivative rules.

Each pooling is a family of operators: the value and, where derivatives depend on x, ``…_tangent(x, t)`` and
``…_cotangent(x, g)``, the pushforward and pullback of the record at ``x``. They are each other's transposes, and how
they change with x is what the record's declaration says, so the family is closed under differentiation. The pullback of
a linear operator depends on the input's shape alone. Inputs without a derivative, such as the indices of an unpooling,
follow ``x``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import _SingleLevelFunction

from halfulp.dispatch import indices as dispatch_indices
from halfulp.errors import HalfulpError
from halfulp.records import Declaration, Operator
from halfulp.torch._arguments import hashable
from halfulp.torch._calculus import TorchArithmetic
from halfulp.torch._errors import TorchShapeError, as_torch_error
from halfulp.torch._fit import fitted
from halfulp.torch._library import Context, define, to_front
from halfulp.torch._tensors import as_array, direct, empty, in_format, in_format_of, memory_format

RecordOf = Callable[..., Operator]


class Pooling:
    """A family of registered operators; the schema's parameters are those that build the record."""

    depends_on_input = True
    """Whether the derivative does."""

    def __init__(self, declaration: Declaration, schema: str, record: RecordOf, suffix: str = "") -> None:
        self.name = declaration.name + suffix
        self.curvature = declaration.curvature
        self.record = record
        self.count = declaration.arity
        self.schema = f", {schema}" if schema else ""
        self.inputs = ", ".join(f"Tensor {name}" for name in declaration.inputs)
        self.value = define(
            self.name,
            f"({self.inputs}{self.schema}) -> Tensor",
            cpu=self._value_cpu,
            fake=self._value_fake,
            backward=lambda context, g: self._alone(self._pull(context, g)),
            jvp=lambda context, t, *_: self._push(context, t),
            vmap=self._vmap("value", self.count),
            tensors=self.count,
        )

    def apply(self, points: tuple[Tensor, ...], *parameters: Any) -> Tensor:
        """The value, by the shortest way that the tensors allow."""
        if not direct(*points):
            output: Tensor = self.value(*points, *parameters)
            return output
        x = points[0]
        try:
            if x.requires_grad and torch.is_grad_enabled():
                differentiable: Tensor = EagerPooling.apply(x, self, parameters, points[1:])
                return differentiable
            record = fitted(self.record(*parameters), x.shape)
            return in_format_of(x, record(*self._arrays(points)))
        except HalfulpError as error:
            raise as_torch_error(error) from None

    def pullback_of(self, points: Sequence[Any], shape: Any, g: Tensor, parameters: tuple[Any, ...]) -> Tensor:
        """The input's cotangent, as a registered operator computes it."""
        raise AssertionError("every kind of pooling has its own")

    def record_for(self, x: Tensor, parameters: tuple[Any, ...]) -> Operator:
        """The record that these parameters mean for a tensor of this shape."""
        return fitted(self.record(*map(hashable, parameters)), x.shape)

    def _arrays(self, tensors: Sequence[Tensor]) -> list[Any]:
        return [as_array(self.name, tensor) for tensor in tensors]

    def _split(self, arguments: tuple[Any, ...], more: int = 0) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """(tensors, parameters) of an operator's arguments; ``more`` tensors follow the inputs."""
        return arguments[: self.count + more], arguments[self.count + more :]

    def _alone(self, first: Any) -> tuple[Any, ...]:
        """Cotangents of the inputs, of which only the first has one."""
        return first, *(None,) * (self.count - 1)

    def _value_cpu(self, *arguments: Any) -> Tensor:
        points, parameters = self._split(arguments)
        return in_format_of(points[0], self.record_for(points[0], parameters)(*self._arrays(points)))

    def _value_fake(self, *arguments: Any) -> Tensor:
        points, parameters = self._split(arguments)
        shapes = (tuple(point.shape) for point in points)
        record = self.record_for(points[0], parameters)
        name = getattr(record, "dtype", None)
        dtype = None if name is None or name == "same" else getattr(torch, name)
        return empty(points[0], record.output_shape(*shapes), dtype)

    def _vmap(self, which: str, count: int) -> Callable[..., tuple[Any, Any]]:
        """Leading axes are free, so a mapped axis is one more of them."""

        def rule(info: Any, axes: Any, *arguments: Any) -> tuple[Any, Any]:
            tensors = (to_front(t, a, info.batch_size) for t, a in zip(arguments[:count], axes[:count], strict=True))
            results = getattr(self, which)(*tensors, *arguments[count:])
            return results, (0, 0) if isinstance(results, tuple) else 0

        return rule

    def _push(self, context: Context, t: Tensor) -> Tensor:
        raise AssertionError("every kind of pooling has its own")

    def _pull(self, context: Context, g: Tensor) -> Tensor:
        return self.pullback_of(context.tensors, context.tensors[0].shape, g, context.parameters)


_base: Any = _SingleLevelFunction  # `direct` has seen to it that there is one level


class EagerPooling(_base):  # type: ignore[misc]
    """The direct way with a gradient: keeps the record's own pullback, which remembers winners in one byte each."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, family: Pooling, parameters: tuple[Any, ...], more: tuple[Tensor, ...]) -> Tensor:
        record = fitted(family.record(*parameters), x.shape)
        ctx.family, ctx.parameters, ctx.more = family, parameters, more
        ctx.shape, ctx.format = x.shape, memory_format(x)
        if family.depends_on_input:
            ctx.save_for_backward(x)
        output, ctx.pullback = record.vjp(*family._arrays((x, *more)))
        return in_format(ctx.format, x.dim(), output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        family, saved = ctx.family, ctx.saved_tensors  # reading them tells whether the input was changed in place
        # `is_grads_batched` maps over cotangents without a transform that `direct` could see.
        batched = torch._C._functorch.is_legacy_batchedtensor(g)
        if direct(g) and not batched and not torch.is_grad_enabled():
            pulled = in_format(ctx.format, len(ctx.shape), ctx.pullback(as_array(family.name, g))[0])
        else:
            pulled = family.pullback_of((saved[0] if saved else None, *ctx.more), ctx.shape, g, ctx.parameters)
        return pulled, None, None, None


class LinearPooling(Pooling):
    """An average or a sum: the pullback takes the cotangent and the input's shape."""

    depends_on_input = False

    def __init__(self, declaration: Declaration, schema: str, record: RecordOf) -> None:
        super().__init__(declaration, schema, record)
        self.cotangent = define(
            f"{self.name}_cotangent",
            f"(Tensor cotangent, SymInt[] input_size{self.schema}) -> Tensor",
            cpu=self._cotangent_cpu,
            fake=lambda g, shape, *_: empty(g, shape),
            backward=lambda context, u: (self.value(u, *context.parameters[1:]),),
            jvp=lambda context, dg: self.cotangent(dg, *context.parameters),
            vmap=self._cotangent_vmap,
        )

    def pullback_of(self, points: Sequence[Any], shape: Any, g: Tensor, parameters: tuple[Any, ...]) -> Tensor:
        cotangent: Tensor = self.cotangent(g, shape, *parameters)
        return cotangent

    def _push(self, context: Context, t: Tensor) -> Tensor:
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


class CurvedPooling(Pooling):
    """An operator whose derivative depends on ``x``: a maximum, a smooth maximum, a norm."""

    def __init__(self, declaration: Declaration, schema: str, record: RecordOf, suffix: str = "") -> None:
        super().__init__(declaration, schema, record, suffix)
        self._define_derivatives()
        if declaration.indices:
            self.indices = define(
                f"{self.name}_with_indices",
                f"({self.inputs}{self.schema}) -> (Tensor, Tensor)",
                cpu=self._indices_cpu,
                fake=self._indices_fake,
                backward=lambda context, g: self._alone(self._pull(context, g)),
                jvp=lambda context, t, *_: (self._push(context, t), None),
                vmap=self._vmap("indices", self.count),
                tensors=self.count,
            )

    def _define_derivatives(self) -> None:
        self.tangent = define(
            f"{self.name}_tangent",
            f"({self.inputs}, Tensor tangent{self.schema}) -> Tensor",
            cpu=self._tangent_cpu,
            fake=lambda *arguments: self._value_fake(*arguments[: self.count], *arguments[self.count + 1 :]),
            backward=self._tangent_backward,
            jvp=self._tangent_jvp,
            vmap=self._vmap("tangent", self.count + 1),
            tensors=self.count + 1,
        )
        self.cotangent = define(
            f"{self.name}_cotangent",
            f"({self.inputs}, Tensor cotangent{self.schema}) -> Tensor",
            cpu=self._cotangent_cpu,
            fake=lambda x, *_: empty(x, x.shape),
            backward=self._cotangent_backward,
            jvp=self._cotangent_jvp,
            vmap=self._vmap("cotangent", self.count + 1),
            tensors=self.count + 1,
        )

    def apply_with_indices(self, points: tuple[Tensor, ...], *parameters: Any) -> tuple[Tensor, Tensor]:
        """The value and the flat index of every winner."""
        if not direct(*points) or (points[0].requires_grad and torch.is_grad_enabled()):
            both: tuple[Tensor, Tensor] = self.indices(*points, *parameters)
            return both
        try:
            return self._indices_cpu(*points, *parameters)
        except HalfulpError as error:
            raise as_torch_error(error) from None

    def pullback_of(self, points: Sequence[Any], shape: Any, g: Tensor, parameters: tuple[Any, ...]) -> Tensor:
        cotangent: Tensor = self.cotangent(*points, g, *parameters)
        return cotangent

    def _push(self, context: Context, t: Tensor) -> Tensor:
        tangent: Tensor = self.tangent(*context.tensors, t, *context.parameters)
        return tangent

    def _tangent_cpu(self, *arguments: Any) -> Tensor:
        (*points, t), parameters = self._split(arguments, 1)
        record = self.record_for(points[0], parameters)
        directions = (as_array(self.name, t), *(None,) * (self.count - 1))
        return in_format_of(points[0], record.jvp(self._arrays(points), directions)[1])

    def _cotangent_cpu(self, *arguments: Any) -> Tensor:
        (*points, g), parameters = self._split(arguments, 1)
        _, pullback = self.record_for(points[0], parameters).vjp(*self._arrays(points))
        return in_format_of(points[0], pullback(as_array(self.name, g))[0])

    # The second derivative is symmetric: what <u, tangent(x, t)> hands back to x is the change of cotangent(x, u).

    def _bent(self, context: Context, points: Sequence[Tensor], g: Tensor, moved: Tensor) -> Tensor | None:
        calculus = PoolingCalculus(self, context.parameters)
        moving = (moved, *(None,) * (self.count - 1))
        terms = self.curvature.cotangent(calculus, points, g, moving, 0)
        return reduce(add, terms) if terms else None

    def _tangent_backward(self, context: Context, u: Tensor) -> tuple[Any, ...]:
        *points, t = context.tensors
        return *self._bending(context, points, u, t), self.cotangent(*points, u, *context.parameters)

    def _cotangent_backward(self, context: Context, u: Tensor) -> tuple[Any, ...]:
        *points, g = context.tensors
        return *self._bending(context, points, g, u), self.tangent(*points, u, *context.parameters)

    def _bending(self, context: Context, points: Sequence[Tensor], g: Tensor, moved: Tensor) -> tuple[Any, ...]:
        if not context.needs[0]:
            return self._alone(None)
        bent = self._bent(context, points, g, moved)
        return self._alone(torch.zeros_like(points[0]) if bent is None else bent)

    def _tangent_jvp(self, context: Context, dx: Tensor | None, *more: Any) -> Tensor:
        *points, t = context.tensors
        dt = torch.zeros_like(t) if more[-1] is None else more[-1]
        pushed: Tensor = self.tangent(*points, dt, *context.parameters)
        if dx is None:
            return pushed
        calculus = PoolingCalculus(self, context.parameters)
        nothing = (None,) * (self.count - 1)
        return reduce(add, self.curvature.tangent(calculus, points, (t, *nothing), (dx, *nothing)), pushed)

    def _cotangent_jvp(self, context: Context, dx: Tensor | None, *more: Any) -> Tensor:
        *points, g = context.tensors
        dg = torch.zeros_like(g) if more[-1] is None else more[-1]
        pulled: Tensor = self.cotangent(*points, dg, *context.parameters)
        bent = None if dx is None else self._bent(context, points, g, dx)
        return pulled if bent is None else pulled + bent

    def _indices_cpu(self, *arguments: Any) -> tuple[Tensor, Tensor]:
        points, parameters = self._split(arguments)
        x, *constants = self._arrays(points)
        output, indices = dispatch_indices(self.record_for(points[0], parameters), x, None, tuple(constants))
        return in_format_of(points[0], output), in_format_of(points[0], indices)

    def _indices_fake(self, *arguments: Any) -> tuple[Tensor, Tensor]:
        output = self._value_fake(*arguments)
        return output, torch.empty_like(output, dtype=torch.int64)


class PoolingCalculus(TorchArithmetic):
    """An operator's value, push and pull as registered operators."""

    def __init__(self, family: CurvedPooling, parameters: tuple[Any, ...]) -> None:
        self.family, self.parameters = family, parameters
        self.op = family.record(*map(hashable, parameters))

    def value(self, points: Sequence[Any]) -> Any:
        return self.family.value(*points, *self.parameters)

    def push(self, points: Sequence[Any], directions: Sequence[Any]) -> Any:
        return self.family.tangent(*points, directions[0], *self.parameters)

    def pull(self, points: Sequence[Any], g: Any, which: int) -> Any:
        return self.family.cotangent(*points, g, *self.parameters)


def check_tensor(operator: str, x: Any) -> None:
    """The input is a tensor."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{operator}: input must be a torch.Tensor, not {type(x).__name__}")


def check_rank(operator: str, x: Any, ndim: int) -> None:
    """PyTorch's own rule: (channels, …) or (batch, channels, …), and only the batch may be empty."""
    check_tensor(operator, x)
    axes = x.dim()
    if axes != ndim + 1 and axes != ndim + 2:
        raise TorchShapeError(
            operator, f"input shape={tuple(x.shape)}", f"must have {ndim + 1} or {ndim + 2} axes, as in PyTorch", "B3"
        )
    if x.numel() == 0 and 0 in x.shape[-ndim - 1 :]:
        raise TorchShapeError(
            operator, f"input shape={tuple(x.shape)}", "only the batch may be empty, as in PyTorch", "B3"
        )
