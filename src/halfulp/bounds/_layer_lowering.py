"""How convolutions, averages, maxima, activations and products with constant matrices become nodes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from halfulp.autograd.operators import linear
from halfulp.bounds._curves import Clip, LeakyRelu, Softplus
from halfulp.bounds._lowering import Builder, Ids, known_input, lowering, only_input, refuse_dtype
from halfulp.bounds._maps import Convolution, Matrix, Mean, Shape
from halfulp.bounds._network import ABSENT
from halfulp.bounds._windows import cells_of
from halfulp.records import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    Conv,
    ConvTranspose,
    GlobalAvgPool,
    GlobalMaxPool,
    MaxPool,
    Relu,
    Sigmoid,
    SmoothMaxPool,
    Tanh,
)


@lowering(Conv, ConvTranspose)
def _convolution(builder: Builder, op: Any, ids: Ids, values: list[Any], output: Any) -> int:
    x, weight, bias = (*values, None)[:3]
    if ids[0] is None or any(i is not None for i in ids[1:]):
        raise builder.refusal(op.name, "the weight and the bias must be constants")
    if op.precision != "correct":
        raise builder.refusal(f"{op.name} precision={op.precision!r}", "must be 'correct': 'fast' fixes no rounding")
    linear_map = Convolution(op, builder.constant(weight, "weight"), x.shape)
    spread = None if bias is None else builder.constant(bias, "bias").reshape(-1, *(1,) * op.ndim)
    constants = (None, np.asarray(weight), ABSENT if bias is None else np.asarray(bias))
    return builder.add(
        op.name,
        "affine",
        [ids[0]],
        output.shape,
        maps=(linear_map,),
        bias=None if spread is None else np.broadcast_to(spread, output.shape).copy(),
        operator=op,
        constants=constants,
        roundings=linear_map.terms + (bias is not None),
    )


@lowering(AvgPool, AdaptiveAvgPool, GlobalAvgPool)
def _mean(builder: Builder, op: Any, ids: Ids, values: list[Any], output: Any) -> int:
    (x,) = values
    refuse_dtype(builder, op)
    index, _ = cells_of(op, x.shape)
    cells = index.shape[-1]
    return builder.add(
        op.name,
        "affine",
        [only_input(ids)],
        output.shape,
        maps=(Mean(op, x.shape, cells),),
        operator=op,
        constants=(None,),
        roundings=cells + 2,
    )


@lowering(MaxPool, AdaptiveMaxPool, GlobalMaxPool)
def _max(builder: Builder, op: Any, ids: Ids, values: list[Any], output: Any) -> int:
    index, _ = cells_of(op, values[0].shape)
    return builder.add(
        op.name, "max", [only_input(ids)], output.shape, index=index, operator=op, constants=(None,), roundings=0
    )


@lowering(SmoothMaxPool)
def _smooth(builder: Builder, op: Any, ids: Ids, values: list[Any], output: Any) -> int:
    if not isinstance(op.beta, (int, float)):
        raise builder.refusal(f"{op.name} beta={op.beta!r}", "must be a float")
    index, padded = cells_of(op, values[0].shape)
    return builder.add(
        op.name,
        "smooth",
        [only_input(ids)],
        output.shape,
        index=index,
        padded=padded,
        parameters=(float(op.beta),),
        operator=op,
        constants=(None,),
        roundings=1,
    )


@lowering(Relu, Sigmoid, Tanh, LeakyRelu, Clip, Softplus)
def _curve(builder: Builder, op: Any, ids: Ids, values: list[Any], output: Any) -> int:
    parameters: tuple[float, ...] = ()
    if isinstance(op, LeakyRelu):
        parameters = (float(np.asarray(op.slope)),)
    elif op.name == "clip":
        parameters = tuple(
            default if bound is None else float(bound) for bound, default in ((op.low, -math.inf), (op.high, math.inf))
        )
        if parameters[0] > parameters[1] or any(math.isnan(p) for p in parameters):
            raise builder.refusal(f"clip min={op.low}, max={op.high}", "min must be at most max")
    return builder.add(
        op.name,
        "curve",
        [only_input(ids)],
        output.shape,
        function=op.name,
        parameters=parameters,
        operator=op,
        constants=(None,),
    )


@lowering(linear.Linear)
def _linear(builder: Builder, op: Any, ids: Ids, values: list[Any], output: Any) -> int:
    _, weight, bias = (*values, None)[:3]
    if ids[0] is None or any(i is not None for i in ids[1:]):
        raise builder.refusal("linear", "the weight and the bias must be constants")
    return _matrix(builder, op, ids[0], weight, bias, (None, weight, ABSENT if bias is None else bias), output.shape)


def _matrix(
    builder: Builder, op: Any, source: int, weight: Any, bias: Any, constants: tuple[Any, ...], target: Shape
) -> int:
    if op.precision != "correct":
        raise builder.refusal(f"{op.name} precision={op.precision!r}", "must be 'correct': 'fast' fixes no rounding")
    linear_map = Matrix(builder.constant(weight, "weight"), builder.nodes[source].shape[:-1])
    spread = None if bias is None else np.broadcast_to(builder.constant(bias, "bias"), linear_map.target).copy()
    return builder.add(
        op.name,
        "affine",
        [source],
        target,
        maps=(linear_map,),
        bias=spread,
        operator=op,
        constants=constants,
        roundings=linear_map.terms + (bias is not None),
    )


@lowering(linear.Matmul)
def _matmul(builder: Builder, op: Any, ids: Ids, values: list[Any], output: Any) -> int:
    left, right = values
    if None not in ids:
        raise builder.refusal("matmul", "one factor must be a constant")
    if ids[0] is not None:
        if np.ndim(right) == 2:
            weight = np.asarray(right)
            return _matrix(
                builder, linear.Linear(op.precision), ids[0], weight.T, None, (None, weight.T, ABSENT), output.shape
            )
        if np.ndim(right) == 1:
            column = np.asarray(right)[None]
            last = _matrix(
                builder,
                linear.Linear(op.precision),
                ids[0],
                column,
                None,
                (None, column, ABSENT),
                (*output.shape, 1),
            )
            return builder.gather("reshape", last, builder.positions(last).reshape(output.shape))
        raise builder.refusal(f"matmul constant of shape {np.shape(right)}", "must be a vector or a matrix")
    if np.ndim(left) != 2:
        raise builder.refusal(f"matmul constant of shape {np.shape(left)}", "must be a matrix")
    source = known_input(ids[1])
    indices = builder.positions(source)
    if indices.ndim > 1:
        source = builder.gather("transpose", source, np.swapaxes(indices, -1, -2))
    weight = np.asarray(left)
    inner = (*builder.nodes[source].shape[:-1], weight.shape[0])
    last = _matrix(builder, linear.Linear(op.precision), source, weight, None, (None, weight, ABSENT), inner)
    if indices.ndim > 1:
        last = builder.gather("transpose", last, np.swapaxes(builder.positions(last), -1, -2))
    return last
