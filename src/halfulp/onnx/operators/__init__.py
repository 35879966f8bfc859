"""The operators of ONNX, one family per file. A builder reads a node's attributes and gives the function that runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from halfulp import records
from halfulp.onnx._node import Node
from halfulp.onnx.operators import (
    arithmetic,
    comparison,
    control,
    einsum,
    fourier,
    functions,
    indexing,
    losses,
    making,
    movement,
    quantized,
    recurrent,
    reduction,
    resize,
    selection,
    trigonometry,
)
from halfulp.onnx.operators.convolution import conv, conv_transpose
from halfulp.onnx.operators.elementwise import add, clip, identity, mul, relu
from halfulp.onnx.operators.linear import gemm, matmul
from halfulp.onnx.operators.lp_pool import global_lp_pool, lp_pool
from halfulp.onnx.operators.max_unpool import max_unpool
from halfulp.onnx.operators.normalization import batch_normalization
from halfulp.onnx.operators.norms import group_normalization, instance_normalization, layer_normalization
from halfulp.onnx.operators.pooling import average_pool, global_average_pool, global_max_pool, max_pool
from halfulp.onnx.operators.shape import concat, constant, flatten, pad, reshape, transpose
from halfulp.onnx.operators.softmax import log_softmax, softmax

Builder: TypeAlias = Callable[[Node], Callable[..., Any]]

_MOVING: dict[str, Builder] = {
    "Cast": making.cast,
    "CastLike": making.cast_like,
    "Compress": indexing.compress,
    "ConstantOfShape": making.constant_of_shape,
    "CumSum": making.cum_sum,
    "DepthToSpace": movement.depth_to_space,
    "Dropout": making.dropout,
    "Expand": movement.expand,
    "EyeLike": making.eye_like,
    "Gather": indexing.gather,
    "GatherElements": indexing.gather_elements,
    "GatherND": indexing.gather_nd,
    "NonZero": indexing.non_zero,
    "OneHot": indexing.one_hot,
    "Range": making.range_,
    "ReverseSequence": movement.reverse_sequence,
    "ScatterElements": indexing.scatter_elements,
    "ScatterND": indexing.scatter_nd,
    "Shape": making.shape,
    "Size": movement.size_of,
    "Slice": movement.slice_,
    "SpaceToDepth": movement.space_to_depth,
    "Split": movement.split,
    "Squeeze": movement.squeeze,
    "Tile": movement.tile,
    "TopK": indexing.top_k,
    "Trilu": movement.trilu,
    "Unsqueeze": movement.unsqueeze,
    "Where": indexing.where,
}
_DECIDING: dict[str, Builder] = {
    "And": comparison.logic(np.logical_and),
    "ArgMax": indexing.arg_max,
    "ArgMin": indexing.arg_min,
    "Equal": comparison.compare(np.equal),
    "Greater": comparison.compare(np.greater),
    "GreaterOrEqual": comparison.compare(np.greater_equal),
    "If": control.if_,
    "IsInf": comparison.is_inf,
    "IsNaN": comparison.is_nan,
    "Less": comparison.compare(np.less),
    "LessOrEqual": comparison.compare(np.less_equal),
    "Loop": control.loop,
    "Not": comparison.logic(np.logical_not),
    "Or": comparison.logic(np.logical_or),
    "Scan": control.scan,
    **{
        f"Bitwise{name}": selection.bitwise(getattr(np, f"bitwise_{name.lower()}"))
        for name in ("And", "Or", "Xor", "Not")
    },
    "BitShift": selection.bit_shift,
    "Hardmax": selection.hardmax,
    "NonMaxSuppression": selection.non_max_suppression,
    "Xor": comparison.logic(np.logical_xor),
}
_ARITHMETIC: dict[str, Builder] = {
    "Abs": arithmetic.unary(np.abs, arithmetic.sign),
    "Ceil": arithmetic.unary(arithmetic.ceil),
    "Cos": trigonometry.wave("cos"),
    "DFT": fourier.dft,
    **{
        name.capitalize(): trigonometry.curve(name)
        for name in ("tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh")
    },
    "Div": arithmetic.div,
    "Einsum": einsum.einsum,
    "Floor": arithmetic.unary(arithmetic.floor),
    "GRU": recurrent.gru,
    "HardSigmoid": arithmetic.hard_sigmoid,
    "LSTM": recurrent.lstm,
    "LeakyRelu": arithmetic.leaky_relu,
    "Max": arithmetic.extreme(largest=True),
    "Mean": arithmetic.mean,
    "Min": arithmetic.extreme(largest=False),
    "Mod": arithmetic.mod,
    "Neg": arithmetic.unary(np.negative, lambda x: np.full(x.shape, -1)),
    "PRelu": arithmetic.prelu,
    "RNN": recurrent.rnn,
    "Reciprocal": arithmetic.reciprocal,
    "ReduceL1": reduction.reduction(reduction.rows_l1),
    "ReduceL2": reduction.reduction(reduction.rows_l2),
    "ReduceLogSumExp": reduction.reduction(reduction.rows_log_sum_exp),
    "ReduceMax": reduction.reduction(reduction.rows_max),
    "ReduceMean": reduction.reduction(reduction.rows_mean_of_any),
    "ReduceMin": reduction.reduction(reduction.rows_min),
    "ReduceProd": reduction.reduction(reduction.rows_prod),
    "ReduceSum": reduction.reduction(reduction.rows_sum, since=13),
    "ReduceSumSquare": reduction.reduction(reduction.rows_sum_square),
    "Resize": resize.resize,
    "Round": arithmetic.unary(arithmetic.rint),
    "Sign": arithmetic.unary(arithmetic.sign),
    "Sin": trigonometry.wave("sin"),
    "STFT": fourier.stft,
    "Sub": arithmetic.sub,
    "Sum": arithmetic.sum_,
    "Upsample": resize.upsample,
}
_FUNCTIONS: dict[str, Builder] = {
    "Elu": functions.elu,
    "Erf": functions.of(records.Erf),
    "Exp": functions.of(records.Exp),
    "Gelu": functions.gelu,
    "HardSwish": functions.of(records.Hardswish),
    "Log": functions.of(records.Log),
    "Mish": functions.of(records.Mish),
    "Pow": functions.power,
    "Sigmoid": functions.of(records.Sigmoid),
    "Softplus": functions.softplus,
    "Sqrt": functions.of(records.Sqrt),
    "Tanh": functions.of(records.Tanh),
}
_QUANTIZED: dict[str, Builder] = {
    "ConvInteger": quantized.conv_integer,
    "DequantizeLinear": quantized.dequantize_linear,
    "DynamicQuantizeLinear": quantized.dynamic_quantize_linear,
    "MatMulInteger": quantized.mat_mul_integer,
    "QLinearConv": quantized.q_linear_conv,
    "QLinearMatMul": quantized.q_linear_mat_mul,
    "QuantizeLinear": quantized.quantize_linear,
}

OPERATORS: dict[str, Builder] = {
    **_MOVING,
    **_DECIDING,
    **_ARITHMETIC,
    **_FUNCTIONS,
    **_QUANTIZED,
    "Add": add,
    "AveragePool": average_pool,
    "BatchNormalization": batch_normalization,
    "Clip": clip,
    "Concat": concat,
    "Constant": constant,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Flatten": flatten,
    "Gemm": gemm,
    "GlobalAveragePool": global_average_pool,
    "GlobalLpPool": global_lp_pool,
    "GlobalMaxPool": global_max_pool,
    "GroupNormalization": group_normalization,
    "Identity": identity,
    "InstanceNormalization": instance_normalization,
    "LayerNormalization": layer_normalization,
    "LogSoftmax": log_softmax,
    "LpPool": lp_pool,
    "MatMul": matmul,
    "MaxPool": max_pool,
    "MaxUnpool": max_unpool,
    "Mul": mul,
    "NegativeLogLikelihoodLoss": losses.negative_log_likelihood_loss,
    "Pad": pad,
    "Relu": relu,
    "Reshape": reshape,
    "Softmax": softmax,
    "SoftmaxCrossEntropyLoss": losses.softmax_cross_entropy_loss,
    "Transpose": transpose,
}
"""Operator type -> its builder."""
