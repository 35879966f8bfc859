"""Elementary functions of single numbers: exp, log, roots, powers, erf and the like."""

from __future__ import annotations

from dataclasses import dataclass

from halfulp.records import _elementwise_curvature as bend
from halfulp.records._elementwise import ElementwiseOperator, declare_function


@dataclass(frozen=True, repr=False, eq=False)
class Exp(ElementwiseOperator):
    """e to the power x.

    >>> import numpy as np
    >>> Exp()(np.array([0.0, 1.0]))
    array([1.        , 2.71828183])
    """


@dataclass(frozen=True, repr=False, eq=False)
class Expm1(ElementwiseOperator):
    """exp(x) - 1."""


@dataclass(frozen=True, repr=False, eq=False)
class Log(ElementwiseOperator):
    """The natural logarithm; -inf at 0, NaN below."""


@dataclass(frozen=True, repr=False, eq=False)
class Log1p(ElementwiseOperator):
    """log(1 + x)."""


@dataclass(frozen=True, repr=False, eq=False)
class Sqrt(ElementwiseOperator):
    """The square root; NaN below 0."""


@dataclass(frozen=True, repr=False, eq=False)
class Rsqrt(ElementwiseOperator):
    """1 / sqrt(x)."""


@dataclass(frozen=True, repr=False, eq=False)
class Reciprocal(ElementwiseOperator):
    """1 / x."""


@dataclass(frozen=True, repr=False, eq=False)
class Abs(ElementwiseOperator):
    """The absolute value; its derivative at 0 is 0."""


@dataclass(frozen=True, repr=False, eq=False)
class Erf(ElementwiseOperator):
    """The error function, 2 / sqrt(pi) times the integral of exp(-u^2) from 0 to x."""


@dataclass(frozen=True, repr=False, eq=False)
class Pow(ElementwiseOperator):
    """x to a fixed power; NaN where x < 0 and the exponent is not whole, and 1 everywhere if the exponent is 0.

    >>> import numpy as np
    >>> Pow(2)(np.array([-3.0, 0.5]))
    array([9.  , 0.25])
    """

    exponent: float


_X, _FROM_0 = "np.array([0.25, 1.0, 4.0])", "np.array([0.0, 1.0])"
declare_function(Exp, bend.exponential, "e to the power of every element", example=_FROM_0, onnx="Exp")
declare_function(Expm1, bend.exponential, "exp(x) - 1 of every element", example=_FROM_0)
declare_function(Log, bend.logarithm, "The natural logarithm of every element", example=_X, onnx="Log")
declare_function(Log1p, bend.logarithm, "log(1 + x) of every element", example=_FROM_0)
declare_function(Sqrt, bend.square_root, "The square root of every element", example=_X, onnx="Sqrt")
declare_function(Rsqrt, bend.inverse_square_root, "1 / sqrt(x) of every element", example=_X)
declare_function(Reciprocal, bend.inverse, "1 / x of every element", example=_X, onnx="Reciprocal")
declare_function(Abs, None, "The absolute value of every element", example="np.array([-2.0, 3.0])", onnx="Abs")
declare_function(Erf, bend.error_function, "The error function of every element", example=_FROM_0, onnx="Erf")
declare_function(
    Pow,
    bend.power,
    "Every element to a fixed power",
    {"exponent": (2.0, 3.0, 0.5, -1.0, 2.5, 0.1, 0.0, 1.0, -2.0)},
    example="np.array([-3.0, 0.5]), 2",
    onnx="Pow",
)
