"""What the compiled target ``halfulp_host`` calls: NumPy views of XLA's memory in, results written in place.

It serves the operators that have no target of their own. The kernels let go of Python's lock while they compute.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from halfulp.dispatch import indices, wanted_vjp
from halfulp.jax._codec import decode
from halfulp.kernels._convolution import call_of

Memory: TypeAlias = tuple[memoryview, str, tuple[int, ...]]


def run(work: str, record: str, arguments: Sequence[Memory], results: Sequence[Memory]) -> None:
    """Do one piece of work of one record, both given as text.

    ``work`` is ``forward``, ``indices``, ``spread``, ``tangent:mask`` or ``cotangent:mask``; the mask has a 1 for every
    input that has a tangent or wants a cotangent. A bias has no part in a derivative but its own.
    """
    op: Any = decode(record)
    inputs = [_array(memory) for memory in arguments]
    outputs = [_array(memory) for memory in results]
    kind, _, mask = work.partition(":")
    which = [flag == "1" for flag in mask]
    if kind == "forward":
        outputs[0][...] = op(*inputs)
    elif kind == "indices":
        outputs[0][...] = indices(op, inputs[0], None, tuple(inputs[1:]))[1]
    elif kind == "spread":
        outputs[0][...] = op.vjp(np.zeros(outputs[0].shape, outputs[0].dtype))[1](inputs[0])[0]
    elif kind == "tangent":
        outputs[0][...] = _tangent(op, inputs, which)
    else:
        wanted = [c for c, flag in zip(_cotangents(op, inputs, which), which, strict=False) if flag]
        for output, cotangent in zip(outputs, wanted, strict=True):
            output[...] = cotangent


def _tangent(op: Any, inputs: list[NDArray[Any]], which: list[bool]) -> NDArray[Any]:
    """The output's tangent alone: the value has been computed elsewhere."""
    if op.required is None and (op.arity == 1 or op.constants):
        *points, t = inputs
        return np.asarray(op.jvp(points, (t, *(None for _ in op.constants)))[1])
    if op.required is not None:
        count = len(inputs) - sum(which)
        given = iter(inputs[count:])
        directions = [next(given) if flag else None for flag in which]
        return np.asarray(op.jvp(tuple(inputs[:count]), tuple(directions[:count]))[1])
    x, weight, *rest = inputs
    tangents = iter(rest)
    dx, dweight, dbias = (next(tangents) if flag else None for flag in which)
    products = [(a, w) for a, w in ((dx, weight), (x, dweight)) if a is not None and w is not None]
    if products:
        return np.asarray(call_of(op, (x, weight)).push(products, dbias))
    bias = np.zeros(op.output_shape(x.shape, weight.shape)[-op.ndim - 1], x.dtype)
    return np.asarray(op.jvp((x, weight, bias), (None, None, dbias))[1])


def _cotangents(op: Any, inputs: list[NDArray[Any]], which: list[bool]) -> tuple[Any, ...]:
    """The cotangents that are wanted, None for the others, without the value."""
    if op.required is None and (op.arity == 1 or op.constants):
        *points, g = inputs
        found: tuple[Any, ...] = op.vjp(*points)[1](g)
        return found
    if op.required is not None:
        *points, g = inputs
        return tuple(wanted_vjp(op, tuple(points), tuple(which))[1](g))
    x, weight, g = inputs
    call = call_of(op, (x, weight))
    return (
        call.pull_input(g, weight, x.shape) if which[0] else None,
        call.pull_weight(g, x, weight) if which[1] else None,
        call.pull_bias(g) if which[2] else None,
    )


def _array(memory: Memory) -> NDArray[Any]:
    data, name, shape = memory
    dtype = np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)
    if math.prod(shape) == 0:
        return np.empty(shape, dtype)
    array: NDArray[Any] = np.frombuffer(data, dtype)
    return array.reshape(shape)
