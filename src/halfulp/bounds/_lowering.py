"""How each operator of the tape becomes nodes of a network. An operator without an entry here is refused by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from halfulp.autograd import rules
from halfulp.autograd.operators import activation, arithmetic, linear, reduction, shape
from halfulp.bounds._curves import Clip, LeakyRelu, Softplus
from halfulp.bounds._maps import Array, Convolution, Gather, Matrix, Mean, Scale, Shape
from halfulp.bounds._network import ABSENT, Network, Node
from halfulp.bounds._windows import cells_of
from halfulp.errors import ModelError
from halfulp.records import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    Conv,
    ConvTranspose,
    GlobalAvgPool,
    GlobalMaxPool,
    MaxPool,
    SmoothMaxPool,
)

Ids: TypeAlias = Sequence[int | None]
Lowering: TypeAlias = Callable[["Builder", Any, Ids, list[Any], Any], int]

LOWERINGS: dict[type, Lowering] = {}
"""Type of an operator -> the function that adds its nodes and gives the id of the last."""


def supported() -> str:
    """The operators that can be bounded, by name."""
    return ", ".join(sorted({_name(kind) for kind in LOWERINGS}))


def _name(kind: Any) -> str:
    name = getattr(kind, "base_name", None) or getattr(kind, "name", None)
    return name if isinstance(name, str) else str(kind.__name__)


class Builder:
    """A network under construction."""

    def __init__(self, owner: str, input_shape: Shape, dtype: np.dtype[Any]) -> None:
        self.owner, self.dtype = owner, dtype
        self.nodes = [Node("input", "input", (), input_shape)]
        self.label = ""
        """Name of the ONNX or torch node that is being read, for messages."""

    def refusal(self, argument: str, rule: str) -> ModelError:
        """The error of a node that cannot be part of a network."""
        where = f"node {self.label}: " if self.label else ""
        return ModelError(self.owner, f"{where}{argument}", rule, "V3")

    def add(self, name: str, kind: str, inputs: Sequence[int], shape: Shape, **fields: Any) -> int:
        """Append a node and give its id."""
        self.nodes.append(Node(name, kind, tuple(inputs), tuple(int(n) for n in shape), **fields))
        return len(self.nodes) - 1

    def gather(self, name: str, source: int, index: Array, sign: int = 1) -> int:
        """Append a node that moves cells."""
        return self.add(name, "affine", [source], index.shape, maps=(Gather(index, self.nodes[source].shape, sign),))

    def positions(self, source: int) -> Array:
        """The flat position of every cell of a node, in its shape."""
        found = self.nodes[source].shape
        return np.arange(math.prod(found), dtype=np.int64).reshape(found)

    def constant(self, value: Any, argument: str) -> Array:
        """A constant as float64, which holds every number of the four formats."""
        array = np.asarray(value).astype(np.float64)
        if not np.isfinite(array).all():
            raise self.refusal(argument, "must be finite numbers")
        return array

    def finish(self, output: int) -> Network:
        """The network up to a node, without the nodes that it does not need."""
        needed = {output}
        for position in range(output, 0, -1):
            if position in needed:
                needed.update(self.nodes[position].inputs)
        order = sorted(needed | {0})
        place = {old: new for new, old in enumerate(order)}
        nodes = []
        for old in order:
            node = self.nodes[old]
            fields = {name: getattr(node, name) for name in node.__dataclass_fields__}
            nodes.append(Node(**{**fields, "inputs": tuple(place[i] for i in node.inputs)}))
        return Network(tuple(nodes), place[output], self.dtype)


def lowering(*kinds: type) -> Callable[[Lowering], Lowering]:
    """Register a function for some types of operators."""

    def register(function: Lowering) -> Lowering:
        for kind in kinds:
            LOWERINGS[kind] = function
        return function

    return register


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


def refuse_dtype(builder: Builder, op: Any) -> None:
    """A network has one element type; ``nan`` does not matter, because no value of a bounded network is NaN."""
    if getattr(op, "dtype", None) not in (None, "same"):
        raise builder.refusal(f"{op.name} dtype={op.dtype!r}", "must be None or 'same': a network has one element type")


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


@lowering(activation.Relu, activation.Sigmoid, activation.Tanh, LeakyRelu, Clip, Softplus)
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
    source = _known(ids[1])
    places = builder.positions(source)
    if places.ndim > 1:
        source = builder.gather("transpose", source, np.swapaxes(places, -1, -2))
    weight = np.asarray(left)
    inner = (*builder.nodes[source].shape[:-1], weight.shape[0])
    last = _matrix(builder, linear.Linear(op.precision), source, weight, None, (None, weight, ABSENT), inner)
    if places.ndim > 1:
        last = builder.gather("transpose", last, np.swapaxes(builder.positions(last), -1, -2))
    return last


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
            places = np.broadcast_to(builder.positions(source), target)
            maps.append(Gather(places, builder.nodes[source].shape, sign))
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
        pair = [_spread(builder, _known(i), target) for i in ids]
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
    source = _spread(builder, _known(ids[moving]), target)
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


def only_input(ids: Ids) -> int:
    """The node that an operator of one input is applied to."""
    return _known(ids[0])


def _known(given: int | None) -> int:
    if given is None:
        raise AssertionError("an operator of one input is applied to a traced value")
    return given
