"""Twenty backends with one planted defect each, as kernels really have them: wrong in some sizes and settings only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
from defects import CountsEverything, NotATranspose, Perfect

from halfulp import AvgPool, Conv, ConvTranspose, MaxPool

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def spoiled(out: Any, index: Any) -> Any:
    """An answer with other numbers in one part."""
    out = np.array(out)
    if out[index].size:
        out[index] = np.where(out[index] == 1, 2, 1).astype(out.dtype)
    return out


class WidthModulo16(Perfect):
    """Forgets the last column where a vector loop leaves a remainder of one."""

    def forward(self, op: Any, *inputs: Any) -> Any:
        out, width = op(*inputs), inputs[0].shape[-1]
        return spoiled(out, (..., slice(-1, None))) if width > 16 and width % 16 == 1 and out.ndim else out


class BatchBeyond4(Perfect):
    """Gives every sample after the fourth the answer of the fourth."""

    def forward(self, op: Any, *inputs: Any) -> Any:
        out = np.array(op(*inputs))
        if inputs[0].ndim == op.ndim + 2 and len(out) > 4:
            out[4:] = out[3]
        return out


class BfloatAccumulation(Perfect):
    """Adds partial sums in bfloat16 as soon as there are more than 64 channels."""

    def forward(self, op: Any, *inputs: Any) -> Any:
        x, weight, bias = inputs
        if not isinstance(op, Conv) or op.groups != 1 or weight.shape[1] <= 64:
            return op(x, weight, bias)
        axis = x.ndim - op.ndim - 1
        parts = [
            op(x.take(range(a, b), axis), weight[:, a:b], c) for a, b, c in ((0, 64, bias), (64, x.shape[axis], None))
        ]
        with np.errstate(all="ignore"):
            return (parts[0].astype(BFLOAT16) + parts[1].astype(BFLOAT16)).astype(x.dtype)


class CeilModeIn3D(Perfect):
    """Leaves ceil_mode out in three dimensions."""

    def changed(self, op: Any, inputs: Any) -> tuple[Any, Any]:
        return (replace(op, ceil_mode=False) if op.ndim == 3 and hasattr(op, "ceil_mode") else op), inputs

    def vjp(self, op: Any, primals: Any, cotangent: Any) -> Any:
        return op.vjp(*primals)[1](cotangent)


class LastSampleLost(Perfect):
    """Leaves the last sample out of the weight's gradient when there are more than two."""

    def vjp(self, op: Any, primals: Any, cotangent: Any) -> Any:
        found = super().vjp(op, primals, cotangent)
        x = primals[0]
        if not isinstance(op, (Conv, ConvTranspose)) or x.ndim != op.ndim + 2 or len(x) <= 2:
            return found
        rest = super().vjp(op, (x[:-1], *primals[1:]), cotangent[:-1])
        return (found[0], rest[1], *found[2:])


class PaddingCountedIfAsymmetric(CountsEverything):
    """Counts padding, although it must not, where it differs between two sides."""

    def changed(self, op: Any, inputs: Any) -> tuple[Any, Any]:
        pads = op.padding if isinstance(op, AvgPool) and isinstance(op.padding, tuple) else ()
        return super().changed(op, inputs) if any(a != b for a, b in pads) else (op, inputs)


class SwappedField(Perfect):
    """Reads a sequence from the last axis to the first, wherever that gives the same shape."""

    field = "dilation"

    def changed(self, op: Any, inputs: Any) -> tuple[Any, Any]:
        value = getattr(op, self.field, None)
        if not isinstance(value, tuple):
            return op, inputs
        other = replace(op, **{self.field: value[::-1]})
        shapes = [None if a is None else a.shape for a in inputs]
        try:
            same = other.output_shape(*shapes) == op.output_shape(*shapes)
        except ValueError:
            same = False
        return (other if same else op), inputs


class SwappedStride(SwappedField):
    """Reads strides from the last axis to the first, wherever that gives the same shape."""

    field = "stride"


class FlushedOutputs(Perfect):
    """Flushes results below the smallest normal number to zero."""

    @staticmethod
    def flushed(out: Any) -> Any:
        if out is None or out.dtype.kind in "iub":
            return out
        least = ml_dtypes.finfo(out.dtype).smallest_normal
        with np.errstate(invalid="ignore"):
            return np.where(np.abs(out) < least, np.copysign(out.dtype.type(0), out), out).astype(out.dtype)

    def forward(self, op: Any, *inputs: Any) -> Any:
        return self.flushed(super().forward(op, *inputs))

    def jvp(self, op: Any, primals: Any, tangents: Any) -> Any:
        return tuple(map(self.flushed, super().jvp(op, primals, tangents)))

    def vjp(self, op: Any, primals: Any, cotangent: Any) -> Any:
        return tuple(map(self.flushed, super().vjp(op, primals, cotangent)))


class OneWrongCallIn500(Perfect):
    """Gives a wrong answer every five hundredth time."""

    calls = 0

    def forward(self, op: Any, *inputs: Any) -> Any:
        self.calls += 1
        out = super().forward(op, *inputs)
        return spoiled(out, (...,)) if self.calls % 500 == 0 else out


class ChangesItsInput(Perfect):
    """Clips the input where it lies."""

    def forward(self, op: Any, *inputs: Any) -> Any:
        out = op(*inputs)
        if inputs[0].size > 1:
            inputs[0][..., -1] = inputs[0][..., 0]
        return out


class InfinityInLongKernels(Perfect):
    """Turns infinite sums of 32 and more terms along the last axis into NaN."""

    def forward(self, op: Any, *inputs: Any) -> Any:
        out = np.array(op(*inputs))
        if isinstance(op, (Conv, ConvTranspose)) and inputs[1].shape[-1] >= 32:
            out[np.isinf(out)] = np.nan
        return out


