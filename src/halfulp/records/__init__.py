"""The operators as values: frozen, hashable, checked at construction, and nothing about how they are evaluated."""

from halfulp.records._base import Array, Interpreter, Operator, PaddingLike, PerAxis, Pullback, Shape, set_interpreter
from halfulp.records._curvature import Curvature
from halfulp.records._declaration import (
    Declaration,
    Draw,
    declaration_of,
    declarations,
    declare,
    is_declared,
    named,
)
from halfulp.records._elementwise import ElementwiseOperator
from halfulp.records._window import WindowOperator
from halfulp.records.activations import (
    Elu,
    Gelu,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyRelu,
    Mish,
    Relu,
    Relu6,
    Sigmoid,
    Silu,
    Softplus,
    Tanh,
)
from halfulp.records.adaptive_avg_pool import AdaptiveAvgPool
from halfulp.records.adaptive_max_pool import AdaptiveMaxPool
from halfulp.records.adaptive_pool import AdaptiveOperator
from halfulp.records.avg_pool import AvgPool
from halfulp.records.conv import Conv, ConvolutionOperator
from halfulp.records.conv_transpose import ConvTranspose
from halfulp.records.elementary import Abs, Erf, Exp, Expm1, Log, Log1p, Pow, Reciprocal, Rsqrt, Sqrt
from halfulp.records.fractional_max_pool import FractionalMaxPool
from halfulp.records.global_pool import GlobalAvgPool, GlobalMaxPool, GlobalMinPool, GlobalOperator
from halfulp.records.interpolate import Interpolate
from halfulp.records.linear import Linear, Matmul
from halfulp.records.loss import CrossEntropy, MSELoss
from halfulp.records.lp_pool import GlobalLpPool, LpPool
from halfulp.records.max_pool import MaxPool
from halfulp.records.max_unpool import MaxUnpool
from halfulp.records.median_pool import MedianPool
from halfulp.records.min_pool import MinPool
from halfulp.records.mode_pool import ModePool
from halfulp.records.normalization import (
    BatchNorm,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    NormalisationOperator,
)
from halfulp.records.reduction import Mean, ReductionOperator, Sum, Var
from halfulp.records.smooth_max_pool import SmoothMaxPool
from halfulp.records.softmax import LogSoftmax, Softmax, SoftmaxOperator
from halfulp.records.sum_pool import SumPool
from halfulp.records.unfold import Fold, PatchOperator, Unfold

ELEMENTWISE: tuple[type[ElementwiseOperator], ...] = (
    Abs,
    Elu,
    Erf,
    Exp,
    Expm1,
    Gelu,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyRelu,
    Log,
    Log1p,
    Mish,
    Pow,
    Reciprocal,
    Relu,
    Relu6,
    Rsqrt,
    Sigmoid,
    Silu,
    Softplus,
    Sqrt,
    Tanh,
)
"""Every elementwise function."""

__all__ = [
    "ELEMENTWISE",
    "Abs",
    "AdaptiveAvgPool",
    "AdaptiveMaxPool",
    "AdaptiveOperator",
    "Array",
    "AvgPool",
    "BatchNorm",
    "Conv",
    "ConvTranspose",
    "ConvolutionOperator",
    "CrossEntropy",
    "Curvature",
    "Declaration",
    "Draw",
    "ElementwiseOperator",
    "Elu",
    "Erf",
    "Exp",
    "Expm1",
    "Fold",
    "FractionalMaxPool",
    "Gelu",
    "GlobalAvgPool",
    "GlobalLpPool",
    "GlobalMaxPool",
    "GlobalMinPool",
    "GlobalOperator",
    "GroupNorm",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "InstanceNorm",
    "Interpolate",
    "Interpreter",
    "LayerNorm",
    "LeakyRelu",
    "Linear",
    "Log",
    "Log1p",
    "LogSoftmax",
    "LpPool",
    "MSELoss",
    "Matmul",
    "MaxPool",
    "MaxUnpool",
    "Mean",
    "MedianPool",
    "MinPool",
    "Mish",
    "ModePool",
    "NormalisationOperator",
    "Operator",
    "PaddingLike",
    "PatchOperator",
    "PerAxis",
    "Pow",
    "Pullback",
    "Reciprocal",
    "ReductionOperator",
    "Relu",
    "Relu6",
    "Rsqrt",
    "Shape",
    "Sigmoid",
    "Silu",
    "SmoothMaxPool",
    "Softmax",
    "SoftmaxOperator",
    "Softplus",
    "Sqrt",
    "Sum",
    "SumPool",
    "Tanh",
    "Unfold",
    "Var",
    "WindowOperator",
    "declaration_of",
    "declarations",
    "declare",
    "is_declared",
    "named",
    "set_interpreter",
]
