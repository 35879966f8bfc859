"""Activation functions, with the arguments of ``torch.nn.functional``."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from halfulp.errors import PolicyError
from halfulp.records import _elementwise_curvature as bend
from halfulp.records._elementwise import ElementwiseOperator, declare_function


@dataclass(frozen=True, repr=False, eq=False)
class Relu(ElementwiseOperator):
    """x where x > 0, else +0. The derivative at 0 is 0.

    >>> import numpy as np
    >>> Relu()(np.array([-1.0, 2.0]))
    array([0., 2.])
    """


@dataclass(frozen=True, repr=False, eq=False)
class LeakyRelu(ElementwiseOperator):
    """x where x > 0, else negative_slope * x. The derivative at 0 is negative_slope."""

    negative_slope: float = 0.01


@dataclass(frozen=True, repr=False, eq=False)
class Elu(ElementwiseOperator):
    """x where x > 0, else alpha * (exp(x) - 1). The derivative at 0 is alpha."""

    alpha: float = 1.0


@dataclass(frozen=True, repr=False, eq=False)
class Sigmoid(ElementwiseOperator):
    """1 / (1 + exp(-x))."""


@dataclass(frozen=True, repr=False, eq=False)
class Tanh(ElementwiseOperator):
    """The hyperbolic tangent."""


@dataclass(frozen=True, repr=False, eq=False)
class Softplus(ElementwiseOperator):
    """log(1 + exp(beta * x)) / beta; x itself where beta * x > threshold, as in PyTorch."""

    beta: float = 1.0
    threshold: float = 20.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beta == 0:
            raise PolicyError(self.name, f"beta={self.beta!r}", "must be a finite real number other than 0", "S1")


@dataclass(frozen=True, repr=False, eq=False)
class Gelu(ElementwiseOperator):
    """x times the probability that a normal number is below x; ``"tanh"`` is the well known formula near it.

    The formula is x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))), with these very numbers.
    """

    approximate: str = "none"

    def __post_init__(self) -> None:
        if self.approximate not in ("none", "tanh"):
            raise PolicyError(self.name, f"approximate={self.approximate!r}", "must be 'none' or 'tanh'", "H2")

    @property
    def function(self) -> str:
        return "gelu" if self.approximate == "none" else "gelu_tanh"


@dataclass(frozen=True, repr=False, eq=False)
class Silu(ElementwiseOperator):
    """x * sigmoid(x)."""


@dataclass(frozen=True, repr=False, eq=False)
class Mish(ElementwiseOperator):
    """x * tanh(log(1 + exp(x)))."""


@dataclass(frozen=True, repr=False, eq=False)
class Hardswish(ElementwiseOperator):
    """x * (x + 3) / 6 inside (-3, 3), 0 below, x above. The derivative is 0 at -3 and 1 at 3."""


@dataclass(frozen=True, repr=False, eq=False)
class Hardsigmoid(ElementwiseOperator):
    """(x + 3) / 6 inside (-3, 3), 0 below, 1 above. The derivative at the ends is 0."""


@dataclass(frozen=True, repr=False, eq=False)
class Hardtanh(ElementwiseOperator):
    """x inside [min_val, max_val], else the nearer end. The derivative at the ends is 0.

    >>> import numpy as np
    >>> Hardtanh(0.0, 6.0)(np.array([-1.0, 2.0, 8.0]))
    array([0., 2., 6.])
    """

    min_val: float = -1.0
    max_val: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.min_val <= self.max_val:
            raise PolicyError(
                self.name,
                f"min_val={self.min_val!r}, max_val={self.max_val!r}",
                "min_val must not exceed max_val",
                "H3",
            )


@dataclass(frozen=True, repr=False, eq=False)
class Relu6(ElementwiseOperator):
    """x inside [0, 6], else the nearer end: Hardtanh(0, 6)."""

    @property
    def function(self) -> str:
        return "hardtanh"

    @property
    def parameters(self) -> tuple[Fraction, ...]:
        return Fraction(0), Fraction(6)


_X = "np.array([-1.0, 0.0, 2.0])"
_PIECES: dict[str, Any] = {"kind": "selecting", "examples": (_X,)}
declare_function(Relu, "none", **_PIECES, module="ReLU", onnx=("Relu",), summary="x where x > 0, else 0")
declare_function(
    LeakyRelu,
    "none",
    {"negative_slope": (0.01, 0.25, 0.0, 2.0, -1.0)},
    **_PIECES,
    module="LeakyReLU",
    onnx=("LeakyRelu",),
    summary="x where x > 0, else ``negative_slope * x``",
)
declare_function(
    Elu,
    bend.bent("elu", bend.elu),
    {"alpha": (1.0, 0.5, 2.5)},
    examples=(_X,),
    module="ELU",
    onnx=("Elu",),
    summary="x where x > 0, else ``alpha * (exp(x) - 1)``",
)
declare_function(
    Sigmoid,
    bend.bent("sigmoid", bend.sigmoid),
    examples=(_X,),
    module="",
    onnx=("Sigmoid",),
    summary="1 / (1 + exp(-x)) of every element",
)
declare_function(
    Tanh,
    bend.bent("tanh", bend.tanh),
    examples=(_X,),
    module="",
    onnx=("Tanh",),
    summary="The hyperbolic tangent of every element",
)
declare_function(
    Softplus,
    bend.bent("softplus", bend.softplus),
    {"beta": (1.0, 2.0, 0.3, -1.0), "threshold": (20.0, 3.0)},
    examples=(_X,),
    module="",
    onnx=("Softplus",),
    summary="log(1 + exp(beta * x)) / beta, and x itself where ``beta * x > threshold``",
)
declare_function(
    Gelu,
    bend.bent("gelu", bend.gelu),
    {"approximate": ("none", "tanh")},
    examples=(_X,),
    module="GELU",
    onnx=("Gelu",),
    summary="x times the probability that a normal number is below x",
)
declare_function(
    Silu, bend.bent("silu", bend.silu), examples=(_X,), module="SiLU", summary="x * sigmoid(x) of every element"
)
declare_function(
    Mish,
    bend.bent("mish", bend.mish),
    examples=(_X,),
    module="",
    onnx=("Mish",),
    summary="x * tanh(log(1 + exp(x))) of every element",
)
declare_function(
    Hardswish,
    bend.bent("hardswish", bend.hardswish),
    examples=(_X,),
    module="",
    onnx=("HardSwish",),
    summary="x * (x + 3) / 6 inside (-3, 3), 0 below, x above",
)
declare_function(Hardsigmoid, "none", **_PIECES, module="", summary="(x + 3) / 6 inside (-3, 3), 0 below, 1 above")
declare_function(
    Hardtanh,
    "none",
    {"min_val": (-1.0, 0.0, -2.5), "max_val": (1.0, 6.0, 0.0)},
    **_PIECES,
    module="",
    summary="x inside [min_val, max_val], else the nearer end",
)
declare_function(Relu6, "none", **_PIECES, module="ReLU6", summary="x inside [0, 6], else the nearer end")
