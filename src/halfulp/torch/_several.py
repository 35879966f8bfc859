"""Operators with derivatives in several inputs on tensors: matrix products, normalisations, losses.

Each is a family of three registered operators: the value, ``…_push(points, directions)``, the derivative along
directions, and ``…_pull(points, cotangent, which)``, what the output's cotangent hands back to one input. They are each
other's transposes, and how they change with the points is what the record's declaration says, so the family is closed
under differentiation. Any input but the first may be absent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import lru_cache, reduce
from operator import add
from typing import Any

import torch
import torch.nn.functional
from torch import Tensor
from torch.autograd.function import _SingleLevelFunction

from halfulp.dispatch import wanted_vjp
from halfulp.errors import HalfulpError
from halfulp.kernels import normalization
from halfulp.kernels._keeping import lent
from halfulp.records import (
    BatchNorm,
    Declaration,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    Operator,
    SoftmaxOperator,
)
from halfulp.torch._arguments import hashable
from halfulp.torch._calculus import TorchArithmetic
from halfulp.torch._errors import as_torch_error
from halfulp.torch._library import Context, define
from halfulp.torch._tensors import as_array, as_tensor, cast_to, direct, in_format_of, memory_format

_SCHEMA = {"bool": "bool", "str": "str", "int": "int", "float": "float", "int | None": "int?", "Axes": "int[]?"}
_SCHEMA |= {"Sizes": "int[]", "float | None": "float?", "MaybeSizes": "int[]?", "Factors": "float[]?"}
_SCHEMA |= {"bool | None": "bool?"}
_functional: Any = torch.nn.functional
_base: Any = _SingleLevelFunction  # `direct` has seen to it that there is one level


_AUTOCAST = {"linear": "lower", "matmul": "lower", "mse_loss": "float32", "cross_entropy": "float32"}
"""What autocast does with the operands, as in PyTorch: cast them to its own type, or to float32."""


def _cast(tensor: Any, kind: str) -> Any:
    return cast_to(tensor, torch.get_autocast_dtype("cpu") if kind == "lower" else torch.float32)


def _mixed(tensors: Sequence[Any]) -> bool:
    """Whether an input of 16 bits comes with a weight or bias of 32, as under autocast."""
    single = any(t is not None and t.dtype is torch.float32 for t in tensors[1:3])
    return single and tensors[0].dtype in (torch.bfloat16, torch.float16)


class Several:
    """The functions of one operator; a call gives the rank (None), the tensors, and the record's fields in order."""

    def __init__(self, declaration: Declaration) -> None:
        record = declaration.record
        chosen = [f for f in fields(record) if f.name not in declaration.hidden]
        self.name, self.curvature, self.count = declaration.name, declaration.curvature, declaration.arity
        self.fields = tuple(f.name for f in chosen)
        self.running = bool(declaration.through)
        self.cast = _AUTOCAST.get(declaration.name, "")
        self.normalizes = issubclass(record, (BatchNorm, GroupNorm, InstanceNorm, LayerNorm))
        self.contiguous = issubclass(record, SoftmaxOperator)  # in PyTorch these keep no other memory format
        self._makers = [_MAKERS.get(str(f.type), _as_given) for f in chosen]

        @lru_cache(maxsize=1024, typed=True)
        def made(*parameters: Any) -> Operator:
            return record(**dict(zip(self.fields, parameters, strict=True)))

        self.record: Callable[..., Any] = made
        self.schema = "".join(f", {_SCHEMA.get(str(f.type), 'float')} {f.name}" for f in chosen)
        self._define(declaration.inputs)

    def _define(self, names: Sequence[str]) -> None:
        points = ", ".join(f"Tensor{'?' if i else ''} {name}" for i, name in enumerate(names))
        directions = ", ".join(f"Tensor? d_{name}" for name in names)
        self.value = define(
            self.name,
            f"({points}{self.schema}) -> Tensor",
            cpu=self._value_cpu,
            fake=self._value_fake,
            backward=self._value_backward,
            jvp=lambda context, *t: self.push(*context.tensors, *t, *context.parameters),
            vmap=self._looped("value", self.count),
            tensors=self.count,
        )
        self.push = define(
            f"{self.name}_push",
            f"({points}, {directions}{self.schema}) -> Tensor",
            cpu=self._push_cpu,
            fake=lambda *a: self._value_fake(*a[: self.count], *a[2 * self.count :]),
            backward=self._push_backward,
            jvp=self._push_jvp,
            vmap=self._looped("push", 2 * self.count),
            tensors=2 * self.count,
        )
        self.pull = define(
            f"{self.name}_pull",
            f"({points}, Tensor cotangent, int which{self.schema}) -> Tensor",
            cpu=self._pull_cpu,
            fake=lambda *a: torch.empty_like(a[a[self.count + 1]], memory_format=torch.contiguous_format),
            backward=self._pull_backward,
            jvp=self._pull_jvp,
            vmap=self._looped("pull", self.count + 1),
            tensors=self.count + 1,
        )

    def __call__(self, ndim: int | None, tensors: tuple[Any, ...], return_indices: bool, *values: Any) -> Tensor:
        """The operator on tensors."""
        parameters = tuple(make(value) for make, value in zip(self._makers, values, strict=True))
        for tensor in tensors[:1]:
            if not isinstance(tensor, Tensor):
                raise TypeError(f"{self.name}: input must be a torch.Tensor, not {type(tensor).__name__}")
        if self.normalizes and _mixed(tensors):
            wide = tuple(None if t is None else t.float() for t in tensors[:3])
            output: Tensor = self(ndim, (*wide, *tensors[3:]), return_indices, *values).to(tensors[0].dtype)
            return output
        if self.cast and torch.is_autocast_enabled("cpu"):
            tensors = tuple(_cast(t, self.cast) for t in tensors)
        if self.contiguous:
            tensors = (tensors[0].contiguous(),)
        if self.running and values[self.fields.index("training")]:
            return self._in_training(tensors, parameters, float(values[self.fields.index("momentum")]))
        return self._apply(tensors, parameters)

    def _in_training(self, tensors: tuple[Any, ...], parameters: tuple[Any, ...], momentum: float) -> Tensor:
        """Batch norm with the statistics of the batch; running ones, where they are given, move in place."""
        _functional._verify_batch_size(tensors[0].shape)  # one cell has no variance: PyTorch's own error
        points, running = (*tensors[:3], None, None), tensors[3:]
        if direct(*tensors):  # one look at the cells for all
            return self._apply(points, parameters, running)
        output = self._apply(points, parameters)
        for squares, old in enumerate(running):
            if old is not None:
                with torch.no_grad():
                    old.copy_(moved_statistic(tensors[0].detach(), old.detach(), momentum, bool(squares)))
        return output

    def _apply(self, tensors: tuple[Any, ...], parameters: tuple[Any, ...], running: Sequence[Any] = ()) -> Tensor:
        """The value, by the shortest way that the tensors allow."""
        output: Tensor
        if not direct(*tensors):
            output = self.value(*tensors, *parameters)
            return output
        try:
            if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
                output = Eager.apply(self, parameters, running, *tensors)
                return output
            op, arrays = self._made(parameters), self._arrays(tensors)
            if all(old is None for old in running):
                return in_format_of(tensors[0], op(*arrays))
            value, moved = normalization.in_training(op, tuple(arrays), self._arrays(running))
            _move(running, moved)
            return in_format_of(tensors[0], value)
        except HalfulpError as error:
            raise as_torch_error(error) from None

    def _made(self, parameters: Sequence[Any]) -> Any:
        return self.record(*map(hashable, parameters))

    def _arrays(self, tensors: Sequence[Any]) -> list[Any]:
        return [None if tensor is None else as_array(self.name, tensor) for tensor in tensors]

    # Kernels

    def _value_cpu(self, *arguments: Any) -> Tensor:
        points, parameters = arguments[: self.count], arguments[self.count :]
        return in_format_of(points[0], self._made(parameters)(*self._arrays(points)))

    def _value_fake(self, *arguments: Any) -> Tensor:
        points, parameters = arguments[: self.count], arguments[self.count :]
        shapes = (None if point is None else tuple(point.shape) for point in points)
        x, shape = points[0], self._made(parameters).output_shape(*shapes)
        wanted = memory_format(x) if len(shape) == x.dim() else torch.contiguous_format
        return torch.empty(tuple(shape), dtype=x.dtype, device=x.device, memory_format=wanted)

    def _push_cpu(self, *arguments: Any) -> Tensor:
        points, directions = arguments[: self.count], arguments[self.count : 2 * self.count]
        op = self._made(arguments[2 * self.count :])
        return in_format_of(points[0], op.jvp(tuple(self._arrays(points)), tuple(self._arrays(directions)))[1])

    def _pull_cpu(self, *arguments: Any) -> Tensor:
        *points, g, which = arguments[: self.count + 2]
        op = self._made(arguments[self.count + 2 :])
        wanted = tuple(i == which for i in range(self.count))
        pulled = wanted_vjp(op, tuple(self._arrays(points)), wanted)[1](as_array(self.name, g))[which]
        return in_format_of(points[which], pulled).contiguous()

    # Derivative rules

    def _pulled(self, context: Context, points: Sequence[Any], g: Tensor, needs: Sequence[bool]) -> list[Any]:
        return [
            self.pull(*points, g, i, *context.parameters[-len(self.fields) :] if self.fields else ()) if need else None
            for i, need in enumerate(needs)
        ]

    def _calculus(self, context: Context) -> SeveralCalculus:
        return SeveralCalculus(self, context.parameters[len(context.parameters) - len(self.fields) :])

    def _bent(self, context: Context, points: Sequence[Any], g: Any, moved: Sequence[Any], which: int) -> Any:
        terms = self.curvature.cotangent(self._calculus(context), points, g, moved, which)
        return reduce(add, terms) if terms else None

    def _value_backward(self, context: Context, g: Tensor) -> tuple[Any, ...]:
        return tuple(self._pulled(context, context.tensors, g, context.needs))

    def _push_backward(self, context: Context, u: Tensor) -> tuple[Any, ...]:
        points, directions = context.tensors[: self.count], context.tensors[self.count :]
        moving, turning = context.needs[: self.count], context.needs[self.count :]
        bent = [self._bent(context, points, u, directions, i) if need else None for i, need in enumerate(moving)]
        return *bent, *self._pulled(context, points, u, turning)

    def _push_jvp(self, context: Context, *tangents: Any) -> Any:
        points, directions = context.tensors[: self.count], context.tensors[self.count :]
        moved, turned = tangents[: self.count], tangents[self.count :]
        terms = self.curvature.tangent(self._calculus(context), points, directions, moved)
        if any(t is not None for t in turned) or not terms:
            terms = [self.push(*points, *turned, *context.parameters), *terms]
        return reduce(add, terms)

    def _pull_backward(self, context: Context, u: Tensor) -> tuple[Any, ...]:
        *points, g = context.tensors
        which, *parameters = context.parameters
        along = [u if i == which else None for i in range(self.count)]
        bent = [self._bent(context, points, g, along, i) if need else None for i, need in enumerate(context.needs[:-1])]
        return *bent, self.push(*points, *along, *parameters) if context.needs[-1] else None

    def _pull_jvp(self, context: Context, *tangents: Any) -> Any:
        (*points, g), (*moved, dg) = context.tensors, tangents
        which = context.parameters[0]
        bent = self._bent(context, points, g, moved, which)
        if dg is None:
            return torch.zeros_like(points[which]) if bent is None else bent
        pulled = self.pull(*points, dg, *context.parameters)
        return pulled if bent is None else pulled + bent

    def _looped(self, which: str, count: int) -> Callable[..., tuple[Any, Any]]:
        """The batching rule: one call for each element, so that every one has the bits of a call of its own."""

        def rule(info: Any, axes: Any, *arguments: Any) -> tuple[Any, Any]:
            results = []
            for i in range(info.batch_size):
                pairs = zip(arguments[:count], axes[:count], strict=True)
                own = [t if t is None or axis is None else t.select(axis, i) for t, axis in pairs]
                results.append(getattr(self, which)(*own, *arguments[count:]))
            return torch.stack(results), 0

        return rule


