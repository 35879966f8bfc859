"""The five primitives that every operator is made of under JAX, and how they bind.

For an operator f of inputs p (x, or x and weight and bias):

* ``forward``:   f(p)
* ``tangent``:   the derivative of f at p times tangents, linear in the tangents
* ``cotangent``: its transpose, from a cotangent g to cotangents of the inputs, linear in g
* ``spread``:    the cotangent of an operator that is itself linear, for which p does not matter
* ``indices``:   where a hard max is found

They are closed under differentiation and transposition (see ``_rules``) and under batching (see ``_batching``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import mlir

from halfulp.jax._targets import lower, refuse
from halfulp.records import Operator, declaration_of
from halfulp.records._missing import output_dtype

forward_p = Primitive("halfulp_forward")
tangent_p = Primitive("halfulp_tangent")
cotangent_p = Primitive("halfulp_cotangent")
cotangent_p.multiple_results = True
spread_p = Primitive("halfulp_spread")
indices_p = Primitive("halfulp_indices")


def is_linear(op: Operator) -> bool:
    """Whether the operator is a linear map of its one input, so that derivatives do not depend on it."""
    return declaration_of(op).curvature.constant and getattr(op, "nan", "propagate") == "propagate"


def bind(primitive: Primitive, *arguments: Any, **parameters: Any) -> Any:
    """Bind a primitive to arguments that vary over the same axes of a mesh, if they are inside of a ``shard_map``."""
    return primitive.bind(*_aligned(arguments), **parameters)


def forward(op: Operator, *inputs: Any) -> Any:
    """f(p); inputs without None."""
    return bind(forward_p, *inputs, op=op)


def tangent(op: Operator, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The tangent of the output; a tangent of None is not a term of any sum."""
    if is_linear(op):
        return forward(op, tangents[0])
    which = tuple(t is not None for t in tangents)
    given = [t for t in tangents if t is not None]
    return bind(tangent_p, *primals[: kept(op, primals)], *given, op=op, which=_full(op, which))


def cotangents(op: Operator, primals: Sequence[Any], g: Any, which: Sequence[bool]) -> list[Any]:
    """The cotangents of the inputs that ``which`` marks, None for the others."""
    which = _full(op, tuple(which))
    if is_linear(op):
        return [bind(spread_p, g, op=op, shape=tuple(primals[0].shape))]
    found = iter(bind(cotangent_p, *primals[: kept(op, primals)], g, op=op, which=which))
    return [next(found) if flag else None for flag in which]


def complete(op: Operator, inputs: Sequence[Any]) -> list[Any]:
    """The inputs as primitives take them: without absent ones at the end; an absent weight before them is made."""
    arrays = list(inputs)
    while arrays and arrays[-1] is None:
        arrays.pop()
    for i, name in enumerate(op.input_names[: len(arrays)]):
        if arrays[i] is None:  # an absent weight is one of ones
            shape = op.weight_shape(arrays[0].shape)  # type: ignore[attr-defined]  # only normalisations have one
            arrays[i] = (jnp.ones if name == "weight" else jnp.zeros)(shape, arrays[0].dtype)
    return arrays


def kept(op: Operator, primals: Sequence[Any]) -> int:
    """How many inputs a derivative gets: not the bias of a convolution, which no derivative depends on."""
    return len(primals) if op.required is not None else min(op.arity, 2)


def _full(op: Operator, which: tuple[bool, ...]) -> tuple[bool, ...]:
    return which + (False,) * (op.arity - len(which))


def _varying(value: Any) -> frozenset[Any]:
    aval = jax.typeof(value)
    kind = getattr(aval, "mat", None)
    return frozenset(kind.varying if kind is not None else getattr(aval, "vma", ()))


def _aligned(arguments: Sequence[Any]) -> Sequence[Any]:
    if len(arguments) < 2:
        return arguments
    axes = frozenset[Any]().union(*(_varying(a) for a in arguments))
    if not axes:
        return arguments
    if hasattr(jax.lax, "pcast"):
        return [jax.lax.pcast(a, tuple(axes - _varying(a)), to="varying") for a in arguments]
    pvary = getattr(jax.lax, "pvary")  # noqa: B009  # the older name, which newer versions do not have
    return [pvary(a, tuple(axes - _varying(a))) for a in arguments]


def _like(aval: Any, shape: tuple[int, ...], dtype: Any = None) -> ShapedArray:
    """An abstract array that varies over the mesh as ``aval`` does, and is not split in any axis."""
    spec = jax.sharding.PartitionSpec(*(None,) * len(shape))
    sharding = jax.sharding.NamedSharding(aval.sharding.mesh, spec)
    like: ShapedArray = aval.update(
        shape=shape, dtype=aval.dtype if dtype is None else dtype, weak_type=False, sharding=sharding
    )
    return like


def _forward_type(*avals: Any, op: Operator) -> ShapedArray:
    return _like(avals[0], op.output_shape(*(a.shape for a in avals)), output_dtype(op, avals[0].dtype))


def _tangent_type(*avals: Any, op: Operator, which: tuple[bool, ...]) -> ShapedArray:
    points = avals[: len(avals) - sum(which)]
    return _like(avals[0], op.output_shape(*(a.shape for a in points)))


def _cotangent_type(*avals: Any, op: Operator, which: tuple[bool, ...]) -> list[ShapedArray]:
    shapes = [a.shape for a in avals[:-1]]
    if op.arity == 3 and op.required is None:
        shapes.append((avals[-1].shape[-op.ndim - 1],))  # type: ignore[attr-defined]  # a convolution has a rank
    return [_like(avals[0], shape) for shape, flag in zip(shapes, which, strict=False) if flag]


def _spread_type(g: Any, *, op: Operator, shape: tuple[int, ...]) -> ShapedArray:
    return _like(g, shape)


def _indices_type(x: Any, *constants: Any, op: Operator) -> ShapedArray:
    return _like(x, op.output_shape(x.shape, *(c.shape for c in constants)), jax.dtypes.canonicalize_dtype(jnp.int64))


@lru_cache(maxsize=1024)
def _compiled(primitive: Primitive, parameters: tuple[tuple[str, Any], ...]) -> Any:
    return jax.jit(lambda *arguments: primitive.bind(*arguments, **dict(parameters)))


def _mask(which: tuple[bool, ...]) -> str:
    return "".join("1" if flag else "0" for flag in which)


def _install(primitive: Primitive, type_rule: Any, work: Any) -> None:
    """A primitive's type, its evaluation outside of jit (through jit), and its lowering on the CPU and elsewhere."""

    def run(*arguments: Any, **parameters: Any) -> Any:
        return _compiled(primitive, tuple(sorted(parameters.items())))(*arguments)

    def cpu(context: Any, *operands: Any, op: Operator, **parameters: Any) -> Any:
        return lower(context, *operands, op=op, work=work(**parameters))

    primitive.def_impl(run)
    primitive.def_abstract_eval(type_rule)
    mlir.register_lowering(primitive, refuse)
    mlir.register_lowering(primitive, cpu, platform="cpu")


_install(forward_p, _forward_type, lambda: "forward")
_install(tangent_p, _tangent_type, lambda which: f"tangent:{_mask(which)}")
_install(cotangent_p, _cotangent_type, lambda which: f"cotangent:{_mask(which)}")
_install(spread_p, _spread_type, lambda shape: "spread")
_install(indices_p, _indices_type, lambda: "indices")
