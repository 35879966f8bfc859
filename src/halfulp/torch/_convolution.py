"""What convolution and its transpose share on tensors: the operators of a bilinear map and their derivative rules.

``value(x, w, b)``, its pushforward ``tangent(x, w, dx, dw, db)`` (one rounding for the whole sum), and its pullbacks
``input_cotangent(g, w)``, ``weight_cotangent(g, x)`` and ``channel_sum(g)`` are closed under differentiation: each rule
below is one of the others. Registered operators always have a batch axis.
"""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import _SingleLevelFunction

from halfulp.errors import HalfulpError
from halfulp.kernels._convolution import Call, call_for
from halfulp.records import Conv, Operator, declaration_of
from halfulp.torch._arguments import hashable
from halfulp.torch._errors import as_torch_error
from halfulp.torch._library import Context, define, to_front
from halfulp.torch._tensors import as_array, as_tensor, direct, empty, in_format_of

_SCHEMA = {"groups": "int", "precision": "str"}
_FLOATS = frozenset((torch.float16, torch.bfloat16, torch.float32, torch.float64))
_base: Any = _SingleLevelFunction  # `direct` has seen to it that there is one level


class Convolution:
    """A family of registered operators for one direction. Their parameters are the record's fields after the rank.

    ``sided``: the padding is a flat list (before, after, before, after, …), one pair per axis.
    """

    def __init__(self, record: type[Operator]) -> None:
        name = self.name = declaration_of(record).name
        self.fields = [f.name for f in fields(record)][1:]
        self.groups_at = self.fields.index("groups")
        self.sided = sided = "output_padding" not in self.fields
        schema = ", ".join(f"{_SCHEMA.get(field, 'int[]')} {field}" for field in self.fields)

        @lru_cache(maxsize=1024, typed=True)
        def made(stride: Any, padding: Any, *more: Any) -> Any:
            sides = tuple(zip(padding[::2], padding[1::2], strict=True)) if sided else padding
            return record(len(stride), stride, sides, *more)  # type: ignore[call-arg]  # of a convolution

        self._record = made
        self._call = lru_cache(maxsize=1024)(self._new_call)
        self.value = define(
            name,
            f"(Tensor input, Tensor weight, Tensor? bias, {schema}) -> Tensor",
            cpu=self._value_cpu,
            fake=self._value_fake,
            backward=self._value_backward,
            jvp=self._value_jvp,
            vmap=self._value_vmap,
            tensors=3,
        )
        self.tangent = define(
            f"{name}_tangent",
            f"(Tensor input, Tensor weight, Tensor? d_input, Tensor? d_weight, Tensor? d_bias, {schema}) -> Tensor",
            cpu=self._tangent_cpu,
            fake=lambda x, w, dx, dw, db, *parameters: self._value_fake(x, w, db, *parameters),
            backward=self._tangent_backward,
            jvp=self._tangent_jvp,
            vmap=self._tangent_vmap,
            tensors=5,
        )
        self.input_cotangent = define(
            f"{name}_input_cotangent",
            f"(Tensor cotangent, Tensor weight, SymInt[] input_size, {schema}) -> Tensor",
            cpu=self._input_cpu,
            fake=lambda g, w, size, *_: empty(g, size),
            backward=self._input_backward,
            jvp=self._input_jvp,
            vmap=self._input_vmap,
            tensors=2,
        )
        self.weight_cotangent = define(
            f"{name}_weight_cotangent",
            f"(Tensor cotangent, Tensor input, SymInt[] weight_size, {schema}) -> Tensor",
            cpu=self._weight_cpu,
            fake=lambda g, x, size, *_: torch.empty(tuple(size), dtype=g.dtype, device=g.device),
            backward=self._weight_backward,
            jvp=self._weight_jvp,
            vmap=self._weight_vmap,
            tensors=2,
        )

    def record(self, parameters: tuple[Any, ...]) -> Any:
        """The record that these parameters mean."""
        return self._record(*parameters)

    def apply(self, x: Tensor, w: Tensor, b: Tensor | None, *parameters: Any) -> Tensor:
        """The value, by the shortest way that the tensors allow."""
        if not direct(x, w, b):
            return self._dispatched(x, w, b, parameters)
        try:
            if torch.is_grad_enabled() and (x.requires_grad or w.requires_grad or (b is not None and b.requires_grad)):
                differentiable: Tensor = EagerConvolution.apply(self, parameters, x, w, b)
                return differentiable
            return self._direct(x, w, b, parameters)
        except HalfulpError as error:
            raise as_torch_error(error) from None

    def _dispatched(self, x: Tensor, w: Tensor, b: Tensor | None, parameters: tuple[Any, ...]) -> Tensor:
        output: Tensor = self.value(x, w, b, *parameters)
        return output

    # Kernels

    def _array(self, tensor: Tensor | None) -> Any:
        return None if tensor is None else as_array(self.name, tensor)

    def _value_cpu(self, x: Tensor, w: Tensor, b: Tensor | None, *parameters: Any) -> Tensor:
        return self._direct(x, w, b, tuple(map(hashable, parameters)))

    def _direct(self, x: Tensor, w: Tensor, b: Tensor | None, parameters: tuple[Any, ...]) -> Tensor:
        arrays = self._array(x), self._array(w), self._array(b)
        if x.dtype is w.dtype and x.dtype in _FLOATS and (b is None or b.dtype is x.dtype):
            call = self._call(parameters, x.shape, w.shape, None if b is None else b.shape)
            return in_format_of(x, call.value(*arrays))
        return in_format_of(x, self.record(parameters)(*arrays))  # which says what is wrong

    def _value_fake(self, x: Tensor, w: Tensor, b: Tensor | None, *parameters: Any) -> Tensor:
        record = self.record(tuple(map(hashable, parameters)))
        bias = None if b is None else tuple(b.shape)
        return empty(x, record.output_shape(tuple(x.shape), tuple(w.shape), bias))

    def _tangent_cpu(
        self, x: Tensor, w: Tensor, dx: Tensor | None, dw: Tensor | None, db: Tensor | None, *parameters: Any
    ) -> Tensor:
        record = self.record(tuple(map(hashable, parameters)))
        bias = None if db is None else np.zeros(tuple(db.shape), self._array(db).dtype)
        tangents = (self._array(dx), self._array(dw), self._array(db))
        return in_format_of(x, record.jvp((self._array(x), self._array(w), bias), tangents)[1])

    def _new_call(self, parameters: tuple[Any, ...], *shapes: Any) -> Call:
        """The convolution underneath."""
        return call_for(self.record(parameters), *(None if shape is None else tuple(shape) for shape in shapes))

    def _input_cpu(self, g: Tensor, w: Tensor, input_size: Any, *parameters: Any) -> Tensor:
        shape = tuple(input_size)
        call = self._call(tuple(map(hashable, parameters)), shape, w.shape, None)
        return in_format_of(g, call.pull_input(self._array(g), self._array(w), shape))

    def _weight_cpu(self, g: Tensor, x: Tensor, weight_size: Any, *parameters: Any) -> Tensor:
        cotangent, cells, shape = self._array(g), self._array(x), tuple(weight_size)
        weight = np.empty(shape, cells.dtype)  # the cotangent does not depend on its values
        call = self._call(tuple(map(hashable, parameters)), x.shape, shape, None)
        return as_tensor(call.pull_weight(cotangent, cells, weight)).contiguous()

    # Derivative rules

    def _value_backward(self, context: Context, g: Tensor) -> tuple[Any, ...]:
        x, w, _ = context.tensors
        parameters = context.parameters
        return (
            self.input_cotangent(g, w, x.shape, *parameters) if context.needs[0] else None,
            self.weight_cotangent(g, x, w.shape, *parameters) if context.needs[1] else None,
            channel_sum(g) if context.needs[2] else None,
        )

    def _value_jvp(self, context: Context, dx: Any, dw: Any, db: Any) -> Any:
        x, w, _ = context.tensors
        return self.tangent(x, w, dx, dw, db, *context.parameters)

    def _tangent_backward(self, context: Context, u: Tensor) -> tuple[Any, ...]:
        x, w, dx, dw, _ = context.tensors
        parameters, needs = context.parameters, context.needs
        return (
            self.input_cotangent(u, dw, x.shape, *parameters) if needs[0] and dw is not None else None,
            self.weight_cotangent(u, dx, w.shape, *parameters) if needs[1] and dx is not None else None,
            self.input_cotangent(u, w, x.shape, *parameters) if needs[2] else None,
            self.weight_cotangent(u, x, w.shape, *parameters) if needs[3] else None,
            channel_sum(u) if needs[4] else None,
        )

    def _tangent_jvp(self, context: Context, x_: Any, w_: Any, dx_: Any, dw_: Any, db_: Any) -> Any:
        x, w, dx, dw, _ = context.tensors
        parameters = context.parameters
        terms = []
        if x_ is not None and dw is not None:
            terms.append(self.value(x_, dw, None, *parameters))
        if w_ is not None and dx is not None:
            terms.append(self.value(dx, w_, None, *parameters))
        if dx_ is not None or dw_ is not None or db_ is not None or not terms:
            terms.append(self.tangent(x, w, dx_, dw_, db_, *parameters))
        return _sum(terms)

    def _input_backward(self, context: Context, u: Tensor) -> tuple[Any, ...]:
        g, w = context.tensors
        parameters = context.parameters[1:]
        return (
            self.value(u, w, None, *parameters) if context.needs[0] else None,
            self.weight_cotangent(g, u, w.shape, *parameters) if context.needs[1] else None,
        )

    def _input_jvp(self, context: Context, dg: Any, dw: Any) -> Any:
        g, w = context.tensors
        terms = [] if dg is None else [self.input_cotangent(dg, w, *context.parameters)]
        return _sum(terms if dw is None else [*terms, self.input_cotangent(g, dw, *context.parameters)])

    def _weight_backward(self, context: Context, v: Tensor) -> tuple[Any, ...]:
        g, x = context.tensors
        parameters = context.parameters[1:]
        return (
            self.value(x, v, None, *parameters) if context.needs[0] else None,
            self.input_cotangent(g, v, x.shape, *parameters) if context.needs[1] else None,
        )

    def _weight_jvp(self, context: Context, dg: Any, dx: Any) -> Any:
        g, x = context.tensors
        terms = [] if dg is None else [self.weight_cotangent(dg, x, *context.parameters)]
        return _sum(terms if dx is None else [*terms, self.weight_cotangent(g, dx, *context.parameters)])

    # Batching rules: a mapped weight makes one group (of groups) per element, anything else a larger batch.

    def _grouped(self, parameters: tuple[Any, ...], size: int) -> tuple[Any, ...]:
        at = self.groups_at
        return (*parameters[:at], parameters[at] * size, *parameters[at + 1 :])

    def _value_vmap(self, info: Any, axes: Any, x: Tensor, w: Tensor, b: Any, *parameters: Any) -> Any:
        size = info.batch_size
        x = to_front(x, axes[0], size)
        if axes[1] is None and axes[2] is None:
            return self.value(x.flatten(0, 1), w, b, *parameters).unflatten(0, x.shape[:2]), 0
        w, b = _rows(to_front(w, axes[1], size)), _rows(to_front(b, axes[2], size))
        return self.value(_channels(x), w, b, *self._grouped(parameters, size)).unflatten(1, (size, -1)), 1

    def _tangent_vmap(self, info: Any, axes: Any, *arguments: Any) -> Any:
        size = info.batch_size
        x, w, dx, dw, db = (to_front(t, axis, size) for t, axis in zip(arguments[:5], axes[:5], strict=True))
        folded = (_channels(x), _rows(w), _channels(dx), _rows(dw), _rows(db))
        return self.tangent(*folded, *self._grouped(arguments[5:], size)).unflatten(1, (size, -1)), 1

    def _input_vmap(self, info: Any, axes: Any, g: Tensor, w: Tensor, shape: Any, *parameters: Any) -> Any:
        size = info.batch_size
        g = to_front(g, axes[0], size)
        if axes[1] is None:
            larger = [size * shape[0], *shape[1:]]
            return self.input_cotangent(g.flatten(0, 1), w, larger, *parameters).unflatten(0, g.shape[:2]), 0
        wider = [shape[0], size * shape[1], *shape[2:]]
        w = _rows(to_front(w, axes[1], size))
        output = self.input_cotangent(_channels(g), w, wider, *self._grouped(parameters, size))
        return output.unflatten(1, (size, -1)), 1

    def _weight_vmap(self, info: Any, axes: Any, g: Tensor, x: Tensor, shape: Any, *parameters: Any) -> Any:
        size = info.batch_size
        g, x = _channels(to_front(g, axes[0], size)), _channels(to_front(x, axes[1], size))
        output = self.weight_cotangent(g, x, [size * shape[0], *shape[1:]], *self._grouped(parameters, size))
        return output.unflatten(0, (size, -1)), 0