def _moved_cpu(x: Tensor, old: Tensor, momentum: float, squares: bool) -> Tensor:
    op = BatchNorm(True, momentum=momentum)
    cells, before = as_array("batch_norm", x), as_array("batch_norm", old)
    return in_format_of(old, normalization.moved_statistic(op, cells, before, squares)).to(old.dtype)


def _refuse_vmap(info: Any, axes: Any, *arguments: Any) -> Any:
    raise RuntimeError("batch_norm: running statistics cannot be mapped over; give none, or use evaluation")


moved_statistic: Any = define(
    "batch_norm_statistic",
    "(Tensor input, Tensor old, float momentum, bool squares) -> Tensor",
    cpu=_moved_cpu,
    fake=lambda x, old, *_: torch.empty_like(old),
    backward=lambda context, g: (None, None),
    jvp=lambda context, *_: torch.zeros_like(context.tensors[1]),
    vmap=_refuse_vmap,
    tensors=2,
)


def _move(running: Sequence[Any], moved: Sequence[Any]) -> None:
    """Running statistics get their new values."""
    for old, new in zip(running, moved, strict=True):
        if old is not None:
            old.detach().copy_(as_tensor(new))


class Eager(_base):  # type: ignore[misc]
    """The direct way with a gradient: keeps the record's own pullback; running statistics of a batch norm move."""

    @staticmethod
    def forward(ctx: Any, family: Several, parameters: tuple[Any, ...], running: Any, *points: Any) -> Tensor:
        ctx.family, ctx.parameters = family, parameters
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*points)
        wanted = tuple(ctx.needs_input_grad[3:])
        op, arrays = family._made(parameters), tuple(family._arrays(points))
        with lent():  # PyTorch tells in the backward pass whether they were changed in place
            if all(old is None for old in running):
                output, ctx.pullback = wanted_vjp(op, arrays, wanted)
            else:
                told = normalization.vjp_in_training(op, arrays, family._arrays(running), wanted)
                output, ctx.pullback, moved = told
                _move(running, moved)
        return in_format_of(points[0], output)

    @staticmethod
    def backward(ctx: Any, g: Tensor | None) -> Any:
        family, points = ctx.family, ctx.saved_tensors  # reading them tells whether an input was changed in place
        if g is None:
            return (None,) * (3 + family.count)
        batched = torch._C._functorch.is_legacy_batchedtensor(g)
        if direct(g) and not batched and not torch.is_grad_enabled():
            found = ctx.pullback(as_array(family.name, g))
            pairs = zip(points, found, strict=True)
            return None, None, None, *(None if c is None else in_format_of(point, c) for point, c in pairs)
        context = Context(points, ctx.parameters, ctx.needs_input_grad[3:])
        return None, None, None, *family._value_backward(context, g)


