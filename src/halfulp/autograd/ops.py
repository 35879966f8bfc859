"""The functions to write networks with, besides convolution and pooling: ``from halfulp import ops``.

They take arrays and traced values alike, of floats or of exact scalars.

>>> import numpy as np
>>> from halfulp import ops
>>> ops.relu(ops.linear(np.array([1.0, -2.0]), np.array([[3.0, 1.0], [1.0, 1.0]])))
array([1., 0.])
"""

from halfulp.autograd.operators.arithmetic import add, div, mul, neg, power, sub
from halfulp.autograd.operators.linear import linear, matmul
from halfulp.autograd.operators.loss import cross_entropy, log_softmax, mse
from halfulp.autograd.operators.reduction import mean
from halfulp.autograd.operators.reduction import sum_ as sum  # the module is a namespace; do not import * from it
from halfulp.autograd.operators.shape import broadcast_to, concatenate, flatten, index, reshape, transpose
from halfulp.autograd.traced import apply
from halfulp.functional import erf, exp, gelu, log, relu, sigmoid, silu, softplus, sqrt, tanh

__all__ = [
    "add",
    "apply",
    "broadcast_to",
    "concatenate",
    "cross_entropy",
    "div",
    "erf",
    "exp",
    "flatten",
    "gelu",
    "index",
    "linear",
    "log",
    "log_softmax",
    "matmul",
    "mean",
    "mse",
    "mul",
    "neg",
    "power",
    "relu",
    "reshape",
    "sigmoid",
    "silu",
    "softplus",
    "sqrt",
    "sub",
    "sum",
    "tanh",
    "transpose",
]
