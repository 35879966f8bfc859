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

from halfulp.dispatch import indices
from halfulp.jax._codec import decode

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
        outputs[0][...] = indices(op, inputs[0])[1]
    elif kind == "spread":
        outputs[0][...] = op.vjp(np.zeros(outputs[0].shape, outputs[0].dtype))[1](inputs[0])[0]
    elif kind == "tangent":
        given = iter(inputs[1 if op.arity == 1 else 2 :])
        tangents = [next(given) if flag else None for flag in which]
        outputs[0][...] = op.jvp(_primals(op, inputs, which), tangents)[1]
    else:
        cotangents = op.vjp(*_primals(op, inputs, which))[1](inputs[-1])
        wanted = [c for c, flag in zip(cotangents, which, strict=False) if flag]
        for output, cotangent in zip(outputs, wanted, strict=True):
            output[...] = cotangent


def _primals(op: Any, inputs: list[NDArray[Any]], which: list[bool]) -> list[NDArray[Any]]:
    if op.arity == 1:
        return inputs[:1]
    x, weight = inputs[:2]
    if not which[2]:
        return [x, weight]
    out_shape = op.output_shape(x.shape, weight.shape)
    return [x, weight, np.zeros(out_shape[-op.ndim - 1], x.dtype)]


def _array(memory: Memory) -> NDArray[Any]:
    data, name, shape = memory
    dtype = np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)
    if math.prod(shape) == 0:
        return np.empty(shape, dtype)
    array: NDArray[Any] = np.frombuffer(data, dtype)
    return array.reshape(shape)
