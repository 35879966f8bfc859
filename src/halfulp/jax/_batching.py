"""``vmap`` of the primitives: no loop, and the same bits as one call per element.

Pooling takes any leading axes. For convolutions a batch of images with one weight is a larger batch; a batch of weights
becomes groups of channels, which compute the very same sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jax.interpreters import batching

from halfulp.jax._primitives import bind, cotangent_p, forward_p, indices_p, spread_p, tangent_p
from halfulp.records import Operator

_IMAGE, _WEIGHT, _BIAS = "image", "weight", "bias"


def _fronted(arguments: Sequence[Any], dims: Sequence[Any]) -> tuple[int, list[Any]]:
    """The batch's size, and the arguments with their batch axis first (those without one as they are)."""
    size = next(a.shape[d] for a, d in zip(arguments, dims, strict=True) if d is not None)
    return size, [a if d is None else jnp.moveaxis(a, d, 0) for a, d in zip(arguments, dims, strict=True)]


def _all_batched(arguments: Sequence[Any], dims: Sequence[Any]) -> tuple[int, list[Any]]:
    size, fronted = _fronted(arguments, dims)
    return size, [
        jnp.broadcast_to(a[None], (size, *a.shape)) if d is None else a for a, d in zip(fronted, dims, strict=True)
    ]


def _roles(op: Any, name: str, which: Sequence[bool]) -> tuple[list[str], list[str]]:
    """What the arguments and the results of a convolution's primitive are."""
    inputs = [_IMAGE, _WEIGHT, _BIAS]
    marked = [role for role, flag in zip(inputs, which, strict=False) if flag]
    if name == forward_p.name:
        return inputs, [_IMAGE]
    if name == tangent_p.name:
        return [*inputs[:2], *marked], [_IMAGE]
    return [_IMAGE, _WEIGHT, _IMAGE], marked


def _convolution(primitive: Any, arguments: Any, dims: Any, op: Any, **parameters: Any) -> tuple[list[Any], list[int]]:
    takes, gives = _roles(op, primitive.name, parameters.get("which", ()))
    takes = takes[: len(arguments)]
    only_images = all(d is None or role == _IMAGE for d, role in zip(dims, takes, strict=True))
    if only_images and set(gives) == {_IMAGE}:
        return _as_larger_batch(primitive, arguments, dims, takes, op, **parameters)
    size, batched = _all_batched(arguments, dims)
    folded = [_into_groups(op, a, role) for a, role in zip(batched, takes, strict=True)]
    results = _listed(bind(primitive, *folded, op=replace(op, groups=op.groups * size), **parameters))
    unfolded = [_out_of_groups(op, r, role, size) for r, role in zip(results, gives, strict=True)]
    return unfolded, [0] * len(unfolded)


def _listed(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (list, tuple)) else [results]


def _as_larger_batch(
    primitive: Any, arguments: Any, dims: Any, takes: list[str], op: Any, **parameters: Any
) -> tuple[list[Any], list[int]]:
    size, fronted = _fronted(arguments, dims)
    folded = []
    for a, d, role in zip(fronted, dims, takes, strict=True):
        if role != _IMAGE:
            folded.append(a)
            continue
        full = jnp.broadcast_to(a[None], (size, *a.shape)) if d is None else a
        folded.append(full.reshape((-1, *full.shape[-op.ndim - 1 :])) if full.ndim == op.ndim + 3 else full)
    results = _listed(bind(primitive, *folded, op=op, **parameters))
    image_rank = next(a.ndim - (d is not None) for a, d, r in zip(fronted, dims, takes, strict=True) if r == _IMAGE)
    if image_rank == op.ndim + 2:
        results = [r.reshape((size, -1, *r.shape[1:])) for r in results]
    return results, [0] * len(results)


def _into_groups(op: Any, a: Any, role: str) -> Any:
    """(B, [N,] C, …) -> ([N,] B*C, …); weights (B, O, …) -> (B*O, …); biases alike."""
    if role == _IMAGE and a.ndim == op.ndim + 3:
        a = jnp.moveaxis(a, 0, 1)
        return a.reshape((a.shape[0], -1, *a.shape[3:]))
    return a.reshape((-1, *a.shape[2:]))


def _out_of_groups(op: Any, a: Any, role: str, size: int) -> Any:
    if role == _IMAGE and a.ndim == op.ndim + 2:
        return jnp.moveaxis(a.reshape((a.shape[0], size, -1, *a.shape[2:])), 1, 0)
    return a.reshape((size, -1, *a.shape[1:]))


def _one_by_one(primitive: Any, arguments: Any, dims: Any, op: Operator, **parameters: Any) -> tuple[list[Any], Any]:
    """A call for each element, so that every one has the bits of a call of its own."""
    size, fronted = _fronted(arguments, dims)
    found = []
    for i in range(size):
        own = [a if d is None else a[i] for a, d in zip(fronted, dims, strict=True)]
        found.append(_listed(bind(primitive, *own, op=op, **parameters)))
    results = [jnp.stack(parts) for parts in zip(*found, strict=True)]
    return results, [0] * len(results)


def _install(primitive: Any) -> None:
    def rule(arguments: Any, dims: Any, *, op: Operator, **parameters: Any) -> Any:
        if op.required is not None:
            results, axes = _one_by_one(primitive, arguments, dims, op, **parameters)
        elif op.arity == 3:
            results, axes = _convolution(primitive, arguments, dims, op, **parameters)
        else:
            size, batched = _all_batched(arguments, dims)
            if "shape" in parameters:
                parameters["shape"] = (size, *parameters["shape"])
            results = _listed(bind(primitive, *batched, op=op, **parameters))
            axes = [0] * len(results)
        return (results, axes) if primitive.multiple_results else (results[0], axes[0])

    batching.primitive_batchers[primitive] = rule


for _primitive in (forward_p, tangent_p, cotangent_p, spread_p, indices_p):
    _install(_primitive)
