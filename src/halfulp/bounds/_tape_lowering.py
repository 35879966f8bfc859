"""How arithmetic, reductions and moves of cells become nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from halfulp.autograd import rules
from halfulp.autograd.operators import arithmetic, reduction, shape
from halfulp.bounds._lowering import Builder, Ids, known_input, lowering, only_input
from halfulp.bounds._maps import Gather, Mean, Scale, Shape
from halfulp.records import AvgPool


@lowering(arithmetic.Add, arithmetic.Sub)
def _sum(builder: Builder, op: Any, ids: Ids, values: list[Any], output: Any) -> int:
    second = -1 if isinstance(op, arithmetic.Sub) else 1
    target = tuple(output.shape)
    maps, inputs, bias = [], [], None
    constants: list[Any] = []
    for sign, source, value in zip((1, second), ids, values, strict=True):
        if source is None:
            bias = sign * np.broadcast_to(builder.constant(value, op.name), target)
            constants.append(np.asarray(value))
        else:
            indices = np.broadcast_to(builder.positions(source), target)
            maps.append(Gather(indices, builder.nodes[source].shape, sign))
            inputs.append(source)
            constants.append(None)
    return builder.add(
        op.name,
        "affine",
        inputs,
        target,
        maps=tuple(maps),
        bias=None if bias is None else bias.copy(),
        operator=op,
        constants=tuple(constants),
        roundings=1,
    )


@lowering(arithmetic.Neg)
def _neg(builder: Builder, op: Any, ids: Ids, values: list[Any], output: Any) -> int:
    source = only_input(ids)
    return builder.gather("neg", source, builder.positions(source), -1)


@lowering(arithmetic.Mul, arithmetic.Div)
def _mul(builder: Builder, op: Any, ids: Ids, values: list[Any], output: Any) -> int:
    target = tuple(output.shape)
    division = isinstance(op, arithmetic.Div)
    if None not in ids:
        if division:
            raise builder.refusal("div", "the divisor must be a constant")
        pair = [_spread(builder, known_input(i), target) for i in ids]
        return builder.add("mul", "product", pair, target, operator=op, constants=(None, None), roundings=1)
    if division and ids[0] is None:
        raise builder.refusal("div", "the divisor must be a constant")
    moving = 0 if ids[0] is not None else 1
    constant = np.asarray(values[1 - moving])
    factor = builder.constant(constant, op.name)
    spread = None
    if division:
        if (factor == 0).any():
            raise builder.refusal("div", "the divisor must not be 0")
        quotient = 1.0 / factor
        exact = bool((np.abs(np.frexp(factor)[0]) == 0.5).all()) and bool(np.isfinite(quotient).all())
        spread = None if exact else np.zeros(target)
        factor = quotient
    source = _spread(builder, known_input(ids[moving]), target)
    slots: tuple[Any, ...] = (None, constant) if moving == 0 else (constant, None)
    return builder.add(
        op.name,
        "affine",
        [source],
        target,
        maps=(Scale(np.broadcast_to(factor, target).copy()),),
        operator=op,
        constants=slots,
        roundings=2 if division else 1,
        spread=spread,
    )


def _spread(builder: Builder, source: int, target: Shape) -> int:
    """A node in a shape that it is broadcast to."""
    if builder.nodes[source].shape == target:
        return source
    return builder.gather("broadcast_to", source, np.broadcast_to(builder.positions(source), target))


@lowering(reduction.Sum, reduction.Mean)
def _reduction(builder: Builder, op: Any, ids: Ids, values: list[Any], output: Any) -> int:
    source = only_input(ids)
    rows, target = op._rows(builder.positions(source))
    length = rows.shape[-1]
    if rows.size == 0:
        raise builder.refusal(f"{op.name} of shape {values[0].shape}", "must have elements")
    moved = builder.gather("transpose", source, rows)
    pool = AvgPool((length,), divisor_override=1 if isinstance(op, reduction.Sum) else length)
    summed = builder.add(
        op.name,
        "affine",
        [moved],
        (*rows.shape[:-1], 1),
        maps=(Mean(pool, rows.shape, length),),
        operator=pool,
        constants=(None,),
        roundings=length + 2,
    )
    return builder.gather("reshape", summed, builder.positions(summed).reshape(target))


@lowering(shape.Reshape, shape.Flatten, shape.Transpose, shape.BroadcastTo, shape.Index)
def _rearrangement(builder: Builder, op: Any, ids: Ids, values: list[Any], output: Any) -> int:
    source = only_input(ids)
    return builder.gather(op.name, source, np.asarray(op.forward(builder.positions(source))))


@lowering(shape.Concatenate)
def _concatenate(builder: Builder, op: Any, ids: Ids, values: list[Any], output: Any) -> int:
    target = tuple(output.shape)
    bias = np.concatenate(
        [
            np.zeros(v.shape) if i is not None else builder.constant(v, "concat")
            for i, v in zip(ids, values, strict=True)
        ],
        axis=op.axis,
    )
    maps, inputs = [], []
    for chosen, source in enumerate(ids):
        if source is None:
            continue
        blocks = [
            builder.positions(source) if k == chosen else np.full(v.shape, -1, dtype=np.int64)
            for k, v in enumerate(values)
        ]
        maps.append(Gather(np.concatenate(blocks, axis=op.axis), builder.nodes[source].shape))
        inputs.append(source)
    fixed = bias if bias.any() else None
    return builder.add(rules.name_of(op), "affine", inputs, target, maps=tuple(maps), bias=fixed)
