"""How declared records become nodes: pools made of others, norms, moves of cells, and linear records of a user.

Every record whose declaration says ``linear`` or ``bilinear`` is bounded: those without a rule of their own are
evaluated exactly at zero and at the unit vectors, which gives the affine map. Records that are ``selecting`` or
``smooth`` need a rule; one without is refused by name.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np

from halfulp import records
from halfulp.bounds import _layer_lowering, _tape_lowering  # noqa: F401  (they register their operators)
from halfulp.bounds._curves import LeakyRelu
from halfulp.bounds._lowering import LOWERINGS, Builder, Ids, Lowering, lowering, only_input, refuse_dtype
from halfulp.bounds._maps import Array, Dense, Mean, Scale, Shape
from halfulp.bounds._windows import cells_of, fractional_cells
from halfulp.numbers import exact, rounded
from halfulp.records import (
    BatchNorm,
    Fold,
    FractionalMaxPool,
    GlobalLpPool,
    GlobalMaxPool,
    GlobalMinPool,
    LpPool,
    MaxPool,
    MaxUnpool,
    MedianPool,
    MinPool,
    ModePool,
    SumPool,
    Unfold,
    declaration_of,
    is_declared,
)

COEFFICIENTS = 1 << 22
"""The largest number of coefficients of a linear record without a rule of its own."""


def lowering_of(op: Any) -> Lowering | None:
    """The rule of an operator, or None: by its type, or because its declaration says that it is linear."""
    rule = LOWERINGS.get(type(op))
    if rule is None and is_declared(op) and declaration_of(op).kind in ("linear", "bilinear"):
        return _probed
    return rule


def bounded(record: type) -> bool:
    """Whether the records of a type have bounds."""
    return record in LOWERINGS or declaration_of(record).kind in ("linear", "bilinear")


def why_not(op: Any) -> str:
    """Why an operator without a rule is refused."""
    if is_declared(op):
        return f"is declared as {declaration_of(op).kind!r} and is not bounded"
    return "is not bounded"


class Fixed:
    """A record with its constant inputs: a function of x alone, with the same constants for floats and exact x."""

    def __init__(self, record: Any, constants: tuple[Any, ...]) -> None:
        self.record, self.constants = record, constants

    def __call__(self, x: Any) -> Any:
        """The record's value."""
        return self.record(x, *self.constants)

    def coefficients(self, shape: Shape) -> tuple[Array, Array]:
        """The exact matrix (outputs, inputs) and constant of a linear record, at the unit vectors and at zero."""
        declared = declaration_of(self.record)
        fixed = tuple(
            c if c is None or name in declared.constant else exact(np.asarray(c))
            for name, c in zip(declared.inputs[1:], self.constants, strict=False)
        )

        def value(x: Array) -> Array:
            return np.asarray(self.record(exact(x), *fixed)).reshape(-1)

        start = value(np.zeros(shape))
        table = np.empty((start.size, math.prod(shape)), dtype=object)
        for k in range(table.shape[1]):
            unit = np.zeros(table.shape[1])
            unit[k] = 1.0
            table[:, k] = value(unit.reshape(shape)) - start
        return table, start


def _constants(builder: Builder, op: Any, ids: Ids, values: list[Any]) -> tuple[int, tuple[Any, ...]]:
    """The traced input, which must be the first, and the others."""
    if ids[0] is None or any(i is not None for i in ids[1:]):
        raise builder.refusal(op.name, "every input but the first must be a constant")
    return ids[0], tuple(values[1:])


@lowering(records.LeakyRelu, records.Abs, records.Hardtanh, records.Relu6)
def _pieces(builder: Builder, op: Any, ids: Ids, values: list[Any], output: Any) -> int:
    """Piecewise linear functions of one number: x or slope · x, and x between two ends."""
    clips = isinstance(op, (records.Hardtanh, records.Relu6))
    if clips:
        parameters = tuple(float(p) for p in op.parameters)
    else:
        parameters = (-1.0 if isinstance(op, records.Abs) else float(op.negative_slope),)
        if float(builder.dtype.type(parameters[0])) != parameters[0]:
            rule = f"must be a number of {builder.dtype}: halfulp.bounds.leaky_relu rounds it"
            raise builder.refusal(f"{op.name} negative_slope={op.negative_slope!r}", rule)
    return builder.add(
        op.name, "curve", [only_input(ids)], output.shape,
        function="clip" if clips else "leaky_relu", parameters=parameters, operator=op, constants=(None,),
    )  # fmt: skip


