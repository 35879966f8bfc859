"""The record of smooth max pooling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import flint
import numpy as np

from halfulp.errors import ShapeError
from halfulp.records._base import PaddingLike, PerAxis, is_integer
from halfulp.records._window import WindowOperator


@dataclass(frozen=True, repr=False)
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

    base_name: ClassVar[str] = "smooth_max_pool"

    def __post_init__(self) -> None:
        self._normalise_window()
        object.__setattr__(self, "beta", _checked_beta(self.name, self.beta))


def _checked_beta(operator: str, beta: Any) -> Any:
    """A finite real other than 0: a number, a rational, or a ball that excludes 0."""
    if is_integer(beta):
        beta = int(beta)
    elif isinstance(beta, np.floating):
        beta = float(beta)
    if isinstance(beta, (bool, np.bool_, complex, str)):
        usable = False
    elif isinstance(beta, float):
        usable = math.isfinite(beta) and beta != 0
    elif isinstance(beta, flint.arb):
        usable = beta.is_finite() and not beta.contains(0)
    else:
        try:
            usable = bool(beta != 0)
        except (TypeError, ValueError):
            usable = False
    if not usable or beta is None:
        raise ShapeError(operator, f"beta={beta!r}", "must be a finite real number other than 0", "S1")
    return beta
