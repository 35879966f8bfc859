"""Activation functions, with the arguments of ``torch.nn.functional``."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

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


declare_function(Relu, None, "x where x > 0, else 0", module="ReLU", onnx="Relu", inplace=True)
declare_function(
    LeakyRelu,
    None,
    "x where x > 0, else ``negative_slope * x``",
    {"negative_slope": (0.01, 0.25, 0.0, 2.0, -1.0)},
    module="LeakyReLU",
    onnx="LeakyRelu",
    inplace=True,
)
declare_function(
    Elu,
    bend.elu,
    "x where x > 0, else ``alpha * (exp(x) - 1)``",
    {"alpha": (1.0, 0.5, 2.5)},
    module="ELU",
    onnx="Elu",
    inplace=True,
)
declare_function(Sigmoid, bend.sigmoid, "1 / (1 + exp(-x)) of every element", module="", onnx="Sigmoid")
declare_function(Tanh, bend.tanh, "The hyperbolic tangent of every element", module="", onnx="Tanh")
declare_function(
    Softplus,
    bend.softplus,
    "log(1 + exp(beta * x)) / beta, and x itself where ``beta * x > threshold``",
    {"beta": (1.0, 2.0, 0.3, -1.0), "threshold": (20.0, 3.0)},
    module="",
    onnx="Softplus",
)
declare_function(
    Gelu,
    bend.gelu,
    "x times the probability that a normal number is below x",
    {"approximate": ("none", "tanh")},
    module="GELU",
    onnx="Gelu",
)
declare_function(Silu, bend.silu, "x * sigmoid(x) of every element", module="SiLU", inplace=True)
declare_function(Mish, bend.mish, "x * tanh(log(1 + exp(x))) of every element", module="", onnx="Mish", inplace=True)
declare_function(
    Hardswish,
    bend.hardswish,
    "x * (x + 3) / 6 inside (-3, 3), 0 below, x above",
    module="",
    onnx="HardSwish",
    inplace=True,
)
declare_function(Hardsigmoid, None, "(x + 3) / 6 inside (-3, 3), 0 below, 1 above", module="", inplace=True)
declare_function(
    Hardtanh,
    None,
    "x inside [min_val, max_val], else the nearer end",
    {"min_val": (-1.0, 0.0, -2.5), "max_val": (1.0, 6.0, 0.0)},
    module="",
    inplace=True,
)
declare_function(Relu6, None, "x inside [0, 6], else the nearer end", module="ReLU6", inplace=True)