@lowering(SumPool, Fold)
def _sum(builder: Builder, op: Any, ids: Ids, values: list[Any], output: Any) -> int:
    refuse_dtype(builder, op)
    cells = math.prod(op.kernel_size)
    linear = Mean(op, values[0].shape, cells)
    return builder.add(
        op.name, "affine", [only_input(ids)], output.shape,
        maps=(linear,), operator=op, constants=(None,), roundings=cells,
    )  # fmt: skip


@lowering(Unfold, MaxUnpool)
def _moved(builder: Builder, op: Any, ids: Ids, values: list[Any], output: Any) -> int:
    source, constants = _constants(builder, op, ids, values)
    return builder.gather(op.name, source, np.asarray(op(builder.positions(source) + 1, *constants)) - 1)


@lowering(MinPool, GlobalMinPool)
def _min(builder: Builder, op: Any, ids: Ids, values: list[Any], output: Any) -> int:
    """-max(-x)."""
    source = only_input(ids)
    kind = MaxPool if isinstance(op, MinPool) else GlobalMaxPool
    largest = kind(**{field.name: getattr(op, field.name) for field in fields(op)})
    negated = builder.gather("neg", source, builder.positions(source), -1)
    top = LOWERINGS[kind](builder, largest, [negated], values, output)
    return builder.gather(op.name, top, builder.positions(top), -1)


@lowering(MedianPool, ModePool)
def _rank(builder: Builder, op: Any, ids: Ids, values: list[Any], output: Any) -> int:
    index, _ = cells_of(op, values[0].shape)
    function = "median" if isinstance(op, MedianPool) else "mode"
    return builder.add(
        op.name, "rank", [only_input(ids)], output.shape,
        index=index, function=function, operator=op, constants=(None,), roundings=3,
    )  # fmt: skip


@lowering(FractionalMaxPool)
def _fractional(builder: Builder, op: Any, ids: Ids, values: list[Any], output: Any) -> int:
    source, (samples,) = _constants(builder, op, ids, values)
    index = fractional_cells(op, values[0].shape, np.asarray(samples))
    fixed = Fixed(op, (samples,))
    return builder.add(op.name, "max", [source], output.shape, index=index, operator=fixed, constants=(None,))


@lowering(LpPool, GlobalLpPool)
def _norm(builder: Builder, op: Any, ids: Ids, values: list[Any], output: Any) -> int:
    """|x|, then a sum, a maximum or a norm of numbers that are not negative."""
    (x,) = values
    size = builder.add(
        "abs", "curve", [only_input(ids)], x.shape,
        function="leaky_relu", parameters=(-1.0,), operator=LeakyRelu(-1.0), constants=(None,),
    )  # fmt: skip
    index, _ = cells_of(op, x.shape)
    shared: dict[str, Any] = {"operator": op, "constants": (None,)}
    if op.p == 1:
        return _total(builder, op, size, output.shape)
    if op.p == math.inf:
        return builder.add(op.name, "max", [size], output.shape, index=index, **shared)
    if float(op.p) != op.p:
        raise builder.refusal(f"{op.name} p={op.p!r}", "must be a float")
    return builder.add(
        op.name, "smooth", [size], output.shape,
        index=index, function="norm", parameters=(float(op.p),), roundings=1, **shared,
    )  # fmt: skip


