"""The operators of ONNX, one family per file. A builder reads a node's attributes and gives the function that runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from halfulp.onnx._node import Node
from halfulp.onnx.operators.convolution import conv, conv_transpose
from halfulp.onnx.operators.elementwise import add, clip, identity, mul, relu
from halfulp.onnx.operators.linear import gemm, matmul
from halfulp.onnx.operators.lp_pool import global_lp_pool, lp_pool
from halfulp.onnx.operators.max_unpool import max_unpool
from halfulp.onnx.operators.normalization import batch_normalization
from halfulp.onnx.operators.pooling import average_pool, global_average_pool, global_max_pool, max_pool
from halfulp.onnx.operators.shape import concat, constant, flatten, pad, reshape, transpose
from halfulp.onnx.operators.softmax import softmax

Builder: TypeAlias = Callable[[Node], Callable[..., Any]]

OPERATORS: dict[str, Builder] = {
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
    "Identity": identity,
    "LpPool": lp_pool,
    "MatMul": matmul,
    "MaxPool": max_pool,
    "MaxUnpool": max_unpool,
    "Mul": mul,
    "Pad": pad,
    "Relu": relu,
    "Reshape": reshape,
    "Softmax": softmax,
    "Transpose": transpose,
}
"""Operator type -> its builder."""