class SeveralCalculus(TorchArithmetic):
    """An operator's value, push and pull as registered operators."""

    def __init__(self, family: Several, parameters: Sequence[Any]) -> None:
        self.family, self.parameters = family, parameters
        self.op = family._made(parameters)

    def _filled(self, values: Sequence[Any]) -> list[Any]:
        return [*values, *(None,) * (self.family.count - len(values))]

    def value(self, points: Sequence[Any]) -> Any:
        return self.family.value(*self._filled(points), *self.parameters)

    def push(self, points: Sequence[Any], directions: Sequence[Any]) -> Any:
        return self.family.push(*self._filled(points), *self._filled(directions), *self.parameters)

    def pull(self, points: Sequence[Any], g: Any, which: int) -> Any:
        return self.family.pull(*self._filled(points), g, which, *self.parameters)


def _as_given(value: Any) -> Any:
    return value


def _axes(value: Any) -> Any:
    """Axes or sizes as a list of integers, None for all."""
    if value is None:
        return None
    return tuple(int(v) for v in value) if hasattr(value, "__len__") else (int(value),)


def _factors(value: Any) -> Any:
    """Numbers as a list of floats, None for none."""
    if value is None:
        return None
    return tuple(float(v) for v in value) if hasattr(value, "__len__") else (float(value),)


_MAKERS = {"Axes": _axes, "Sizes": _axes, "MaybeSizes": _axes, "Factors": _factors}
