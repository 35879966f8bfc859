"""The records of power-mean pooling: the p-norm of every window, and of all cells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from halfulp.errors import PolicyError
from halfulp.records._base import PaddingLike, PerAxis, is_integer, ranked
from halfulp.records._curvature import NORM
from halfulp.records._declaration import Draw, declare
from halfulp.records._window import WindowOperator
from halfulp.records.global_pool import GlobalOperator


@dataclass(frozen=True, repr=False, eq=False)
class LpPool(WindowOperator):
    """The p-norm (sum of |x|^p)^(1/p) of every window, for real p >= 1; the largest |x| for p = infinity.

    Padded cells are zeros. The derivative of a cell is sign(x) * (|x| / y)^(p-1), and 0 where x is 0; for p = infinity
    the cells with |x| = y share it evenly.

    >>> import numpy as np
    >>> LpPool((2,), 2)(np.array([3.0, -4.0]))
    array([5.])
    >>> LpPool((2,), float("inf"))(np.array([3.0, -4.0]))
    array([4.])
    """

    kernel_size: PerAxis
    p: Any
    stride: PerAxis = None
    padding: PaddingLike = 0
    dilation: PerAxis = 1
    ceil_mode: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "p", _checked_p(self.name, self.p))


@dataclass(frozen=True, repr=False, eq=False)
class GlobalLpPool(GlobalOperator):
    """The p-norm of all cells; ``keepdims`` keeps every spatial axis with size 1.

    >>> import numpy as np
    >>> GlobalLpPool(2, 2)(np.array([[1.0, 2.0], [2.0, 4.0]]))
    array([[5.]])
    """

    ndim: int
    p: Any
    keepdims: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "p", _checked_p(ranked(self.base_name, self.ndim), self.p))


def _checked_p(operator: str, p: Any) -> Any:
    """A real number >= 1 as an int, Fraction or float (infinity among them); a float that is an integer as an int."""
    value = float(p) if isinstance(p, np.floating) else int(p) if is_integer(p) else p
    real = isinstance(value, (int, float, Fraction)) and not isinstance(value, bool)
    if not real or not value >= 1:
        raise PolicyError(operator, f"p={p!r}", "must be a real number >= 1, or infinity", "L1")
    return int(value) if value != math.inf and value == int(value) else value


declare(
    LpPool,
    kind="smooth",
    curvature=NORM,
    draw=Draw("window", p=(2, 1, 3, 1.5, math.inf), terms=1000),
    order=("p", "kernel_size", "stride", "ceil_mode"),
    keywords=("padding", "dilation"),
    renamed={"p": "norm_type"},
    summary="The p-norm of every window, correctly rounded",
    note="``norm_type`` is p: a real number of at least 1, or infinity. It is the norm of |x|, also for odd p.",
    extra="norm_type=2",
    module="LPPool",
    onnx=("LpPool",),
)
declare(
    GlobalLpPool,
    kind="smooth",
    curvature=NORM,
    draw=Draw("global", p=(2, 1, 3, 1.5, math.inf), terms=1000),
    summary="The p-norm over the last ``ndim`` axes, correctly rounded; ``keepdims`` keeps them with size 1",
    extra="p=2",
    torch=False,
    onnx=("GlobalLpPool",),
)
