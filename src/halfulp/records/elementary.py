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


_X = "np.array([0.25, 1.0, 4.0])"
declare_function(
    Exp,
    bend.bent("exp", bend.exponential),
    summary="e to the power of every element",
    examples=("np.array([0.0, 1.0])",),
    onnx=("Exp",),
)
declare_function(
    Expm1,
    bend.bent("expm1", bend.exponential),
    summary="exp(x) - 1 of every element",
    examples=("np.array([0.0, 1.0])",),
)
declare_function(
    Log,
    bend.bent("log", bend.logarithm),
    summary="The natural logarithm of every element",
    examples=(_X,),
    onnx=("Log",),
)
declare_function(
    Log1p, bend.bent("log1p", bend.logarithm), summary="log(1 + x) of every element", examples=("np.array([0.0, 1.0])",)
)
declare_function(
    Sqrt,
    bend.bent("sqrt", bend.square_root),
    summary="The square root of every element",
    examples=(_X,),
    onnx=("Sqrt",),
)
declare_function(
    Rsqrt, bend.bent("rsqrt", bend.inverse_square_root), summary="1 / sqrt(x) of every element", examples=(_X,)
)
declare_function(
    Reciprocal,
    bend.bent("reciprocal", bend.inverse),
    summary="1 / x of every element",
    examples=(_X,),
    onnx=("Reciprocal",),
)
declare_function(
    Abs,
    "none",
    kind="selecting",
    summary="The absolute value of every element",
    examples=("np.array([-2.0, 3.0])",),
    onnx=("Abs",),
)
declare_function(
    Erf,
    bend.bent("erf", bend.error_function),
    summary="The error function of every element",
    examples=("np.array([0.0, 1.0])",),
    onnx=("Erf",),
)
declare_function(
    Pow,
    bend.bent("pow", bend.power),
    {"exponent": (2.0, 3.0, 0.5, -1.0, 2.5, 0.1, 0.0, 1.0, -2.0)},
    summary="Every element to a fixed power",
    examples=("np.array([-3.0, 0.5]), 2",),
    onnx=("Pow",),
)
