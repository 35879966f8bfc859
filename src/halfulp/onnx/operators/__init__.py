"""The operators of ONNX, one family per file. A builder reads a node's attributes and gives the function that runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from halfulp.onnx._node import Node
from halfulp.onnx.operators import (
    arithmetic,
    comparison,
    control,
    convolution,
    einsum,
    elementwise,
    fourier,
    functions,
    indexing,
    linear,
    losses,
    lp_pool,
    making,
    max_unpool,
    movement,
    normalization,
    norms,
    pooling,
    quantized,
    recurrent,
    reduction,
    resize,
    selection,
    shape,
    softmax,
    trigonometry,
)
from halfulp.records import ELEMENTWISE, declaration_of

Builder: TypeAlias = Callable[[Node], Callable[..., Any]]

_NAMED: dict[ModuleType, str] = {
    arithmetic: "Div HardSigmoid LeakyRelu Mean Mod Reciprocal Sub Sum",
    comparison: "IsInf",
    control: "If Loop Scan",
    convolution: "Conv ConvTranspose",
    einsum: "Einsum",
    elementwise: "Add Clip Identity Mul Relu",
    fourier: "DFT STFT",
    functions: "Elu Gelu Softplus",
    indexing: "ArgMax ArgMin Compress Gather GatherElements GatherND "
    "NonZero OneHot ScatterElements ScatterND TopK Where",
    linear: "Gemm",
    losses: "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss",
    lp_pool: "GlobalLpPool LpPool",
    making: "Cast CastLike ConstantOfShape CumSum Dropout EyeLike Range Shape",
    max_unpool: "MaxUnpool",
    movement: "DepthToSpace Expand ReverseSequence Slice SpaceToDepth Split Squeeze Tile Trilu Unsqueeze",
    normalization: "BatchNormalization",
    norms: "GroupNormalization InstanceNormalization LayerNormalization",
    pooling: "AveragePool GlobalAveragePool GlobalMaxPool MaxPool",
    quantized: "ConvInteger DequantizeLinear DynamicQuantizeLinear "
    "MatMulInteger QLinearConv QLinearMatMul QuantizeLinear",
    recurrent: "GRU LSTM RNN",
    resize: "Resize Upsample",
    selection: "BitShift Hardmax NonMaxSuppression",
    shape: "Concat Constant Flatten Pad Reshape Transpose",
    softmax: "LogSoftmax Softmax",
}
"""File -> operators whose builder has the operator's name there: ``top_k`` for TopK, ``if_`` for If."""
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def _named(file: Any, name: str) -> Builder:
    word = _WORDS.sub("_", name).lower()
    found: Builder = getattr(file, f"{word}_", None) or getattr(file, word)
    return found


_MADE: dict[str, Builder] = {
    "Abs": arithmetic.unary(np.abs, arithmetic.sign),
    "And": comparison.logic(np.logical_and),
    "Ceil": arithmetic.unary(arithmetic.ceil),
    "Cos": trigonometry.wave("cos"),
    "Equal": comparison.compare(np.equal),
    "Floor": arithmetic.unary(arithmetic.floor),
    "Greater": comparison.compare(np.greater),
    "GreaterOrEqual": comparison.compare(np.greater_equal),
    "IsNaN": comparison.is_nan,
    "Less": comparison.compare(np.less),
    "LessOrEqual": comparison.compare(np.less_equal),
    "MatMul": linear.matmul,
    "Max": arithmetic.extreme(largest=True),
    "Min": arithmetic.extreme(largest=False),
    "Neg": arithmetic.unary(np.negative, lambda x: np.full(x.shape, -1)),
    "Not": comparison.logic(np.logical_not),
    "Or": comparison.logic(np.logical_or),
    "PRelu": arithmetic.prelu,
    "Pow": functions.power,
    "ReduceL1": reduction.reduction(reduction.rows_l1),
    "ReduceL2": reduction.reduction(reduction.rows_l2),
    "ReduceLogSumExp": reduction.reduction(reduction.rows_log_sum_exp),
    "ReduceMax": reduction.reduction(reduction.rows_max),
    "ReduceMean": reduction.reduction(reduction.rows_mean_of_any),
    "ReduceMin": reduction.reduction(reduction.rows_min),
    "ReduceProd": reduction.reduction(reduction.rows_prod),
    "ReduceSum": reduction.reduction(reduction.rows_sum, since=13),
    "ReduceSumSquare": reduction.reduction(reduction.rows_sum_square),
    "Round": arithmetic.unary(arithmetic.rint),
    "Sign": arithmetic.unary(arithmetic.sign),
    "Sin": trigonometry.wave("sin"),
    "Size": movement.size_of,
    "Xor": comparison.logic(np.logical_xor),
}
_CURVES = ("Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh")
_BITWISE = {f"Bitwise{name}": getattr(np, f"bitwise_{name.lower()}") for name in ("And", "Or", "Xor", "Not")}
_DECLARED = {record: declaration_of(record).onnx for record in ELEMENTWISE if not fields(record)}

OPERATORS: dict[str, Builder] = {
    **{name: functions.of(record) for record, names in _DECLARED.items() for name in names},
    **{name: _named(file, name) for file, names in _NAMED.items() for name in names.split()},
    **{name: trigonometry.curve(name.lower()) for name in _CURVES},
    **{name: selection.bitwise(function) for name, function in _BITWISE.items()},
    **_MADE,
}
"""Operator type -> its builder. A declared function of single elements needs one only for its attributes."""