class OverflowOnTheWay(Perfect):
    """Adds cells in the input's own type, so that sums overflow on the way to a finite mean."""

    def forward(self, op: Any, *inputs: Any) -> Any:
        x = inputs[0]
        out = np.array(op(*inputs))
        if type(op) is AvgPool and x.dtype.kind not in "iub" and op.divisor_override is None:
            with np.errstate(all="ignore"):
                total = replace(op, divisor_override=1)(x)
            out = np.where(np.isinf(total) & np.isfinite(out), total, out).astype(x.dtype)
        return out


class DepthwiseTail(Perfect):
    """Takes the first filter for all channels past the 64th of a depthwise convolution."""

    def forward(self, op: Any, *inputs: Any) -> Any:
        x, weight, bias = inputs
        if isinstance(op, Conv) and op.groups > 64:
            weight = weight.copy()
            weight[64:] = weight[0]
        return op(x, weight, bias)


class IgnoresStrides(Perfect):
    """Reads memory one element after the other, whatever the array's strides are."""

    def changed(self, op: Any, inputs: Any) -> tuple[Any, Any]:
        x = inputs[0]
        if x.ndim > 2 and not x.flags.c_contiguous and x.base is not None and x.strides[-1] == 2 * x.itemsize:
            base = np.asarray(x.base).ravel()
            x = base[: x.size].reshape(x.shape)
        return op, (x, *inputs[1:])


class DivisorIgnoredInCeilMode(Perfect):
    """Forgets divisor_override under ceil_mode."""

    def changed(self, op: Any, inputs: Any) -> tuple[Any, Any]:
        return (replace(op, divisor_override=None) if isinstance(op, AvgPool) and op.ceil_mode else op), inputs


class LastTieInLongRows(Perfect):
    """Gives the derivative to the last of equal maxima in rows of 32 and more cells."""

    def vjp(self, op: Any, primals: Any, cotangent: Any) -> Any:
        if isinstance(op, MaxPool) and op.ties == "first" and primals[0].shape[-1] >= 32:
            op = replace(op, ties="last")
        return super().vjp(op, primals, cotangent)


class MeanInTwoParts(Perfect):
    """Rounds the means of two halves of a long axis, then the mean of both."""

    def forward(self, op: Any, *inputs: Any) -> Any:
        x = inputs[0]
        width = x.shape[-1]
        if width < 64 or width % 2:
            return op(x)
        first, second = op(x[..., : width // 2]), op(x[..., width // 2 :])
        with np.errstate(all="ignore"):
            return ((first + second) / first.dtype.type(2)).astype(x.dtype)


class BiasOfTheFirstGroup(Perfect):
    """Adds the bias of the first group to all of them."""

    def changed(self, op: Any, inputs: Any) -> tuple[Any, Any]:
        if not isinstance(op, (Conv, ConvTranspose)) or op.groups == 1 or inputs[2] is None:
            return op, inputs
        each = len(inputs[2]) // op.groups
        return op, (*inputs[:2], np.tile(inputs[2][:each], op.groups))


class NanPayload(Perfect):
    """Gives another NaN than the one that it met. Any NaN is right, so this is no defect."""

    def forward(self, op: Any, *inputs: Any) -> Any:
        out = np.array(super().forward(op, *inputs))
        if out.dtype.kind not in "iub":
            out[np.isnan(out)] = -np.nan
        return out


TWICE = NotATranspose
"""A VJP that is not the transpose of the JVP."""

UNKNOWN = "wrong value, cause unknown"
NOT_TRANSPOSED = "the VJP is not the transpose of the JVP"
MAXIMUM = "not the maximum"

PLANTED: dict[str, tuple[str, set[str]]] = {
    "WidthModulo16": ("max_pool", {MAXIMUM}),
    "BatchBeyond4": ("avg_pool", {UNKNOWN}),
    "BfloatAccumulation": ("conv", {"accumulates in, or rounds to, bfloat16"}),
    "CeilModeIn3D": ("max_pool", {"ceil_mode is the wrong way round"}),
    "LastSampleLost": ("conv", {UNKNOWN, NOT_TRANSPOSED}),
    "PaddingCountedIfAsymmetric": ("avg_pool", {"padding is counted"}),
    "SwappedField": ("conv", {"dilation is read from the last axis to the first"}),
    "SwappedStride": ("max_pool", {"stride is read from the last axis to the first"}),
    "FlushedOutputs": ("conv", {"subnormal results are flushed to zero"}),
    "OneWrongCallIn500": ("max_pool", {"differs from run to run"}),
    "TWICE": ("conv", {UNKNOWN, NOT_TRANSPOSED}),
    "ChangesItsInput": ("avg_pool", {"changes its input"}),
    "InfinityInLongKernels": ("conv", {"NaN out of infinities or overflow"}),
    "OverflowOnTheWay": ("avg_pool", {"overflows although the result is finite"}),
    "DepthwiseTail": ("conv", {UNKNOWN}),
    "IgnoresStrides": ("avg_pool", {UNKNOWN}),
    "DivisorIgnoredInCeilMode": ("avg_pool", {"divisor_override is ignored"}),
    "LastTieInLongRows": ("max_pool", {"ties go to the last maximum"}),
    "MeanInTwoParts": ("global_avg_pool", {"one ulp off", "rounding errors of several ulps"}),
    "BiasOfTheFirstGroup": ("conv", {UNKNOWN}),
}
"""Defect -> an operator that has it, and the names that findings must have among them."""