def _total(builder: Builder, op: Any, source: int, target: Any) -> int:
    """The sum of every window of a norm with p = 1."""
    shape = builder.nodes[source].shape
    if isinstance(op, LpPool):
        pool = SumPool(op.kernel_size, op.stride, op.padding, op.dilation, op.ceil_mode)
    else:
        pool = SumPool(shape[len(shape) - op.ndim :])
    summed = np.empty(pool.output_shape(shape), dtype=np.bool_)
    last = LOWERINGS[SumPool](builder, pool, [source], [np.empty(shape, dtype=np.bool_)], summed)
    return last if summed.shape == target else builder.gather(op.name, last, builder.positions(last).reshape(target))


def lower_normalize(builder: Builder, op: Any, ids: Ids, values: list[Any], output: Any) -> int:
    """Batch normalization with constant parameters: x * factor + bias, where both are rounded to float64."""
    x, scale, shift = values
    if ids[0] is None or ids[1] is not None or ids[2] is not None:
        raise builder.refusal(op.name, "the scale, shift, mean and variance must be constants")
    shape = (1, -1, *(1,) * (len(x.shape) - 2))
    parameters = (scale, shift, op.mean, op.variance)
    slope, offset, mean, variance = (builder.constant(a, op.name).reshape(shape) for a in parameters)
    if (variance + op.epsilon <= 0).any():
        raise builder.refusal(op.name, "variance + epsilon must be positive")
    factor = slope / np.sqrt(variance + op.epsilon)
    target = tuple(output.shape)
    return builder.add(
        op.name,
        "affine",
        [ids[0]],
        target,
        maps=(Scale(np.broadcast_to(factor, target).copy()),),
        bias=np.broadcast_to(offset - mean * factor, target).copy(),
        operator=op,
        constants=(None, np.asarray(scale), np.asarray(shift)),
        roundings=8,
        spread=np.broadcast_to(np.abs(offset) + np.abs(mean * factor), target).copy(),
    )


class Evaluated:
    """A batch normalization with given statistics: a function of x, scale and shift."""

    def __init__(self, record: BatchNorm, mean: Array, variance: Array) -> None:
        self.name, self.record, self.mean, self.variance, self.epsilon = record.name, record, mean, variance, record.eps

    def __call__(self, x: Any, scale: Any, shift: Any) -> Any:
        """The record's value."""
        return self.record(x, scale, shift, self.mean, self.variance)


@lowering(BatchNorm)
def _batch_norm(builder: Builder, op: Any, ids: Ids, values: list[Any], output: Any) -> int:
    if op.training:
        raise builder.refusal(f"{op.name} training=True", "must be False: bounds are for given statistics")
    x, scale, shift, mean, variance = (*values, None, None, None, None)[:5]
    if ids[0] is None or any(i is not None for i in ids[1:]):
        raise builder.refusal(op.name, "every input but the first must be a constant")
    channels, dtype = x.shape[1], np.asarray(mean).dtype
    scale = np.ones(channels, dtype) if scale is None else scale
    shift = np.zeros(channels, dtype) if shift is None else shift
    evaluated = Evaluated(op, np.asarray(mean), np.asarray(variance))
    return lower_normalize(builder, evaluated, [ids[0], None, None], [x, scale, shift], output)


def _probed(builder: Builder, op: Any, ids: Ids, values: list[Any], output: Any) -> int:
    """The affine map of a linear record, from its exact values at zero and at the unit vectors."""
    source, constants = _constants(builder, op, ids, values)
    shape, target = values[0].shape, tuple(output.shape)
    size, rows = math.prod(shape), math.prod(target)
    if size * rows > COEFFICIENTS:
        raise builder.refusal(op.name, f"a linear record without a rule may have {COEFFICIENTS} coefficients")
    fixed = Fixed(op, constants)
    table, start = fixed.coefficients(shape)
    weight, bias = rounded(table, np.float64), rounded(start.reshape(target), np.float64)
    same = (exact(weight) == table).all() and (exact(bias).reshape(-1) == start).all()
    return builder.add(
        op.name, "affine", [source], target,
        maps=(Dense(builder.constant(weight, op.name), shape, target),),
        bias=builder.constant(bias, op.name) if bias.any() else None,
        operator=fixed,
        constants=(None,),
        roundings=size + 1,
        spread=None if same else np.abs(bias),
    )  # fmt: skip