class EagerConvolution(_base):  # type: ignore[misc]
    """The direct way with a gradient: no dispatcher between a layer and its kernels."""

    @staticmethod
    def forward(ctx: Any, family: Convolution, parameters: tuple[Any, ...], x: Tensor, w: Tensor, b: Any) -> Tensor:
        ctx.family, ctx.parameters = family, parameters
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, w)
        return family._direct(x, w, b, parameters)

    @staticmethod
    def backward(ctx: Any, g: Tensor | None) -> Any:
        if g is None:
            return (None,) * 5
        family, parameters, (x, w) = ctx.family, ctx.parameters, ctx.saved_tensors
        needs = ctx.needs_input_grad[2:]
        batched = torch._C._functorch.is_legacy_batchedtensor(g)
        if not direct(g) or batched or torch.is_grad_enabled():
            return None, None, *family._value_backward(Context((x, w, None), parameters, needs), g)
        return (
            None,
            None,
            family._input_cpu(g, w, x.shape, *parameters) if needs[0] else None,
            family._weight_cpu(g, x, w.shape, *parameters) if needs[1] else None,
            _sum_cpu(g) if needs[2] else None,
        )


def _channels(tensor: Any) -> Any:
    """(size, N, C, …) as (N, size * C, …)."""
    return None if tensor is None else tensor.movedim(0, 1).flatten(1, 2)


def _rows(tensor: Any) -> Any:
    """(size, C, …) as (size * C, …)."""
    return None if tensor is None else tensor.flatten(0, 1)


def _sum(terms: list[Any]) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _sum_cpu(g: Tensor) -> Tensor:
    call = Call(Conv(g.dim() - 2), False, (), ())
    return as_tensor(call.pull_bias(as_array("channel_sum", g)))


def _sum_vmap(info: Any, axes: Any, g: Tensor) -> Any:
    return channel_sum(_channels(to_front(g, axes[0], info.batch_size))).unflatten(0, (info.batch_size, -1)), 0


channel_sum: Any = define(
    "channel_sum",
    "(Tensor input) -> Tensor",
    cpu=_sum_cpu,
    fake=lambda g: torch.empty(g.shape[1], dtype=g.dtype, device=g.device),
    backward=lambda context, u: (u.view(1, -1, *(1,) * (context.tensors[0].dim() - 2)).expand_as(context.tensors[0]),),
    jvp=lambda context, dg: channel_sum(dg),
    vmap=_sum_vmap,
)
