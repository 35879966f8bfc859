"""Backends with one defect each, and one without: what `halfulp check` must find, name rightly, and not invent."""

from __future__ import annotations

import ctypes
import os
import time
import zlib
from dataclasses import replace
from typing import Any

import numpy as np

import halfulp as hu
from halfulp import AvgPool, Conv, MaxPool


class Perfect:
    """Evaluates every record as it is asked to."""

    policies = True
    complete = True
    threads = 1

    def __init__(self) -> None:
        hu.set_num_threads(1)  # small calls: threads would only wait for each other

    def changed(self, op: Any, inputs: Any) -> tuple[Any, Any]:
        """Where a defect goes: another record, or other inputs."""
        return op, inputs

    def forward(self, op: Any, *inputs: Any) -> Any:
        op, inputs = self.changed(op, inputs)
        return op(*inputs)

    def jvp(self, op: Any, primals: Any, tangents: Any) -> Any:
        op, primals = self.changed(op, primals)
        return op.jvp(primals, tangents)

    def vjp(self, op: Any, primals: Any, cotangent: Any) -> Any:
        op, primals = self.changed(op, primals)
        return op.vjp(*primals)[1](cotangent)

    def set_num_threads(self, threads: int) -> None:
        self.threads = threads


class WrongCeilMode(Perfect):
    """Rounds the number of windows down, whatever it is told."""

    def changed(self, op: Any, inputs: Any) -> tuple[Any, Any]:
        return (replace(op, ceil_mode=False) if hasattr(op, "ceil_mode") else op), inputs

    def vjp(self, op: Any, primals: Any, cotangent: Any) -> Any:
        if getattr(op, "ceil_mode", False):
            raise NotImplementedError("a cotangent has the right shape, which this backend does not know")
        return super().vjp(op, primals, cotangent)


class LastTie(Perfect):
    """Gives the derivative to the last of equal maxima."""

    policies = False
    global_ties = "first"

    def changed(self, op: Any, inputs: Any) -> tuple[Any, Any]:
        return (replace(op, ties="last") if hasattr(op, "ties") else op), inputs

    def forward(self, op: Any, *inputs: Any) -> Any:
        return op(*inputs)


class NanIgnored(Perfect):
    """Leaves NaNs out of a maximum."""

    policies = False

    def changed(self, op: Any, inputs: Any) -> tuple[Any, Any]:
        return (replace(op, nan="ignore") if hasattr(op, "nan") else op), inputs


class RarelyOneUlpOff(Perfect):
    """One ulp off in one case of a thousand."""

    def forward(self, op: Any, *inputs: Any) -> Any:
        out = np.asarray(op(*inputs))
        if zlib.crc32(np.ascontiguousarray(inputs[0]).tobytes()) % 1000 == 7 and np.isfinite(out).all() and out.size:
            out = out.copy()
            out.flat[0] = np.nextafter(out.flat[0], np.array(np.inf, out.dtype))
        return out


class PaddedZeros(Perfect):
    """Pads a maximum with zeros."""

    def forward(self, op: Any, *inputs: Any) -> Any:
        if not isinstance(op, MaxPool):
            return op(*inputs)
        x = inputs[0]
        pairs = [(a.before, a.after) for a in op.axes(x.shape[x.ndim - op.ndim :])]
        padded = np.pad(x, [(0, 0)] * (x.ndim - op.ndim) + pairs)
        out = replace(op, padding=0)(padded)
        return out[tuple(slice(n) for n in op.output_shape(x.shape))]


class TransposedWeight(Perfect):
    """Reads a square weight as (in, out)."""

    def forward(self, op: Any, *inputs: Any) -> Any:
        x, weight, *rest = inputs
        if isinstance(op, Conv) and weight.shape[0] == weight.shape[1]:
            weight = weight.swapaxes(0, 1)
        return op(x, weight, *rest)


class CountsEverything(Perfect):
    """Counts padding in an average even if it must not."""

    def changed(self, op: Any, inputs: Any) -> tuple[Any, Any]:
        return (replace(op, count_include_pad=True) if isinstance(op, AvgPool) else op), inputs


class ThreadDependent(Perfect):
    """Adds the channels of a convolution in as many parts as there are threads."""

    def forward(self, op: Any, *inputs: Any) -> Any:
        x, weight, bias = inputs
        half = weight.shape[1] // 2
        if self.threads == 1 or op.groups != 1 or half == 0:
            return op(x, weight, bias)
        first = op(x[..., :half, :, :], weight[:, :half], bias)
        return first + op(x[..., half:, :, :], weight[:, half:], None)


class BatchDependent(Perfect):
    """Rounds twice as soon as there is more than one sample."""

    def forward(self, op: Any, *inputs: Any) -> Any:
        x, weight, bias = inputs
        out = op(x, weight, None) if x.ndim == op.ndim + 2 and x.shape[0] > 1 else op(x, weight, bias)
        if out.shape and x.ndim == op.ndim + 2 and x.shape[0] > 1 and bias is not None:
            out = out + bias.reshape((-1, *(1,) * op.ndim))
        return out


class NotATranspose(Perfect):
    """Its VJP gives twice what its JVP asks for."""

    def vjp(self, op: Any, primals: Any, cotangent: Any) -> Any:
        return tuple(None if a is None else a * a.dtype.type(2) for a in super().vjp(op, primals, cotangent))


class Picky(Perfect):
    """Supports no dilation, and says so."""

    complete = False

    def forward(self, op: Any, *inputs: Any) -> Any:
        if any(d != 1 for d in getattr(op, "dilation", ())):
            raise NotImplementedError("no dilation here")
        return op(*inputs)


class Fragile(Perfect):
    """Dies in several ways, each at negative inputs of one shape."""

    policies = False
    complete = False

    def forward(self, op: Any, *inputs: Any) -> Any:
        shape = inputs[0].shape if (inputs[0] < 0).all() else ()
        if shape == (1, 2, 5, 5):
            ctypes.string_at(0)  # a read from address 0
        if shape == (1, 2, 2):
            os._exit(3)
        if shape == (2, 1, 4):
            raise MemoryError("no more memory")
        if shape == (1, 1, 3, 3):
            time.sleep(600)
        return op(*inputs)


def function(op: Any, *inputs: Any) -> Any:
    """The smallest backend: a function."""
    return op(*inputs)
