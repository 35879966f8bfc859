"""The record of smooth max pooling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from halfulp.errors import PolicyError
from halfulp.numbers import flint
from halfulp.records._base import PaddingLike, PerAxis, is_integer
from halfulp.records._curvature import SOFTMAX
from halfulp.records._declaration import Draw, declare
from halfulp.records._window import WindowOperator


@dataclass(frozen=True, repr=False, eq=False)
class SmoothMaxPool(WindowOperator):
    """(1/beta) * log(sum(exp(beta * x))) over every window; padded cells count as zeros.

    It tends to the maximum as ``beta`` grows, and to the minimum as ``beta`` falls below zero.

    >>> import numpy as np
    >>> SmoothMaxPool((2,), beta=1.0)(np.array([0.0, 0.0]))
    array([0.69314718])
    """

    kernel_size: PerAxis
    beta: Any
    stride: PerAxis = None
    padding: PaddingLike = 0
    dilation: PerAxis = 1
    ceil_mode: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "beta", _checked_beta(self.name, self.beta))


def _checked_beta(operator: str, beta: Any) -> Any:
    """A finite real other than 0, as an int, float, Fraction, ball that excludes 0, or symbol."""
    if is_integer(beta):
        beta = int(beta)
    elif isinstance(beta, np.floating):
        beta = float(beta)
    elif not isinstance(beta, (float, Fraction)):
        beta = _from_flint(beta)
    if isinstance(beta, (int, float, Fraction)) and not isinstance(beta, bool):
        usable = beta != 0 and not (isinstance(beta, float) and not math.isfinite(beta))
    elif isinstance(beta, flint.arb):
        usable = beta.is_finite() and not beta.contains(0)
    else:  # of a symbol nothing is known but that it may be such a number
        usable = getattr(beta, "is_extended_real", False) is not False and getattr(beta, "is_finite", True) is not False
        usable = usable and getattr(beta, "is_zero", False) is not True
    if not usable:
        raise PolicyError(operator, f"beta={beta!r}", "must be a finite real number other than 0", "S1")
    return beta


def _from_flint(beta: Any) -> Any:
    """The Python number that a rational or integer of flint is; anything else as it is."""
    if isinstance(beta, flint.fmpz):
        return int(beta)
    return Fraction(int(beta.p), int(beta.q)) if isinstance(beta, flint.fmpq) else beta


declare(
    SmoothMaxPool,
    kind="smooth",
    curvature=SOFTMAX,
    draw=Draw("window", beta=(1.0, 0.5, -1.0, 8.0), terms=260),
    summary="(1/beta) * log(sum(exp(beta * x))) over every window, correctly rounded; padded cells count as zeros",
    extra="beta=1.0",
    torch=False,
)
