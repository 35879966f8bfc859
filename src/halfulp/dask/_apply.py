"""Which parts an operator's outputs are cut into, for every family of operators."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import dask.array as da
import numpy as np

from halfulp.dask._cuts import Part, cut_bins, cut_transposed, cut_whole, cut_window
from halfulp.dask._graph import Fitted, build, build_pair, meta_of, with_padding
from halfulp.errors import DTypeError, ShapeError
from halfulp.records import Operator
from halfulp.records._window import WindowOperator
from halfulp.records.adaptive_pool import AdaptiveOperator
from halfulp.records.conv import Conv, ConvolutionOperator
from halfulp.records.unfold import PatchOperator

__all__ = ["Chunked"]


class Chunked:
    """How operators act on Dask arrays, in the protocol of values that decide for themselves."""

    @staticmethod
    def __halfulp_apply__(op: Operator, inputs: tuple[Any, ...]) -> Any:
        """The operator's value as a Dask array."""
        x = _checked(op, inputs)
        if isinstance(op, ConvolutionOperator):
            return _convolution(op, x, *inputs[1:])
        if _by_parts(op):
            return build(op, x, *_cut(op, x))
        return _planes(op, (x, *inputs[1:]))

    @staticmethod
    def indices(op: Operator, inputs: tuple[Any, ...], plain: Any) -> tuple[Any, Any]:
        """The value of a hard max and its flat indices, as two Dask arrays; ``plain`` gives both in memory."""
        x = _checked(op, inputs)
        if not _by_parts(op):
            text = "this operator has no indices of a Dask array; compute first"
            raise DTypeError(op.name, "return_indices of a Dask array", text, "Y2")
        return build_pair(op, x, *_cut(op, x), plain)

    @staticmethod
    def __halfulp_jvp__(op: Operator, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        """Refused: derivatives are of arrays in memory."""
        raise _no_derivative(op)

    @staticmethod
    def __halfulp_vjp__(op: Operator, primals: tuple[Any, ...]) -> Any:
        """Refused: derivatives are of arrays in memory."""
        raise _no_derivative(op)


def _no_derivative(op: Operator) -> DTypeError:
    return DTypeError(op.name, "a derivative of a Dask array", "must be of arrays in memory; compute first", "Y2")


def _checked(op: Operator, inputs: tuple[Any, ...]) -> Any:
    """The first input as a Dask array whose sizes are known."""
    given = [value for value in inputs if value is not None]
    if not given or inputs[0] is None:
        shapes: Any = [None if value is None else np.shape(value) for value in inputs]
        op.output_shape(*shapes)
    for value in given:
        if isinstance(value, da.Array) and any(n != n for n in value.shape):
            text = "sizes must be known: call compute_chunk_sizes() first"
            raise ShapeError(op.name, f"a Dask array of shape {value.shape}", text, "Y1")
    first = inputs[0]
    return first if isinstance(first, da.Array) else da.from_array(np.asarray(first), chunks=-1)


def _by_parts(op: Operator) -> bool:
    """Whether the operator's plane may be cut; the others need it whole."""
    return isinstance(op, (WindowOperator, AdaptiveOperator)) and not isinstance(op, PatchOperator)


def _cut(op: Any, x: Any) -> tuple[list[list[Part]], Fitted, Any]:
    """The parts of every spatial axis, the operator for each of them, and the output's meta."""
    op.output_shape(x.shape)
    at = x.ndim - op.ndim
    spatial, chunks = x.shape[at:], x.chunks[at:]
    meta = meta_of(op, x.dtype, spatial, (), x.ndim)
    if not prod(spatial):  # no cell anywhere: the whole plane is as good as a part of it
        outputs = op.output_shape(x.shape)[at:]
        return [cut_whole(m, n) for m, n in zip(outputs, spatial, strict=True)], lambda parts: op, meta
    if isinstance(op, AdaptiveOperator):
        sizes = op.spatial_output(spatial)
        parts = [cut_bins(n, m, c) for n, m, c in zip(spatial, sizes, chunks, strict=True)]
        adaptive: Any = op
        return parts, lambda found: replace(adaptive, output_size=tuple(p.count for p in found)), meta
    parts = [cut_window(axis, c) for axis, c in zip(op.axes(spatial), chunks, strict=True)]
    return parts, with_padding(op), meta


def _convolution(op: Any, x: Any, weight: Any = None, bias: Any = None) -> Any:
    """A convolution: spatial axes are cut, channels are joined, batches stay as they are."""
    others = tuple(value if value is None or hasattr(value, "shape") else np.asarray(value) for value in (weight, bias))
    shape = op.output_shape(x.shape, *(None if value is None else tuple(value.shape) for value in others))
    weight, at = others[0], x.ndim - op.ndim
    spatial, chunks, kernel = x.shape[at:], x.chunks[at:], tuple(weight.shape[2:])
    meta = meta_of(op, x.dtype, x.shape[at - 1 :], others, x.ndim)
    channels = shape[at - 1]
    if not prod(x.shape[at - 1 :]):
        parts = [cut_whole(m, n) for m, n in zip(shape[at:], spatial, strict=True)]
        return build(op, x, parts, lambda found: op, meta, others, channels)
    axes = op.axes(spatial, kernel)
    if isinstance(op, Conv):
        parts = [cut_window(axis, c) for axis, c in zip(axes, chunks, strict=True)]
        return build(op, x, parts, with_padding(op), meta, others, channels)
    parts = [cut_transposed(axis, n, c) for axis, n, c in zip(axes, spatial, chunks, strict=True)]
    return build(op, x, parts, lambda found: replace(op, padding=0), meta, others, channels)


def _planes(op: Any, inputs: tuple[Any, ...]) -> Any:
    """An operator that needs its planes whole: leading axes keep their chunks, those of a plane are joined."""
    shape = op.output_shape(*(tuple(np.shape(value)) for value in inputs))
    arrays = [value if isinstance(value, da.Array) else da.from_array(np.asarray(value), chunks=-1) for value in inputs]
    leading = arrays[0].ndim - _plane_rank(op)
    fixed = [a.rechunk(dict.fromkeys(range(leading, a.ndim), -1)) for a in arrays]
    first = fixed[0]
    others = [a.rechunk({axis: first.chunks[axis] for axis in range(leading)}) for a in fixed[1:]]
    stand_ins = [np.empty((0, *a.shape[leading:]), a.dtype) for a in fixed]
    dtype = op(*stand_ins).dtype
    letters = list(range(leading))
    new = list(range(leading, leading + len(shape) - leading))
    arguments: list[Any] = []
    for number, array in enumerate([first, *others]):
        start = 1000 * (number + 1)
        arguments += [array, letters + list(range(start, start + array.ndim - leading))]
    sizes = dict(zip(new, shape[leading:], strict=True))
    return da.blockwise(
        op, letters + new, *arguments, new_axes=sizes, concatenate=True, dtype=dtype, align_arrays=False,
        meta=np.empty((0,) * len(shape), dtype), name=None, token=op.name,
    )  # fmt: skip


def _plane_rank(op: Any) -> int:
    """How many of the first input's last axes belong together."""
    if isinstance(op, PatchOperator):
        return 2 if hasattr(op, "output_size") else int(op.ndim) + 1
    return int(op.ndim)
